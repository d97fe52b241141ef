"""What `sandcell doctor` and `sandcell serve` say of a store that cannot be used, before a session is lost to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import leftovers
from tests.doubles.faulty_s3 import FaultyS3, Reset
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server

READ_ONLY = ("s3:PutObject", "s3:DeleteObject")
WRITE_ONLY = ("s3:GetObject", "s3:ListBucket")


@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyS3]:
    """A server behind a proxy that has a policy, as `moto` is."""
    with s3_server("rclone", tmp_path_factory.mktemp("rclone")) as endpoint, FaultyS3(endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def moto(moto_endpoint: str) -> Iterator[FaultyS3]:
    with FaultyS3(moto_endpoint) as proxy:
        yield proxy


@pytest.fixture(params=("rclone", "moto"))
def server(request: pytest.FixtureRequest) -> FaultyS3:
    """Each in turn: what is said of a bucket is read from answers that they word differently."""
    faulty: FaultyS3 = request.getfixturevalue(request.param)
    return faulty


@pytest.fixture(autouse=True)
def healed(rclone: FaultyS3, moto: FaultyS3) -> Iterator[None]:
    yield
    rclone.heal()
    moto.heal()


class Command:
    """Runs `sandcell` on a store, in a data directory of its own."""

    def __init__(self, data_dir: Path, environments_dir: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SANDCELL_", "AWS_"))}
        self.variables = {
            **kept,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY[0],
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1],
            "SANDCELL_DATA_DIR": str(data_dir),
            "SANDCELL_ENVIRONMENTS_DIR": str(environments_dir),
            "SANDCELL_RUN_DIR": str(leftovers.RUN_DIR),
            "SANDCELL_PORT": "0",
            "XDG_CONFIG_HOME": str(data_dir / "config"),
        }

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kernel_gateway", *arguments]
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, timeout=120, check=False)

    def doctor(self, url: str) -> tuple[int, dict[str, Any]]:
        """The exit status, and what is said of the store."""
        done = self("doctor", "--json", "--store", url)
        (found,) = [each for each in json.loads(done.stdout) if each["name"] == "store"]
        return done.returncode, found


@pytest.fixture
def sandcell(tmp_path: Path, environments_dir: Path) -> Command:
    return Command(tmp_path / "data", environments_dir)


def url_of(faulty: FaultyS3, bucket: str = BUCKET) -> str:
    return f"s3://{bucket}/here?endpoint_url={faulty.endpoint}"


@pytest.mark.parametrize("denied", [READ_ONLY, WRITE_ONLY, ("s3:DeleteObject",)], ids=["read", "write", "no-delete"])
def test_the_doctor_names_the_missing_permissions(server: FaultyS3, sandcell: Command, denied: tuple[str, ...]) -> None:
    server.deny(*denied)
    status, found = sandcell.doctor(url_of(server))
    assert (status, found["ok"], found["required"]) == (7, False, True)
    assert {each for each in (*READ_ONLY, *WRITE_ONLY) if each in found["detail"]} == set(denied)


def check_refused_start(faulty: FaultyS3, sandcell: Command, denied: tuple[str, ...]) -> None:
    faulty.deny(*denied)
    done = sandcell("serve", "--store", url_of(faulty))
    assert done.returncode == 7, done.stderr
    assert "the store cannot be used" in done.stderr
    assert {each for each in (*READ_ONLY, *WRITE_ONLY) if each in done.stderr} == set(denied)
    assert ACCESS_KEY[1] not in done.stderr + done.stdout


def test_no_service_starts_on_a_bucket_that_can_only_be_read(rclone: FaultyS3, sandcell: Command) -> None:
    check_refused_start(rclone, sandcell, READ_ONLY)


def test_no_service_starts_on_a_bucket_that_can_only_be_written(moto: FaultyS3, sandcell: Command) -> None:
    check_refused_start(moto, sandcell, WRITE_ONLY)


def test_the_doctor_says_what_would_work_better_and_starts_a_sandbox(moto: FaultyS3, sandcell: Command) -> None:
    moto.deny("s3:AbortMultipartUpload")
    status, found = sandcell.doctor(url_of(moto))
    assert (status, found["ok"]) == (0, True)
    assert "s3:AbortMultipartUpload" in found["remedy"]


def test_a_store_that_is_away_is_said_and_keeps_no_host_from_being_fit(rclone: FaultyS3, sandcell: Command) -> None:
    rclone.fail(Reset())
    status, found = sandcell.doctor(url_of(rclone))
    assert (status, found["ok"], found["required"]) == (0, False, False)
    assert "does not answer" in found["detail"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/bucket", "a store is file:///absolute/directory or s3://bucket/prefix"),
        ("s3://bucket?endpoint_url=127.0.0.1:9000", "endpoint_url has to be"),
        ("s3://id:hush@bucket", "without credentials"),
    ],
    ids=["scheme", "endpoint", "credentials"],
)
def test_a_url_that_means_nothing_is_refused_by_both(sandcell: Command, url: str, said: str) -> None:
    status, found = sandcell.doctor(url)
    assert (status, found["ok"], found["required"]) == (7, False, True)
    assert said in found["detail"]
    done = sandcell("serve", "--store", url)  # refused before anything is started
    assert done.returncode == 7
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "hush" not in done.stderr + done.stdout + found["detail"]


def test_a_bucket_that_is_nowhere(server: FaultyS3, sandcell: Command) -> None:
    status, found = sandcell.doctor(url_of(server, "never-made"))
    assert (status, found["required"]) == (7, True)
    assert "there is no such bucket. Create it or correct its name" in found["detail"]
