"""What boto3 sends again is sent to another gateway by a proxy that asks them in turn: it is done once all the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conformance.agentcore.accounts import KEY, SECRET, SYSTEM, Account, Session
from tests.conformance.agentcore.watching_proxy import WatchingProxy
from tests.gateways import Gateways, MakeService, in_turn
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.postgresql_server import PostgresqlServer
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
COUNT = "runs = globals().get('runs', 0) + 1\n"


@pytest.fixture(scope="module")
def both(
    make_service: MakeService, postgresql: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunningService, RunningService]:
    url = postgresql.create_database(migrated=False)
    store = tmp_path_factory.mktemp("shared") / "store"
    return Gateways(make_service, url, store, access_key_id=KEY, secret_access_key=SECRET).start_two()


@pytest.fixture(scope="module")
def between(
    both: tuple[RunningService, RunningService],
    watch: Callable[[str], WatchingProxy],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WatchingProxy]:
    with in_turn(both, tmp_path_factory.mktemp("nginx")) as address:
        yield watch(address)


def test_what_is_sent_again_to_the_other_gateway_is_done_once(between: WatchingProxy) -> None:
    data: Any = Account(between.url).client(retries={"mode": "standard", "total_max_attempts": 5})
    for lost in (1, 2, 1):  # so that each gateway is the first and the last that is asked
        with between.losing(lost, of="/sessions/start"):
            begun = data.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, name="once")
        listed = data.list_code_interpreter_sessions(codeInterpreterIdentifier=SYSTEM, status="READY")["items"]
        assert [each["sessionId"] for each in listed] == [begun["sessionId"]]
        session = Session(data, begun["sessionId"], SYSTEM)
        with between.losing(lost):
            assert session.code(f"{COUNT}import time; time.sleep(0.5); print(runs)") == "1"
        with between.losing(lost):
            assert session.call("executeCommand", command="echo once >> runs.txt")["isError"] is False
        assert session.call("executeCommand", command="cat runs.txt")["structuredContent"]["stdout"] == "once\r\n"
        assert session.code("print(runs)") == "1"
        with between.losing(lost, of="/sessions/stop"):
            session.stop()


def test_starts_with_one_token_at_both_at_once_are_one_session(both: tuple[RunningService, RunningService]) -> None:
    clients = [Account(each.url).client(max_pool_connections=8) for each in both]
    token = str(uuid.uuid4())

    def start(client: Any) -> str:
        begun = client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, name="raced", clientToken=token)
        return str(begun["sessionId"])

    with ThreadPoolExecutor(8) as threads:
        (begun,) = set(threads.map(start, clients * 4))
    for client in clients:
        listed = client.list_code_interpreter_sessions(codeInterpreterIdentifier=SYSTEM, status="READY")["items"]
        assert [each["sessionId"] for each in listed] == [begun]
        assert Session(client, begun, SYSTEM).code("print(6 * 7)") == "42"
    Session(clients[0], begun, SYSTEM).stop()


@pytest.mark.parametrize("killed", [0, 1])
def test_code_that_runs_while_its_gateway_is_killed_is_answered(
    both: tuple[RunningService, RunningService], between: WatchingProxy, killed: int
) -> None:
    data: Any = Account(between.url).client(retries={"mode": "standard", "total_max_attempts": 8})
    here = both[killed]
    direct: Any = Account(here.url).client()
    begun = direct.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, name="killed")
    session = Session(data, begun["sessionId"], SYSTEM)
    assert session.code(f"{COUNT}print(runs)") == "1"
    with ThreadPoolExecutor(1) as threads:
        code = f"open('begun', 'w').close(); {COUNT}import time; time.sleep(6); print(runs, 'x' * 100_000)"
        answer = threads.submit(session.code, code)
        watching = Session(direct, begun["sessionId"], SYSTEM)
        eventually(lambda: "begun" in str(watching.call("listFiles", path="")))
        here.kill()
        assert answer.result(300) == f"2 {'x' * 100_000}"
    assert session.code("print(runs)") == "2"
    session.stop()
    here.start()
    # nginx says in its own words that a connection has broken, which clients take for what it is.
    assert not [each for each in between.verdicts.taken() if " 502: " not in each]
