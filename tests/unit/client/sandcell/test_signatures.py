"""Every method says in `help()` what it takes and gives; the blocking and the asyncio side have the same methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from sandcell import AsyncClient, AsyncSession, Client, Session

PAIRS = [(Client, AsyncClient), (Session, AsyncSession)]
FOR_OPERATIONS = {"carry_out"}


def methods(of: type) -> Iterator[tuple[str, Any]]:
    for name, method in vars(of).items():
        if not name.startswith("_") and inspect.isfunction(method):
            yield name, method


@pytest.mark.parametrize("of", [kind for pair in PAIRS for kind in pair], ids=lambda kind: kind.__name__)
def test_every_method_has_a_signature_and_a_docstring(of: type) -> None:
    for name, method in methods(of):
        if name in FOR_OPERATIONS:
            continue
        signature = inspect.signature(method)
        assert method.__doc__, name
        assert method.__name__ == name
        assert "Operation" not in str(signature), name
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}, name
        assert signature.return_annotation is not inspect.Signature.empty, name


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS, ids=["client", "session"])
def test_both_sides_take_the_same(blocking: type, asynchronous: type) -> None:
    ours, theirs = dict(methods(blocking)), dict(methods(asynchronous))
    assert set(ours) - {"close"} == set(theirs) - {"aclose"}
    for name in set(ours) & set(theirs):
        one, other = inspect.signature(ours[name]), inspect.signature(theirs[name])
        assert [(each.name, each.kind, each.default) for each in one.parameters.values()] == [
            (each.name, each.kind, each.default) for each in other.parameters.values()
        ], name


def test_help_shows_what_run_takes() -> None:
    shown = str(inspect.signature(Session.run))
    assert shown.startswith("(self, code: 'str', *, on_output: ")
    assert "timeout: 'float | None' = None" in shown
    assert shown.endswith("-> 'Result'")
    assert str(inspect.signature(Client.get_session)) == "(self, /, session_id: 'str') -> 'Session'"
    assert inspect.iscoroutinefunction(AsyncClient.get_session)
