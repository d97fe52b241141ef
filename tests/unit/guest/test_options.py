"""The guest's command line, and the environment it makes of it."""

from __future__ import annotations

import pytest

from kernels.guest.options import parse_options


def test_defaults_are_those_of_a_sandbox() -> None:
    options = parse_options([])
    assert (options.generation, options.user, options.python) == (1, 1000, "/usr/bin/python3")
    assert (options.workspace, options.http_socket) == ("/workspace", "/run/sandcell/guest/http.sock")


def test_values_take_the_type_of_their_default() -> None:
    options = parse_options(["--generation", "7", "--vcpus", "1.16", "--transport", "/t"])
    assert (options.generation, options.vcpus, options.kernel_directory) == (7, 1.16, "/t/kernel")


@pytest.mark.parametrize(
    "arguments",
    [["--nope", "1"], ["generation", "1"], ["--generation"], ["--generation", "one"], ["--http_socket", "/x"]],
)
def test_anything_else_ends_the_guest(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="guest: "):
        parse_options(arguments)


@pytest.mark.parametrize(("vcpus", "threads"), [("0.3", "1"), ("1", "1"), ("1.16", "2"), ("4", "4")])
def test_numerical_libraries_use_the_cpus_there_are(vcpus: str, threads: str) -> None:
    environment = parse_options(["--vcpus", vcpus]).environment()
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    assert {environment[name] for name in names} == {threads}


def test_nothing_of_the_guest_s_own_environment_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    assert set(parse_options([]).environment()) == {
        "HOME", "USER", "LANG", "PATH", "MPLBACKEND",
        "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    }  # fmt: skip
