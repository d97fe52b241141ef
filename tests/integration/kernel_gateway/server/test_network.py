"""Networks of environments through the real service: policies shown, decisions on record, open again after a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.doubles.loopback_site import ADDRESS, loopback_site
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]


@dataclass
class Place:
    """A service with environments that have a network, and the web site they may reach."""

    service: RunningService
    port: int

    def url(self, path: str = "/") -> str:
        return f"http://{ADDRESS}:{self.port}{path}"


@pytest.fixture(scope="module")
def place(make_service: MakeService) -> Iterator[Place]:
    with loopback_site() as port, tempfile.TemporaryDirectory(prefix="scenv", dir="/tmp") as directory:
        file = Path(directory, "environments.toml")  # for root alone: it is read before the service is somebody else
        file.touch(0o600)
        file.write_text(
            f"""
            [web]
            image = "python"
            description = "Reaches one site."
            memory_mb = 1800
            network = "ALLOWLIST"
            allow = [{{host = "{ADDRESS}", port = {port}, methods = ["GET"]}}]

            [crun]
            image = "python"
            runtime = "crun"
            network = "ALLOWLIST"
            allow = ["{ADDRESS}:{port}"]

            [runsc]
            image = "python"
            runtime = "runsc"
            network = "ALLOWLIST"
            allow = ["{ADDRESS}:{port}"]

            [public]
            image = "python"
            network = "PUBLIC"
            """
        )
        service = make_service(environments_file=file, egress_private=f"{ADDRESS}:{port}", sweep_interval_seconds=0.5)
        yield Place(service, port)


@pytest.fixture
def rest(place: Place) -> Iterator[Rest]:
    with Rest(place.service) as rest:
        yield rest


def ask(session: LiveSession, url: str) -> str:
    """What a program in the session gets from an address."""
    code = f"""
