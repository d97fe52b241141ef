"""Sessions in pods whose addresses the service does not reach: through the API server of a real cluster."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandcell import Client, Session
from sandcell.errors import SandcellError
from tests.doubles.loopback_site import ADDRESS, loopback_site
from tests.integration.kernels.kubernetes.conftest import serving
from tests.integration.kernels.kubernetes.test_pods import ASK, NETWORKS, left, wait
from tests.kubernetes_cluster import Cluster
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
FORWARDED: dict[str, Any] = {"kubernetes_port_forward": True}
AWAY_SECONDS = 30


def _routes(cluster: Cluster) -> list[list[str]]:
    """Those of the pods' networks, as the words of a command."""
    shown = subprocess.run(
        ["nsenter", f"--net={cluster.network}", "ip", "route", "show"], check=True, capture_output=True, text=True
    ).stdout
    return [line.split() for line in shown.splitlines() if line.startswith("10.56.")]


@pytest.fixture(scope="module", autouse=True)
def _unreached(cluster: Cluster) -> Iterator[None]:
    """No pod's address leads anywhere from where the service and the API server are."""
    change = ["nsenter", f"--net={cluster.network}", "ip", "route", "replace"]
    routes = _routes(cluster)
    assert routes
    for each in routes:
        subprocess.run([*change, "blackhole", each[0]], check=True)
    yield
    for each in routes:
        subprocess.run(["nsenter", f"--net={cluster.network}", "ip", "route", "del", "blackhole", each[0]], check=True)
        subprocess.run([*change, *each], check=True)


@pytest.fixture(scope="module")
def service(cluster: Cluster, environments_dir: Path) -> Iterator[RunningService]:
    with serving(cluster, environments_dir, **FORWARDED) as service:
        yield service


@pytest.fixture
def client(service: RunningService) -> Iterator[Client]:
    with service.client() as client:
        yield client


def _has(session: Session, path: str) -> bool:
    try:
        session.download(path)
    except SandcellError:
        return False
    return True


def test_a_session_is_as_any_other(client: Client, cluster: Cluster) -> None:
    with client.session() as session:
        assert session.run("x = 6 * 7\nprint(x)").stdout == "42\n"
        given = os.urandom(20 << 20)
        session.upload("given", given)
        said = session.run("import hashlib\nprint(hashlib.sha256(open('given', 'rb').read()).hexdigest())").stdout
        assert len(said) == 65
        assert session.download("given") == given
        much = session.run("for n in range(200_000): print(f'{n:099}')")
        assert much.status == "ok"
        assert much.truncated.stdout > 18_000_000
        assert much.stdout.endswith("199999\n")
        assert session.run("import time\ntime.sleep(600)", timeout_seconds=1).status == "timeout"
        execution = client.submit(session.id, "open('began', 'w').close()\ntime.sleep(600)")
        wait(lambda: _has(session, "began"))
        client.interrupt(session.id)
        assert client.wait(session.id, execution.id).status == "interrupted"
        session.restart()
        assert session.run("print('x' in globals())").stdout == "False\n"
        workspace = client.get_session(session.id).workspace_id
    wait(lambda: not left(cluster))
    assert client.workspace_read(workspace, "given") == given


def test_without_it_such_a_pod_is_not_reached(cluster: Cluster, environments_dir: Path) -> None:
    """So that the other tests here show what they are to show."""
    refused = pytest.raises(SandcellError, match="not reached")
    with serving(cluster, environments_dir) as service, service.client() as client, refused:
        client.run(client.start_session().id, "1")
    wait(lambda: not left(cluster))


@contextmanager
def _api_server_ended(cluster: Cluster) -> Iterator[None]:
    """All its connections end; it starts again with the same words. Those of the scheduler and nodes come back."""
    place = cluster.place / "run/pid/apiserver"
    pid = int(place.read_text())
    command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    os.kill(pid, signal.SIGKILL)
    wait(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])
    try:
        yield
    finally:
        # By a shell that ends: who stops the cluster waits until this process is gone, which a child of ours never is.
        again = f"{shlex.join(command)} >{cluster.place}/run/log/apiserver-again.log 2>&1 </dev/null & echo $! >{place}"
        subprocess.run(["nsenter", f"--net={cluster.network}", "bash", "-c", again], check=True)
        wait(lambda: _answers(cluster))


