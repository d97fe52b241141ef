"""What an ordinary user with sudo meets: the doctor, the token's file, settings handed to root, the greeting."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandcell import exits
from tests import leftovers
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.running_service import RunningService

REPOSITORY = Path(__file__).parent.parent.parent.parent.parent
USER = 12_345
DOCTOR = """
import os, sys
import click
from sandcell.cli.main import sandcell
group = sandcell
for word in ("doctor",):
    verb = group.get_command(click.Context(group), word)
    group.add_command(verb)
    group = verb
import encodings.idna, shlex, kernel_gateway.server.doctor, rich.segment
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
sandcell(["doctor", *sys.argv[2:]])
"""
"""What it imports is loaded before: the interpreter may lie where only root may look."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users may pass through."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def home(place: Path) -> Path:
    """The home of a user who has no ~/.config."""
    directory = place / "home"
    directory.mkdir()
    os.chown(directory, USER, USER)
    return directory


@pytest.mark.parametrize("mode", [0o711, 0o700])
@pytest.mark.parametrize("more", [[], ["--host-only"]])
def test_the_doctor_of_an_ordinary_user_says_what_it_sees(place: Path, mode: int, more: list[str]) -> None:
    """After a service of root's has left its directories."""
    data, run = place / "data", place / "run"
    for each in (data / "state", data / "sandboxes", data / "environments", run):
        each.mkdir(parents=True, mode=0o700)
    data.chmod(mode)
    run.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR, str(USER), *more],
        env={**os.environ, "SANDCELL_DATA_DIR": str(data), "SANDCELL_RUN_DIR": str(run), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == exits.REFUSED, done.stdout + done.stderr
    assert f"NO\troot\teffective uid {USER}\trun the service as root (sudo)" in done.stdout
    assert "runtime runc\trunc version" in done.stdout
    assert done.stderr.splitlines()[-1] == "sandcell: this host does not do yet: see the lines that begin with NO"


@pytest.mark.parametrize("said", [{}, {"XDG_CONFIG_HOME": "{home}/own/settings"}])
def test_what_root_makes_in_a_home_for_the_token_is_its_owners(home: Path, said: dict[str, str]) -> None:
    directory = home / ("own/settings" if said else ".config")
    code = "from kernel_gateway.server.token_file import open_token_file; print(open_token_file())"
    variables = {name: value.format(home=home) for name, value in said.items()}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "HOME": str(home), **variables},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert str(directory / "sandcell/client.toml") in done.stdout
    assert {path.stat().st_uid for path in home.glob("**/*")} == {USER}
    assert (directory / "sandcell/client.toml").stat().st_mode & 0o777 == 0o600
    assert (directory / "sandcell").stat().st_mode & 0o777 == 0o700


def test_a_link_in_a_home_does_not_give_its_owner_what_it_leads_to(home: Path, place: Path) -> None:
    system = place / "system"
    system.mkdir()
    (home / ".config").mkdir()
    (home / ".config/sandcell").symlink_to(system)
    os.chown(home / ".config", USER, USER)
    subprocess.run(
        [sys.executable, "-c", "from kernel_gateway.server.token_file import open_token_file; open_token_file()"],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        cwd=REPOSITORY,
        timeout=120,
        check=True,
    )
    assert system.stat().st_uid == 0


SUDO_RS = """#!/bin/sh
# As sudo-rs: no --preserve-env, and of the environment nothing stays but PATH.
[ "$1" = -- ] || exit 97
shift
echo "$*" > "$(dirname "$0")/arguments"
exec env -i "PATH=$PATH" "$@"
"""


