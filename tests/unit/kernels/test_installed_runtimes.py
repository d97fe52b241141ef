"""Runtimes by entry point: ours and other distributions', on a path that has their metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import installed_runtimes
from kernels.errors import RuntimeUnusable
from kernels.oci.command import CRUN, RUNC, RUNSC, OciCommand, find_program
from kernels.runtimes import open_runtime
from kernels.sandbox import RuntimeSettings

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution's metadata and module on the path."""
    place = tmp_path / "site-packages"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))

    def put(name: str, code: str, **entry_points: str) -> None:
        metadata = place / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{each} = {name}:{value}" for each, value in entry_points.items()]
        (metadata / "entry_points.txt").write_text("\n".join(["[sandcell.runtimes]", *lines, ""]))
        (place / f"{name}.py").write_text(code)

    return put


def settings(tmp_path: Path, *names: str) -> RuntimeSettings:
    return RuntimeSettings(names[0], tmp_path, Path("/run/sandcell"), more_runtimes=names[1:])


def test_those_of_this_distribution_are_found_like_any_other() -> None:
    assert {"runc", "crun", "runsc"} <= set(installed_runtimes.names())
    assert (find_program("runc"), find_program("crun"), find_program("runsc")) == (RUNC, CRUN, RUNSC)


def test_an_oci_program_of_another_distribution_is_called_as_it_says(install: Install, tmp_path: Path) -> None:
    install("theirs", "from kernels.oci.command import OciProgram\nONE = OciProgram('youki', top=True)\n", youki="ONE")
    assert "youki" in installed_runtimes.names()
    command = OciCommand("youki", tmp_path)
    assert (command.name, command.program, command.groups_at_top) == ("youki", "youki", True)


def test_a_function_opens_a_runtime_that_is_no_oci_program(install: Install, tmp_path: Path) -> None:
    install("cloud", "def start(settings):\n    return ('a runtime', settings)\n", cloud="start")
    assert open_runtime(settings(tmp_path, "cloud")) == ("a runtime", settings(tmp_path, "cloud"))  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("names", [("cloud", "runc"), ("runc", "cloud")])
def test_one_that_is_no_oci_program_shares_no_service(install: Install, tmp_path: Path, names: tuple[str, ...]) -> None:
    install("cloud", "def start(settings):\n    return settings\n", cloud="start")
    with pytest.raises(RuntimeUnusable, match="'cloud' is no OCI program"):
        open_runtime(settings(tmp_path, *names))


def test_one_name_of_two_distributions_is_refused(install: Install) -> None:
    install("fake_runc", "RUNC = 1\n", runc="RUNC")
    assert installed_runtimes.names().count("runc") == 1
    with pytest.raises(
        RuntimeUnusable, match=r"several distributions bring a runtime 'runc' \(fake_runc, sandcell-server\)"
    ):
        installed_runtimes.find("runc")


def test_one_that_cannot_be_imported_is_refused_and_keeps_nobody_from_the_others(install: Install) -> None:
    install("broken", "raise OSError('no cluster')\n", broken="start", gone="start")
    assert {"broken", "runc"} <= set(installed_runtimes.names())
    with pytest.raises(RuntimeUnusable, match=r"'broken' \(broken:start\) cannot be loaded: no cluster"):
        installed_runtimes.find("broken")
    assert find_program("runc") == RUNC


@pytest.mark.parametrize("name", ["docker", "", "Runc", "../runc", "runc\n", "-x", "a" * 33])
def test_a_name_that_is_none_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(RuntimeUnusable, match=r"installed are: .*runsc"):
        installed_runtimes.find(name)


def test_a_name_that_the_launcher_would_not_take_is_passed_over(install: Install) -> None:
    install("odd", "ONE = 1\n", UPPER="ONE", **{"-x": "ONE", "fine-2": "ONE"})
    found = set(installed_runtimes.names())
    assert "fine-2" in found
    assert not found & {"UPPER", "-x"}
