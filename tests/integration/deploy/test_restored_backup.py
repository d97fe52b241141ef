"""The procedure of docs/how-to/backups.md: a running service is backed up, all is lost, another has it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

from sandcell import Client
from sandcell.models.sessions import Session
from tests.doubles.s3_servers import ACCESS_KEY, BIN, BUCKET, s3_server
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.postgresql_server import PostgresqlServer, find_programs, postgresql_server
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}
PROGRAMS = find_programs()


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def servers(place: Path, programs: Path) -> Iterator[tuple[PostgresqlServer, str]]:
    """A database server and a store, of which nothing stays."""
    (place / "s3").mkdir(parents=True)
    with postgresql_server(programs) as server, s3_server("moto", place / "s3") as endpoint:
        yield server, endpoint


def serve(place: Path, environments_dir: Path, database: str, endpoint: str) -> RunningService:
    place.mkdir(parents=True, exist_ok=True)
    settings = {
        "environments_dir": environments_dir,
        "database": database,
        "store": f"s3://{BUCKET}/sandcell?endpoint_url={endpoint}&region=us-east-1",
    }
    return RunningService(place, settings, KEYS)


def run(*command: str | Path, **variables: str) -> None:
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def keep_versions(endpoint: str) -> None:
    keys = {"aws_access_key_id": ACCESS_KEY[0], "aws_secret_access_key": ACCESS_KEY[1]}
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})


def pass_moment() -> str:
    """A moment between what was done and what comes, also for a store that knows whole seconds alone."""
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    eventually(lambda: datetime.now(UTC) > moment + timedelta(seconds=1))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def copy(source: str, target: str, endpoint: str, *options: str) -> None:
    """What the page has rclone do, with its remote `s3` in variables."""
    told = {"TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": endpoint, "REGION": "us-east-1"}
    told |= {"ACCESS_KEY_ID": ACCESS_KEY[0], "SECRET_ACCESS_KEY": ACCESS_KEY[1]}
    variables = {f"RCLONE_CONFIG_S3_{name}": value for name, value in told.items()}
    run(
        BIN / "rclone",
        "--config",
        "/dev/null",
        "sync",
        *options,
        "--exclude",
        "/in-use-by.json*",
        source,
        target,
        **variables,
    )


@pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed: scripts/install dev does it")
def test_what_was_backed_up_is_there_again_after_all_was_lost(place: Path, environments_dir: Path) -> None:
    assert PROGRAMS is not None
    backup = place / "backup"
    backup.mkdir()
    with servers(place / "first", PROGRAMS) as (server, endpoint):
        database = server.create_database()
        keep_versions(endpoint)
        service = serve(place / "first/data", environments_dir, database, endpoint)
        service.start()
        try:
            with service.client() as client:
                live, ended = use(client)
                run(PROGRAMS / "pg_dump", "--format", "custom", "--file", backup / "sandcell.dump", database)
                moment = pass_moment()
                client.workspace_remove(ended.workspace_id, "old")  # while the store is copied
                copy(f"s3:{BUCKET}/sandcell", str(backup / "store"), endpoint, "--s3-version-at", moment)
                shutil.copy(place / "first/data/state/secrets.key", backup / "secrets.key")
                client.run(live.id, "open('late', 'w').write('late')", sync="before_return")  # in no backup
        finally:
            service.stop()  # its database goes on to the end; the backup knows nothing of that
    shutil.rmtree(place / "first")
    with servers(place / "second", PROGRAMS) as (server, endpoint):
        database = server.create_database(migrated=False)
        run(PROGRAMS / "pg_restore", "--no-owner", "--exit-on-error", "--dbname", database, backup / "sandcell.dump")
        copy(str(backup / "store"), f"s3:{BUCKET}/sandcell", endpoint)
        data = place / "second/data"
        (data / "state").mkdir(parents=True, mode=0o700)
        shutil.copy(backup / "secrets.key", data / "state/secrets.key")
        service = serve(data, environments_dir, database, endpoint)
        service.start()
        try:
            with service.client() as client:
                require_all(client, live.id, live.workspace_id, ended.id, ended.workspace_id)
        finally:
            service.stop()


def test_with_the_defaults_too(place: Path, environments_dir: Path) -> None:
    backup, first, second = place / "backup", place / "first", place / "second"
    backup.mkdir()
    service = RunningService(first, {"environments_dir": environments_dir})
    service.start()
    try:
        with service.client() as client:
            live, ended = use(client)
            run("sqlite3", first / "state/sandcell.db", f'.backup "{backup}/sandcell.db"')
            run("rsync", "-a", "--delete", "--exclude", "/in-use-by.json*", f"{first}/store/", f"{backup}/store/")
            shutil.copy(first / "state/secrets.key", backup / "secrets.key")
            client.run(live.id, "open('late', 'w').write('late')", sync="before_return")  # in no backup
    finally:
        service.stop()
    shutil.rmtree(first)
    (second / "state").mkdir(parents=True, mode=0o700)
    shutil.copy(backup / "secrets.key", second / "state")
    shutil.copy(backup / "sandcell.db", second / "state")
    run("rsync", "-a", f"{backup}/store/", f"{second}/store/")
    service = RunningService(second, {"environments_dir": environments_dir})
    service.start()
    try:
        with service.client() as client:
            require_all(client, live.id, live.workspace_id, ended.id, ended.workspace_id)
    finally:
        service.stop()


def use(client: Client) -> tuple[Session, Session]:
    """A session that lives, and one that has ended: what `require_all` looks for afterwards."""
    live, ended = client.start_session(), client.start_session()
    client.run(ended.id, "print('before')\nopen('old', 'w').write('of before')")
    client.stop_session(ended.id)
    client.run(live.id, "x = 1\nopen('kept', 'w').write('kept')\nprint('said')", sync="before_return")
    return live, ended


def require_all(client: Client, live: str, live_workspace: str, ended: str, ended_workspace: str) -> None:
    """What a client sees: same token, ids, files, records; variables of what was live are gone, and it hears so."""
    assert client.get_session(ended).status == "TERMINATED"
    assert client.workspace_read(ended_workspace, "old") == b"of before"
    assert client.get_session(live).status == "READY"
    result = client.run(live, "import os\nprint('x' in globals(), open('kept').read(), os.path.exists('late'))")
    assert result.stdout == "False kept False\n"
    assert client.get_session(live).generation == 2
    assert [each.stdout for each in client.list_executions(live).items] == ["said\n", result.stdout]
    client.stop_session(live)
    assert client.workspace_read(live_workspace, "kept") == b"kept"
