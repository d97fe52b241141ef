"""Sessions in pods of agent-sandbox, claimed from its pools, through the whole service on a real cluster.

Who makes the pods is a controller of the tests (`tests.doubles.agent_sandbox`). The cluster's runtime is called as one
with a kernel of its own would be, which the service requires of pods that share a user.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandcell import Client
from tests.doubles.agent_sandbox import Controller, Store, served
from tests.integration.kernels.kubernetes.conftest import serving
from tests.integration.kernels.kubernetes.test_pods import wait
from tests.kubernetes_chart import CONTROL_PLANE
from tests.kubernetes_cluster import NAMESPACE, Cluster
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata-as-it-were"},
    "handler": "runc",
}
CLAIMS: dict[str, Any] = {"kubernetes_claims": True, "kubernetes_classes": "python=kata-as-it-were"}
SESSION = ("sandboxclaims", "sandboxes", "pods", "secrets")
"""What each session has one of."""


def test_without_the_kinds_or_what_keeps_pods_apart_the_service_does_not_start(
    cluster: Cluster, environments_dir: Path
) -> None:
    """Before the other tests here bring them."""
    with pytest.raises(AssertionError) as refused, serving(cluster, environments_dir, kubernetes_claims=True):
        pass
    assert "install agent-sandbox 0.5 or later" in str(refused.value)
    assert "pods of one template are all the same user" in str(refused.value)


@pytest.fixture(scope="module")
def store(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place = tmp_path_factory.mktemp("kinds")
    with served(place, CONTROL_PLANE) as (store, objects):
        file = place / "objects.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [CLASS, *objects]}))
        cluster.kubectl("apply", "-f", str(file))
        cluster.kubectl("wait", "--for=condition=Available", "apiservices", "--all", "--timeout=60s")
        yield store
        cluster.kubectl("delete", "-f", str(file))


@pytest.fixture
def controller(cluster: Cluster, store: Store) -> Iterator[Controller]:
    controller = Controller(store, cluster.config)
    with controller.acting():
        yield controller
    assert not controller.failures


@pytest.fixture(scope="module")
def service(cluster: Cluster, store: Store, environments_dir: Path) -> Iterator[RunningService]:
    with serving(cluster, environments_dir, **CLAIMS) as service:
        yield service


@pytest.fixture
def client(service: RunningService, controller: Controller) -> Iterator[Client]:
    with service.client() as client:
        yield client


def left(cluster: Cluster) -> list[str]:
    return [each["metadata"]["name"] for kind in SESSION for each in cluster.objects(kind)]


def test_a_session_claims_a_pod_and_leaves_nothing(client: Client, cluster: Cluster) -> None:
    with client.session() as session:
        assert session.run("x = 6 * 7\nprint(x)").stdout == "42\n"
        claim, sandbox, pod, secret = (cluster.objects(kind)[0] for kind in SESSION)
        assert claim["metadata"]["name"] == f"sandcell-{session.id}"
        assert claim["metadata"]["ownerReferences"][0]["uid"] == secret["metadata"]["uid"]
        assert pod["metadata"]["ownerReferences"][0]["uid"] == sandbox["metadata"]["uid"]
        assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "sandcell-sandbox"  # what the policy is for
        assert all("secret" not in volume for volume in pod["spec"]["volumes"])
        printed = session.run("import getpass, os\nprint(getpass.getuser(), os.path.expanduser('~'), os.read(0, 9))")
        assert printed.stdout == "user /home/user b''\n"
        session.upload("f", b"made here")
        session.restart()
        assert session.run("print('x' in globals(), open('f').read())").stdout == "False made here\n"
        workspace = client.get_session(session.id).workspace_id
    wait(lambda: not left(cluster))
    assert len(cluster.objects("sandboxtemplates")) == len(cluster.objects("sandboxwarmpools")) == 1
    with client.session(workspace_id=workspace) as session:
        assert session.run("print(open('f').read())").stdout == "made here\n"


def test_a_session_gets_a_pod_of_a_pool_that_somebody_scaled_and_one_of_its_own_when_that_is_empty(
    client: Client, cluster: Cluster
) -> None:
    def scale(replicas: int) -> None:
        patch = json.dumps({"spec": {"replicas": replicas}})
        cluster.kubectl("-n", NAMESPACE, "patch", "sandboxwarmpools", pool, "--type=merge", "-p", patch)

    def ready() -> bool:
        return bool(cluster.objects("sandboxwarmpools")[0].get("status", {}).get("readyReplicas") == 1)

    with client.session() as session:
        session.run("1")  # now there is a pool
    wait(lambda: not left(cluster))
    pool = cluster.objects("sandboxwarmpools")[0]["metadata"]["name"]
    scale(1)
    wait(ready)
    (waiting,) = cluster.objects("pods")
    with client.session() as session:
        assert session.run("print(6 * 7)").stdout == "42\n"
        (claim,) = cluster.objects("sandboxclaims")
        assert claim["status"]["sandbox"]["name"] == waiting["metadata"]["name"]
        wait(ready)  # another one waits
        scale(0)
        wait(lambda: len(cluster.objects("pods")) == 1)
        with client.session() as other:
            assert other.run("print(7 * 6)").stdout == "42\n"
            assert f"sandcell-{other.id}" in {each["metadata"]["name"] for each in cluster.objects("pods")}
        assert session.run("print('there')").stdout == "there\n"
    wait(lambda: not left(cluster))


def test_a_pod_that_its_controller_replaces_is_nobodys_and_the_session_claims_another(
    client: Client, cluster: Cluster
) -> None:
    with client.session() as session:
        session.run("x = 1\nopen('f', 'w').write('flushed')", sync="before_return")
        (pod,) = cluster.objects("pods")
        cluster.kubectl("-n", NAMESPACE, "delete", "pod", pod["metadata"]["name"], "--wait=true")
        assert session.run("print('x' in globals(), open('f').read())").stdout == "False flushed\n"
        assert client.get_session(session.id).generation == 2
        assert session.run("x = 2\nprint(x)").stdout == "2\n"
    wait(lambda: not left(cluster))


def test_a_service_that_was_killed_takes_up_its_claims(
    cluster: Cluster, controller: Controller, environments_dir: Path
) -> None:
    with serving(cluster, environments_dir, **CLAIMS) as service:
        with service.client() as client:
            session = client.start_session()
            client.run(session.id, "x = 'kept in memory'\nopen('f', 'w').write('and on disk')")
        service.kill()
        service.start()
        with service.client() as client:
            assert client.run(session.id, "print(x, open('f').read())").stdout == "kept in memory and on disk\n"
            client.stop_session(session.id)
    wait(lambda: not left(cluster))


def test_while_the_controller_is_away_sessions_go_on_and_starts_wait_for_it(
    client: Client, cluster: Cluster, controller: Controller
) -> None:
    session = client.start_session()
    client.run(session.id, "x = 1")
    controller.away = True
    assert client.run(session.id, "print(x)").stdout == "1\n"
    answers: list[str] = []
    late = threading.Thread(
        target=lambda: answers.append(client.run(client.start_session().id, "print('late')").stdout)
    )
    late.start()
    wait(lambda: len(cluster.objects("sandboxclaims")) == 2)
    client.stop_session(session.id)
    wait(lambda: len(cluster.objects("sandboxclaims")) == 1)  # what is to go needs no controller
    assert not answers
    controller.away = False
    late.join()
    assert answers == ["late\n"]
    for each in client.list_sessions().items:
        client.stop_session(each.id)
    wait(lambda: not left(cluster))