def _answers(cluster: Cluster) -> bool:
    try:
        return cluster.kubectl("get", "--raw", "/readyz") == "ok"
    except AssertionError:
        return False


def test_what_runs_while_the_api_server_is_away_goes_on_and_nothing_of_it_is_lost(
    client: Client, service: RunningService, cluster: Cluster
) -> None:
    with client.session() as session, client.session() as idle:
        session.run("x = 'kept'")
        idle.run("x = 'kept too'")
        lines = 4 * AWAY_SECONDS
        count = f"for n in range({lines}):\n    print(n, flush=True)\n    time.sleep(0.5)\nprint(x)"
        execution = client.submit(session.id, f"import time\nopen('began', 'w').close()\n{count}")
        wait(lambda: _has(session, "began"))
        late: list[Any] = []
        with _api_server_ended(cluster):
            asking = threading.Thread(target=lambda: late.append(client.run(idle.id, "print(x)")))
            asking.start()
            time.sleep(AWAY_SECONDS)
            assert not late
        asking.join()
        assert late[0].stdout == "kept too\n"
        result = client.wait(session.id, execution.id)
        assert (result.status, result.stdout) == ("ok", "".join(f"{n}\n" for n in range(lines)) + "kept\n")
        assert {client.get_session(each.id).generation for each in (session, idle)} == {1}
        session.run("open('f', 'w').write('x')", sync="before_return")
        workspace = client.get_session(session.id).workspace_id
    assert client.workspace_read(workspace, "f") == b"x"
    wait(lambda: not left(cluster))


def test_a_service_that_was_killed_takes_up_its_pods(cluster: Cluster, environments_dir: Path) -> None:
    with serving(cluster, environments_dir, **FORWARDED) as service:
        with service.client() as client:
            session = client.start_session()
            client.run(session.id, "x = 'kept in memory'")
        service.kill()
        service.start()
        with service.client() as client:
            assert client.run(session.id, "print(x)").stdout == "kept in memory\n"
            client.stop_session(session.id)
    wait(lambda: not left(cluster))


def test_programs_have_their_way_out(cluster: Cluster, environments_dir: Path) -> None:
    with loopback_site() as port:
        declared = NETWORKS.format(
            address=ADDRESS, port=port, index="http://index.invalid", bucket="b", server="http://s"
        )
        web = declared.partition("[public]")[0]
        private = {"egress_private": f"{ADDRESS}:{port}"}
        served = serving(cluster, environments_dir, web, **private, **FORWARDED)
        with served as service, service.client() as client, client.session(environment="web") as session:
            session.run(ASK)
            many = "__import__('concurrent.futures', fromlist=['x']).ThreadPoolExecutor(10)"
            asked = f"sum('asked for /m' in each for each in {many}.map(ask, ['http://{ADDRESS}:{port}/m'] * 30))"
            assert session.run(f"print({asked})").stdout == "30\n"
    wait(lambda: not left(cluster))


def test_a_service_that_may_not_forward_does_not_start(
    cluster: Cluster, environments_dir: Path, tmp_path: Path
) -> None:
    account = ["-n", "sandcell", "create"]
    cluster.kubectl(*account, "serviceaccount", "plain")
    role = ["role", "plain", "--verb=create,get,list,patch,watch,delete", "--resource=pods,secrets,networkpolicies"]
    cluster.kubectl(*account, *role)
    cluster.kubectl(*account, "rolebinding", "plain", "--role=plain", "--serviceaccount=sandcell:plain")
    config = tmp_path / "kubeconfig"
    config.write_text(cluster.kubectl("config", "view", "--flatten", "--raw"))
    token = cluster.kubectl(
        "-n", "sandcell", "get", "secret", _find_token(cluster), "-o", "go-template={{.data.token|base64decode}}"
    )
    change = ["kubectl", f"--kubeconfig={config}", "config"]
    subprocess.run([*change, "set-credentials", "plain", f"--token={token}"], check=True)
    subprocess.run([*change, "set-context", "--current", "--user=plain"], check=True)
    more = {**FORWARDED, "kubernetes_config": config}
    with pytest.raises(AssertionError) as refused, serving(cluster, environments_dir, **more):
        pass
    assert "not create pods/portforward, get pods/portforward" in str(refused.value)


def _find_token(cluster: Cluster) -> str:
    return cluster.kubectl("-n", "sandcell", "get", "sa", "plain", "-o", "jsonpath={.secrets[0].name}")
