"""The client's wheel in an environment that has jupyter-kernel-gateway, whose package is named like the service's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import client_environments
from tests.conftest import REPOSITORY
from tests.running_service import RunningService

CLIENTS = Path(__file__).parent / "clients"
COMMAND_SECONDS = 240
WITH_THE_SERVICE = "import sys; sys.path.append(sys.argv.pop(1)); from sandcell.__main__ import main; main()"
"""The command with one more directory at the end of the path, where editable installs have theirs."""


class Person:
    """Runs programs of an environment, in a home of their own."""

    def __init__(self, place: Path, home: Path) -> None:
        self.bin = place / "bin"
        self.home = home

    def run(self, *command: str, status: int = 0) -> str:
        """What a program said; it ends with this status."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("SANDCELL_")}
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            env={**variables, "HOME": str(self.home)},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == status, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def build_wheel(source: Path, python: Path, directory: Path) -> Path:
    """A wheel of one of our distributions, by the tools of that environment."""
    command = [str(python), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=COMMAND_SECONDS)
    return next(directory.glob("*.whl"))


def install(wheel: Path, python: Path, *options: str) -> None:
    """Install a wheel and nothing else."""
    uv = str(Path(sys.executable).parent / "uv")
    given = ["--quiet", "--offline", "--no-deps", "--reinstall", "--python", str(python), *options]
    client_environments.run([uv, "pip", "install", *given, str(wheel)], dict(os.environ))


@pytest.fixture(scope="module")
def person(environments_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """A user with the client's wheel, as it is now, next to Jupyter."""
    place = client_environments.installed(CLIENTS / "with_jupyter", environments_dir.parent / "sandcell-clients")
    python = place / "bin" / "python"
    install(build_wheel(REPOSITORY / "client", python, tmp_path_factory.mktemp("wheel")), python)
    return Person(place, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def service_package(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service's wheel, unpacked into a directory of its own."""
    wheel = build_wheel(REPOSITORY, person.bin / "python", tmp_path_factory.mktemp("wheel"))
    place = tmp_path_factory.mktemp("service")
    install(wheel, person.bin / "python", "--target", str(place))
    return place


def test_the_library_works_and_so_does_the_other_kernel_gateway(person: Person, service: RunningService) -> None:
    script = str(CLIENTS / "scripts" / "with_sandcell.py")
    said = json.loads(person.run("python", script, service.url, service.token))
    assert said == {
        "text": "hello",
        "plot": ["image/png"],
        "shell": "hello",
        "absent": "not_found",
        "events": ["started", "stream", "ended"],
        "kernel_gateway": "jupyter_core.application",
    }
    assert person.run("jupyter-kernelgateway", "--version").strip() == "3.0.1"


def test_the_command_works(person: Person, service: RunningService) -> None:
    access = ("--url", service.url, "--token", service.token)
    assert "new session" in person.run("sandcell", "run", "x = 41", *access)
    assert person.run("sandcell", "run", "x + 1", *access).strip() == "42"
    assert "stopped" in person.run("sandcell", "session", "stop", *access)


def test_its_help_names_its_own_verbs(person: Person) -> None:
    shown = person.run("sandcell", "--help")
    assert "\n  run " in shown
    assert "\n  serve " not in shown


@pytest.mark.parametrize("verb", ["serve", "doctor", "kernelspec"])
def test_a_verb_of_the_service_says_what_to_install(person: Person, verb: str) -> None:
    assert "install sandcell-server" in person.run("sandcell", verb, status=7)


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("audit", "verify"), ("environments", "build", "python")])
def test_the_other_kernel_gateway_in_the_way_is_named(
    person: Person, service_package: Path, words: tuple[str, ...]
) -> None:
    said = person.run("python", "-c", WITH_THE_SERVICE, str(service_package), *words, status=7)
    assert "jupyter-kernel-gateway" in said
    assert "environment of its own" in said
    assert "Traceback" not in said