import urllib.request, urllib.error
try:
    print(urllib.request.urlopen({url!r}, timeout=120).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
    outcome = session.run(code)
    assert outcome["status"] == "ok", outcome
    return str(outcome["stdout"])


def test_environments_show_their_policy_and_nothing_secret(rest: Rest) -> None:
    found = {each["name"]: each for each in rest.get("/v1/environments")["items"]}
    assert set(found) == {"python", "web", "crun", "runsc", "public"}
    assert found["runsc"]["runtime"] == "runsc"
    web = found["web"]
    assert (web["image"], web["runtime"], web["memory_mb"]) == ("python", "runc", 1800)
    assert web["network"]["mode"] == "ALLOWLIST"
    assert [(each["host"], each["methods"]) for each in web["network"]["allow"]] == [(ADDRESS, ["GET"])]
    assert found["python"]["network"]["mode"] == "SANDBOX"
    assert found["public"]["network"]["mode"] == "PUBLIC"


@pytest.mark.parametrize("runtime", ["crun", "runsc"])
def test_an_environment_has_the_runtime_it_names_and_its_way_out(runtime: str, rest: Rest, place: Place) -> None:
    with rest.session(environment=runtime) as session:
        assert session.show()["runtime"] == runtime
        kernel = session.run("import os; print(os.uname().release)")["stdout"].strip()
        assert (kernel == os.uname().release) is (runtime == "crun"), "gVisor brings a kernel of its own"
        assert "you asked for /a" in ask(session, place.url("/a"))
        assert ask(session, "http://203.0.113.9/").startswith("403")
        assert session.show()["network"]["used"]["requests"] == 2


def test_private_addresses_are_out_of_reach_in_public_too(rest: Rest, place: Place) -> None:
    with rest.session(environment="public") as session:
        assert "you asked for /x" in ask(session, place.url("/x")), "the operator declared this one"
        for url in (f"http://{ADDRESS}:1/", "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/"):
            assert ask(session, url).startswith("403"), url
        refused = rest.get(f"/v1/audit?session_id={session.id}&allowed=false")["items"]
        words = [each["reason"].split(":")[0] for each in reversed(refused)]
        assert words == ["loopback_address", "metadata_address", "private_address"]


def test_the_audit_log_is_everybodys_own(rest: Rest, place: Place) -> None:
    token = rest.post("/v1/tokens", principal="carol")["token"]
    with Rest(place.service, token) as carol, carol.session(environment="web") as hers:
        assert "you asked" in ask(hers, place.url())
        mine = rest.get("/v1/audit?limit=1000")["items"]
        assert "carol" in {each["principal"] for each in mine}, "an administrator sees all"
        seen = carol.get("/v1/audit?kind=egress")["items"]
        assert {(each["principal"], each["session_id"]) for each in seen} == {("carol", hers.id)}
        with rest.session(environment="web") as another:
            ask(another, place.url())
            assert carol.get(f"/v1/audit?session_id={another.id}")["items"] == []
        since = seen[-1]["at"]
        assert carol.get(f"/v1/audit?kind=egress&since={since}")["items"] == seen
        assert carol.get(f"/v1/audit?kind=egress&until={since}")["items"] == []
    for query in ("since=yesterday", "since=2026-01-01T00:00:00", "allowed=perhaps", "who=me"):
        assert rest.http.get(f"/v1/audit?{query}").status_code == 400, query
    assert httpx.get(f"{place.service.url}/v1/audit").status_code == 401


@pytest.mark.sample("kills")
def test_a_killed_service_opens_the_ways_of_its_sessions_again(place: Place) -> None:
    with Rest(place.service) as before:
        session = before.session(environment="web")
        session.run("x = 41")
        assert "you asked" in ask(session, place.url("/before"))
        _until_stored(place.service, session)
        _until_recorded(before, session)
    place.service.kill()
    place.service.start()
    with Rest(place.service) as after:
        again = LiveSession(after, after.get(session.path))
        assert again.run("x + 1")["outputs"][-1]["data"]["text/plain"] == "42"
        assert "you asked" in ask(again, place.url("/after"))
        used = again.show()["network"]["used"]
        assert used["requests"] == 2
        targets = {each["target"] for each in after.get(f"/v1/audit?kind=egress&session_id={again.id}")["items"]}
        assert targets == {place.url("/before"), place.url("/after")}
        after.http.delete(again.path)


def _until_recorded(rest: Rest, session: LiveSession) -> None:
    """Until the audit log has the session's first request: records gather for a moment before they are written."""
    give_up = time.monotonic() + 120
    while not rest.get(f"/v1/audit?kind=egress&session_id={session.id}")["items"]:
        assert time.monotonic() < give_up, "the request is not on record"
        time.sleep(0.05)


def _until_stored(service: RunningService, session: LiveSession) -> None:
    """Until the sweep has written down what the session used."""
    database = Path(service.data_dir, "sandcell.db")
    if not database.exists():
        database = Path(service.data_dir, "state", "sandcell.db")
    code = f"""
import json, sqlite3, sys, time
give_up = time.monotonic() + 120
while time.monotonic() < give_up:
    connection = sqlite3.connect("file:{database}?mode=ro", uri=True)
    [[record]] = connection.execute("SELECT record FROM sessions WHERE id = ?", ["{session.id}"]).fetchall()
    connection.close()
    if json.loads(record)["network"]["used"]["requests"]:
        sys.exit(0)
    time.sleep(0.1)
sys.exit("the sweep wrote nothing")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.sample("doors")
def test_the_command_line_shows_policies_and_records(place: Place, tmp_path: Path) -> None:
    sandcell = Shell(place.service, tmp_path)
    listed = {line.split("\t")[0]: line for line in sandcell("environments", "ls").stdout.splitlines()}
    assert f"ALLOWLIST; {ADDRESS}:{place.port} (GET)" in listed["web"]
    session_id = sandcell("session", "new", "--environment", "web").stdout.strip()
    fetch = "import urllib.request as r; r.urlopen({!r}).read()"
    assert sandcell("run", fetch.format(place.url())).returncode == 0
    assert sandcell("run", fetch.format(place.url("?secret=1"))).returncode == 0
    refused = sandcell("run", fetch.format("http://203.0.113.9/")).stderr
    assert "403" in refused
    assert "ALLOWLIST" in refused
    shown = dict(line.split("\t", 1) for line in sandcell("session", "show").stdout.splitlines())
    assert shown["runtime"] == "runc"
    assert shown["network"].startswith("ALLOWLIST; ")
    assert shown["network used"].startswith("3 of 100,000 requests, 1 refused")
    assert "ALLOWLIST" in sandcell("session", "ls").stdout
    lines = sandcell("audit", "--session", session_id, "--denied").stdout.splitlines()
    assert len(lines) == 1
    assert "refused\thttp://203.0.113.9:80/\tnot_declared" in lines[0]
    records = json.loads(sandcell("audit", "--session", session_id, "--kind", "egress", "--json").stdout)
    assert {each["session_id"] for each in records} == {session_id}
    assert not any("secret" in each["target"] for each in records)
    sandcell("session", "stop")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            '[web]\nimage = "python"\nnetwrok = "PUBLIC"\n',
            "[web] has an unknown key 'netwrok'; did you mean 'network'?",
        ),
        ('[web]\nimage = "ruby"\n', "[web] image 'ruby' is not built"),
        ('[web]\nimage = "python"\nallow = ["*"]\nnetwork = "ALLOWLIST"\n', "[web] allow: '*' would allow every host"),
    ],
)
def test_an_environments_file_that_makes_no_sense_stops_the_start(
    content: str, says: str, tmp_path: Path, environments_dir: Path
) -> None:
    file = tmp_path / "environments.toml"
    file.write_text(content)
    service = RunningService(tmp_path, {"environments_dir": environments_dir, "environments_file": file})
    with pytest.raises(AssertionError) as failed:
        service.start()
    assert says in str(failed.value)
    assert str(file) in str(failed.value)