def test_settings_reach_root_under_a_sudo_that_hands_nothing_on(home: Path) -> None:
    sudo, script = home / "bin/sudo", home / "as-root"
    sudo.parent.mkdir()
    sudo.write_text(SUDO_RS)
    sudo.chmod(0o755)
    os.chown(sudo.parent, USER, USER)
    shutil.copy(REPOSITORY / "scripts/as-root", script)
    given = {
        "SANDCELL_TOKEN": "a token with 'quotes'\nand lines",
        "SANDCELL_STORE": "s3://bucket/x?endpoint_url=http://127.0.0.1:1",
        "AWS_SECRET_ACCESS_KEY": "secret/+=",
        "https_proxy": "http://proxy:1",
        "LD_PRELOAD": "",
        "SECRET_OF_THE_USER": "not-for-root",
    }
    done = subprocess.run(
        ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", script, "sh", "-c", "env -0; cat"],
        env={"PATH": f"{sudo.parent}:{os.environ['PATH']}", "HOME": str(home), **given},
        input="what the user types is not for the service",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    got = dict(each.split("=", 1) for each in done.stdout.split("\0") if "=" in each)
    passed = {name: value for name, value in given.items() if name.startswith(("SANDCELL", "AWS", "https"))}
    assert {name: got.get(name) for name in passed} == passed
    assert got["XDG_CONFIG_HOME"] == f"{home}/.config"
    assert not {"SECRET_OF_THE_USER", "LD_PRELOAD"} & set(got)
    assert "types" not in done.stdout
    arguments = (sudo.parent / "arguments").read_text()
    assert [value for value in passed.values() if value in arguments] == [], "a secret is on a command line"


def test_what_the_greeting_says_works_as_typed(service: RunningService) -> None:
    """In the directory that the service was started in."""
    eventually(lambda: any("notebook get" in line for line in service.output))
    lines = [line.strip() for line in service.output if "run 'x" in line]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SANDCELL_")}
    places = {"XDG_CONFIG_HOME": str(service.data_dir / "config"), "XDG_STATE_HOME": str(service.data_dir / "typed")}
    typed = " && ".join([*lines, f"{lines[0].split()[0]} session stop"])
    done = subprocess.run(
        typed,
        shell=True,
        env={**variables, **places},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "42" in done.stdout.splitlines()


def test_the_doctor_leaves_a_service_that_runs_as_it_is(service: RunningService, environments_dir: Path) -> None:
    """Also one without a session, whose directories are empty."""
    variables = {
        "PATH": os.environ["PATH"],
        "SANDCELL_DATA_DIR": str(service.data_dir),
        "SANDCELL_ENVIRONMENTS_DIR": str(environments_dir),
        "SANDCELL_RUN_DIR": str(leftovers.RUN_DIR),
    }
    doctor = [sys.executable, "-m", "kernel_gateway", "doctor", "--json"]
    done = subprocess.run(doctor, env=variables, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (service.data_dir / "doctor").exists()
    with service.client() as client, client.session() as session:
        assert session.run("6 * 7").text == "42"


def test_root_gets_another_token_when_all_are_lost(service: RunningService, home: Path) -> None:
    """Beside the service that runs; its database stays its own."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SANDCELL_DATA_DIR": str(service.data_dir),
        "SANDCELL_PORT": service.url.rpartition(":")[2],
    }
    command = [sys.executable, "-m", "kernel_gateway"]
    run = functools.partial(subprocess.run, env=variables, capture_output=True, text=True, timeout=120, check=False)
    before = {path: path.stat().st_uid for path in (service.data_dir / "state").iterdir()}
    recovered = run([*command, "token", "recover"])
    assert recovered.returncode == 0, recovered.stderr
    file = home / ".config/sandcell/client.toml"
    assert f"saved in {file}" in recovered.stderr
    assert {path.stat().st_uid for path in (file.parent, file)} == {USER}
    listed = run([*command, "token", "ls"])
    assert "recovered" in listed.stdout, listed.stderr
    with service.client(recovered.stdout.strip()) as client:
        (found,) = [each for each in client.list_tokens().items if each.id in recovered.stderr]
    with service.client() as client:
        client.revoke_token(found.id)
    assert {path: path.stat().st_uid for path in (service.data_dir / "state").iterdir()} == before


def test_a_token_is_recovered_by_root_alone_and_for_a_service_that_there_is(place: Path) -> None:
    program = DOCTOR.replace('"doctor"', '"token", "recover"').replace(
        "kernel_gateway.server.doctor", "kernel_gateway.server.recovery"
    )
    for user, reason in ((USER, "only root may make a token without one"), (0, "there is no database")):
        done = subprocess.run(
            [sys.executable, "-c", program, str(user)],
            env={**os.environ, "SANDCELL_DATA_DIR": str(place)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == exits.REFUSED
        assert reason in done.stderr
