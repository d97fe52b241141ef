"""The tree of errors, its docstring, and the translation of the packages below."""

from __future__ import annotations

import pytest

from kernel_gateway import errors
from kernels import errors as below
from workspace_sync import errors as sync


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    for error in errors.every_error():
        if error.__module__ != errors.__name__:
            continue  # a face's own, which its module draws
        line = next(line for line in (errors.__doc__ or "").splitlines() if f"─ {error.__name__} " in line)
        assert error.code in line
        assert str(error.status) in line


def test_codes_are_unique_but_for_the_root() -> None:
    codes = [error.code for error in errors.every_error()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (below.GuestRefused(404, "not_found", "no such file"), errors.NotFound),
        (below.GuestRefused(507, "no_space", "full"), errors.NoSpace),
        (below.GuestRefused(400, "invalid_path", "no"), errors.InvalidRequest),
        (below.GuestRefused(429, "too_many_uploads", "16 are under way"), errors.LimitReached),
        (below.GuestRefused(500, "failed", "no"), errors.SandboxUnavailable),
        (below.SandboxGone("gone"), errors.SandboxUnavailable),
        (below.DeadlineExceeded("late"), errors.DeadlinePassed),
        (sync.StoreUnavailable("away"), errors.StoreUnavailable),
        (sync.StoreRefused("no"), errors.StoreUnavailable),
        (sync.IllegalName("no"), errors.InvalidRequest),
        (sync.ObjectNotFound("no"), errors.NotFound),
        (TimeoutError(), errors.DeadlinePassed),
        (RuntimeError("secret"), errors.InternalError),
    ],
)
def test_every_error_below_has_a_place_above(theirs: Exception, ours: type[errors.GatewayError]) -> None:
    translated = errors.translate(theirs)
    assert type(translated) is ours
    assert "secret" not in translated.message


def test_an_error_on_the_wire() -> None:
    body = errors.QueueFull("full", retry_after_seconds=2).body()
    assert body == {"error": {"code": "queue_full", "message": "full", "retryable": True, "retry_after_seconds": 2}}
