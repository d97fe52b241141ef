"""Two gateways of one database, whose pods both reach, and one of them stands still while its pods run on."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandcell import Client
from sandcell.errors import SandcellError
from tests.doubles.server_process import free_port
from tests.gateways import SECRETS_KEY
from tests.integration.kernels.kubernetes.conftest import serving
from tests.integration.kernels.kubernetes.test_pods import left, wait
from tests.kubernetes_cluster import Cluster
from tests.postgresql_server import PostgresqlServer
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
LINES = 40
COUNT = f"import time\nfor n in range({LINES}):\n    print(n, flush=True)\n    time.sleep(0.25)\nx += 1"


@pytest.fixture
def gateways(
    cluster: Cluster, environments_dir: Path, postgresql: PostgresqlServer, tmp_path: Path
) -> Iterator[list[RunningService]]:
    common: dict[str, Any] = {
        "database": postgresql.create_database(),
        "store": f"file://{tmp_path}/store",
        "secrets_key": SECRETS_KEY,
        "gateway_lease_seconds": 4,
    }
    with contextlib.ExitStack() as opened:
        services = []
        for port in (free_port(), free_port()):
            more: dict[str, Any] = {"port": port, "gateway_address": f"http://127.0.0.1:{port}"}
            services.append(opened.enter_context(serving(cluster, environments_dir, **common, **more)))
        yield services


def test_its_sessions_go_on_at_another_and_it_lets_go_of_them_when_it_goes_on(
    gateways: list[RunningService], cluster: Cluster
) -> None:
    first, second = gateways
    with first.client() as at_first, second.client() as at_second:
        session = at_first.start_session()
        at_first.run(session.id, "x = 1")
        runs = at_first.submit(session.id, COUNT)
        hung = (first.pid, first.service_pid)
        for each in hung:
            os.kill(each, signal.SIGSTOP)
        try:
            wait(lambda: _answers(at_second, session.id))
            result = at_second.wait(session.id, runs.id)
            assert (result.status, result.stdout) == ("ok", "".join(f"{n}\n" for n in range(LINES)))
            assert at_second.run(session.id, "x += 1\nprint(x)").stdout == "3\n"
        finally:
            for each in hung:
                os.kill(each, signal.SIGCONT)
        wait(lambda: first.find_service_pid() not in {None, hung[1]})
        assert any("gateway_taken_over" in line for line in first.output)
        wait(lambda: _answers(at_first, session.id))
        assert at_first.run(session.id, "print(x)").stdout == "3\n"
        assert at_second.get_session(session.id).generation == 1
        at_second.stop_session(session.id)
    wait(lambda: not left(cluster))


def _answers(client: Client, session_id: str) -> bool:
    try:
        client.download(session_id, "nothing")
    except SandcellError as error:
        return error.status == 404
    return True
