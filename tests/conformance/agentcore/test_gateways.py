"""What boto3 sends again is sent to another gateway by a proxy that asks them in turn: it is done once all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.agentcore.accounts import KEY, SECRET, SYSTEM, Account, Session
from tests.conformance.agentcore.watching_proxy import WatchingProxy
from tests.gateways import Gateways, MakeService, in_turn
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
