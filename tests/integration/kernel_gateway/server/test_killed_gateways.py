"""Gateways on one host that are killed: another has their sandboxes, with all that runs in them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.gateways import Gateways, MakeService
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.integration.kernel_gateway.server.test_running_executions import follow
from tests.postgresql_server import PostgresqlServer

LINES = 400
STREAM = f"""
import hashlib, time
digest = hashlib.sha256()
for n in range({LINES}):
    line = f"{{n}} {{'x' * 200}}"
    digest.update(line.encode())
    print(line, flush=True)
    time.sleep(0.03)
print(digest.hexdigest())
"""


def make_lines() -> list[str]:
    lines = [f"{n} {'x' * 200}" for n in range(LINES)]
    return [*lines, hashlib.sha256("".join(lines).encode()).hexdigest()]


@pytest.fixture(scope="module")
def gateways(
    make_service: MakeService, postgresql: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Gateways:
    url = postgresql.create_database(migrated=False)
    return Gateways(make_service, url, tmp_path_factory.mktemp("shared") / "store", gateway_lease_seconds=4)


@pytest.mark.sample("kills")
def test_what_runs_goes_on_at_another_gateway_of_the_host(gateways: Gateways, tmp_path: Path) -> None:
    one, other = gateways.start_two()
    with Rest(one) as rest:
        session = rest.session(name="kept")
        session.run("x = 41; open('kept', 'w').write('unflushed')")
        runs = session.submit(STREAM)
        waits = session.submit("print(x + 1, open('kept').read())")
        seen = [each["text"] for _, kind, each in follow(session, runs, 0, most=20) if kind == "stream"]
    one.kill()
    with Rest(other) as rest:
        there = LiveSession(rest, rest.get(session.path))
        assert there.outcome(runs["id"])["stdout"].splitlines() == make_lines()
        events = list(follow(there, runs, 0))
        shown = "".join(each["text"] for _, kind, each in events if kind == "stream")
        assert shown.splitlines() == make_lines()
        assert shown.startswith("".join(seen))
        assert there.outcome(waits["id"])["stdout"] == "42 unflushed\n"
        assert there.show()["generation"] == 1
        # One that comes back has none of it, and leaves it alone; then it takes what it had made.
        one.start()
        eventually(lambda: there.run("print(x)")["stdout"] == "41\n")
        other.kill()
    with Rest(one) as rest:
        back = LiveSession(rest, rest.get(session.path))
        assert back.run("print(x)")["stdout"] == "41\n"
        assert back.show()["generation"] == 1
        other.start()
        back.stop()
    for each in (one, other):
        each.stop()
