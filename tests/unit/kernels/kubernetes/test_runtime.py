"""What the runtime reads out of what the cluster says of a pod, and how it tells its own from others'."""

from __future__ import annotations

import asyncio
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from kernels.environment import Environment
from kernels.errors import NotListening, NotReached, RuntimeUnusable, SandboxFailed, SandboxGone
from kernels.kubernetes import manifests
from kernels.kubernetes.pod_status import explain, runs
from kernels.kubernetes.runtime import KubernetesRuntime
from kernels.sandbox import KubernetesSettings, RuntimeSettings, SandboxSpec
from tests.doubles.scripted_cluster import ScriptedCluster

READY = {"type": "Ready", "status": "True"}
RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}


def pod(phase: str = "Running", **more: Any) -> dict[str, Any]:
    status = {"phase": phase, "conditions": [READY], "containerStatuses": [RUNNING], **more}
    return {"metadata": {}, "status": status}


def test_a_pod_runs_while_its_container_does_on_a_node_that_is_there() -> None:
    assert runs(pod())
    assert not runs(pod("Pending", containerStatuses=[]))
    assert not runs(pod("Succeeded"))
    assert not runs(pod(conditions=[{"type": "Ready", "status": "False"}]))  # the node does not answer any more
    assert not runs(pod(containerStatuses=[{"state": {"terminated": {"reason": "OOMKilled"}}}]))
    assert not runs({**pod(), "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert not runs({"metadata": {}})


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}}}]},
            "ErrImagePull",
        ),
        ({"conditions": [{"status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}, "0/3 nodes"),
        ({"message": "The node was low on resource"}, "low on resource"),
        ({}, ""),
    ],
)
def test_why_a_pod_does_not_run_is_in_the_clusters_words(status: dict[str, Any], said: str) -> None:
    assert said in explain({"metadata": {}, "status": status})


def make(directory: Path, **kubernetes: str) -> KubernetesRuntime:
    directory.mkdir(exist_ok=True)
    settings = KubernetesSettings(**kubernetes)  # type: ignore[arg-type]
    return KubernetesRuntime(RuntimeSettings("kubernetes", directory, directory, kubernetes=settings))


def test_a_service_has_a_name_of_its_own_that_stays(tmp_path: Path) -> None:
    one = make(tmp_path / "one").service
    assert make(tmp_path / "one").service == one
    assert make(tmp_path / "other").service != one


def test_without_a_configuration_the_check_says_what_to_set(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = make(tmp_path, config=str(tmp_path / "missing"))
        (finding,) = await runtime.check()
        assert (finding.ok, finding.required, finding.remedy) == (False, True, "set kubernetes_config")
        with pytest.raises(RuntimeUnusable, match="cannot be used"):
            await runtime.list()
        for name in ("../../etc", "sandbox", "0BDDC141-7F55-4B6C-8F0D-D70B7EB43059"):
            with pytest.raises(SandboxFailed, match="UUID"):
                await runtime.destroy(name)
        await runtime.aclose()

    asyncio.run(run())


@pytest.mark.parametrize(("runtime_class", "said"), [("gvisor", 1), ("kata-qemu", 1), ("runc", 0)])
def test_the_doctor_says_of_which_pods_no_port_may_be_forwarded(runtime_class: str, said: int, tmp_path: Path) -> None:
    settings = KubernetesSettings(classes={"python": runtime_class}, port_forward=True)
    runtime = KubernetesRuntime(RuntimeSettings("kubernetes", tmp_path, tmp_path, kubernetes=settings))
    found = runtime._find_unforwarded()
    assert len(found) == said
    assert all(not each.ok and not each.required and runtime_class in each.detail for each in found)


SPEC = SandboxSpec("0bddc141-7f55-4b6c-8f0d-d70b7eb43059", Environment("python", "/nowhere", "sha256:abc"))
NAME = manifests.name_of(SPEC.sandbox_id)


def script(directory: Path) -> tuple[KubernetesRuntime, ScriptedCluster]:
    runtime, cluster = make(directory), ScriptedCluster()
    runtime.cluster = cluster  # type: ignore[assignment]
    return runtime, cluster


def test_a_start_that_is_given_up_takes_back_what_is_its_own(tmp_path: Path) -> None:
    """Its answer comes late: by then it is cancelled, and the sandbox is there, by itself or by another start."""

    async def run(*, by_another: bool) -> tuple[list[str], list[str]]:
        runtime, cluster = script(tmp_path / str(by_another))
        answering, answer = asyncio.Event(), asyncio.Event()

        async def answer_late() -> None:
            answering.set()
            await answer.wait()

        cluster.before_secret = answer_late
        creating = asyncio.create_task(runtime.create(SPEC))
        await answering.wait()
        if by_another:
            cluster.before_secret = None
            await runtime.create(SPEC)
        creating.cancel()
        answer.set()
        with pytest.raises(asyncio.CancelledError):
            await creating
        return list(cluster.secrets), list(cluster.pods)

    assert asyncio.run(run(by_another=False)) == ([], [])
    assert asyncio.run(run(by_another=True)) == ([NAME], [NAME])


def test_a_start_that_meets_a_pod_of_an_earlier_life_leaves_it(tmp_path: Path) -> None:
    async def run() -> None:
        runtime, cluster = script(tmp_path)
        await runtime.create(SPEC)
        del cluster.secrets[NAME]
        shutil.rmtree(tmp_path / "pods" / SPEC.sandbox_id)
        with pytest.raises(SandboxFailed, match="has not gone yet"):
            await runtime.create(SPEC)
        assert (list(cluster.secrets), list(cluster.pods)) == ([], [NAME])
        cluster.put(cluster.secrets, {"metadata": {"name": NAME}})
        with pytest.raises(SandboxFailed, match="exists already"):
            await runtime.create(SPEC)
        await runtime.destroy(SPEC.sandbox_id)
        assert (cluster.secrets, cluster.pods) == ({}, {})

    asyncio.run(run())


def test_a_pod_goes_from_a_gateway_that_is_gone_to_another_and_the_first_leaves_it_alone(tmp_path: Path) -> None:
    async def run() -> None:
        first, cluster = script(tmp_path / "first")
        second, _ = script(tmp_path / "second")
        second.cluster = cluster  # type: ignore[assignment]
        await first.create(SPEC)
        await first.mark_workspace_ready(SPEC.sandbox_id)
        assert await second.running(SPEC.sandbox_id)
        assert await second.list() == ()
        await second.reopen(SPEC.sandbox_id)
        (info,) = await second.list()
        assert (info.sandbox_id, info.workspace_ready) == (SPEC.sandbox_id, True)
        assert Path(info.workspace_directory).is_dir()
        assert cluster.pods[NAME]["metadata"]["labels"][manifests.SERVICE] == second.service
        assert await first.list() == ()
        assert not (tmp_path / "first/pods" / SPEC.sandbox_id).exists()
        await first.kill(SPEC.sandbox_id)
        await first.destroy(SPEC.sandbox_id)
        assert (list(cluster.secrets), list(cluster.pods)) == ([NAME], [NAME])
        await second.destroy(SPEC.sandbox_id)
        assert (cluster.secrets, cluster.pods) == ({}, {})

    asyncio.run(run())


def test_sandboxes_are_listed_as_the_watch_has_them_but_for_one_that_was_just_taken_over(tmp_path: Path) -> None:
    async def run() -> None:
        first, cluster = script(tmp_path / "first")
        second, _ = script(tmp_path / "second")
        second.cluster, cluster.deaf = cluster, False  # type: ignore[assignment]
        await first.create(SPEC)
        assert await second.list() == ()
        while second._secrets.list_known() is None:
            await asyncio.sleep(0)
        cluster.asked.clear()
        assert await second.list() == ()
        assert cluster.asked == []
        await second.reopen(SPEC.sandbox_id)
        (info,) = await second.list()  # of which the watch does not say anything yet
        assert info.sandbox_id == SPEC.sandbox_id
        cluster.asked.clear()
        cluster.say("secrets", "ADDED", cluster.secrets[NAME])
        while not second._secrets.list_known():
            await asyncio.sleep(0)
        assert await second.list() == (info,)
        assert await second.running(SPEC.sandbox_id)
        assert cluster.asked == []
        assert "data" in cluster.secrets[NAME]
        assert "data" not in second._secrets._known[NAME]
        await second.destroy(SPEC.sandbox_id)
        cluster.asked.clear()
        assert await second.list() == ()  # though the watch has not said so yet
        assert cluster.asked == []
        await second.create(SPEC)
        (info,) = await second.list()  # nor of this one
        assert info.sandbox_id == SPEC.sandbox_id
        for each in (first, second):
            await each.aclose()

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_pod_that_gets_no_label_is_taken_over_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise SandboxFailed("pods is forbidden: cannot patch")

    async def run() -> None:
        first, cluster = script(tmp_path / "first")
        second, _ = script(tmp_path / "second")
        second.cluster = cluster  # type: ignore[assignment]
        await first.create(SPEC)
        monkeypatch.setattr(cluster, "label_pod", fail)
        await second.reopen(SPEC.sandbox_id)
        assert await second.running(SPEC.sandbox_id)

    asyncio.run(run())


def test_a_pod_that_cannot_be_looked_at_is_listed_by_who_tried_to_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: str) -> None:
        raise SandboxFailed("the API server did not answer")

    async def run() -> None:
        first, cluster = script(tmp_path / "first")
        second, _ = script(tmp_path / "second")
        second.cluster = cluster  # type: ignore[assignment]
        await first.create(SPEC)
        with monkeypatch.context() as patches:
            patches.setattr(cluster, "read", fail)
            with pytest.raises(SandboxFailed, match="did not answer"):
                await second.reopen(SPEC.sandbox_id)
        (info,) = await second.list()
        await second.reopen(SPEC.sandbox_id)
        assert Path(info.workspace_directory).is_dir()
        await second.destroy(SPEC.sandbox_id)
        assert (cluster.secrets, cluster.pods) == ({}, {})

    asyncio.run(run())


def test_of_a_pod_whose_node_is_silent_its_guest_says_whether_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        runtime, cluster = script(tmp_path)
        await runtime.create(SPEC)
        assert await runtime.running(SPEC.sandbox_id)
        cluster.pods[NAME]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        answers = [NotListening("nobody"), NotReached("nor the node"), None]

        async def dial(sandbox_id: str, name: str) -> socket.socket:
            assert (sandbox_id, name) == (SPEC.sandbox_id, "guest")
            if (error := answers.pop(0)) is not None:
                raise error
            return socket.socket()

        monkeypatch.setattr(runtime, "dial", dial)
        assert [await runtime.running(SPEC.sandbox_id) for _ in range(3)] == [False, False, True]
        cluster.pods[NAME]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert not await runtime.running(SPEC.sandbox_id)

    asyncio.run(run())


def test_a_guest_whose_pod_is_known_to_be_gone_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernels.kubernetes.streams.CONNECT_SECONDS", 1000)

    async def run(silent: socket.socket) -> None:
        monkeypatch.setattr(manifests, "PORT", silent.getsockname()[1])
        runtime, cluster = await hear(tmp_path)
        dialling = asyncio.create_task(runtime.dial(SPEC.sandbox_id, "guest"))
        connected, _ = await asyncio.to_thread(silent.accept)
        with connected:
            assert not dialling.done()
            cluster.say("pods", "DELETED", cluster.pods.pop(NAME))
            with pytest.raises(SandboxGone):
                await dialling
        with pytest.raises(SandboxGone):
            await runtime.dial(SPEC.sandbox_id, "guest", patience_seconds=1000)
        assert not await runtime.running(SPEC.sandbox_id)
        await runtime.aclose()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(asyncio.wait_for(run(silent), 120))


def test_a_guest_that_does_not_answer_is_not_waited_for_while_the_cluster_has_lost_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernels.kubernetes.streams.CONNECT_SECONDS", 0.1)

    async def run(silent: socket.socket) -> None:
        monkeypatch.setattr(manifests, "PORT", silent.getsockname()[1])
        runtime, cluster = await hear(tmp_path)

        def is_given_up() -> bool:
            return runtime._ends[SPEC.sandbox_id].cut_off

        cluster.pods[NAME]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        cluster.say("pods", "MODIFIED", cluster.pods[NAME])
        while not is_given_up():
            await asyncio.sleep(0.01)
        monkeypatch.setattr("kernels.kubernetes.streams.CONNECT_SECONDS", 1000)
        assert not await runtime.running(SPEC.sandbox_id)
        cluster.pods[NAME]["status"]["conditions"] = [READY]
        cluster.say("pods", "MODIFIED", cluster.pods[NAME])
        while is_given_up():
            await asyncio.sleep(0.01)
        assert await runtime.running(SPEC.sandbox_id)
        await runtime.aclose()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(asyncio.wait_for(run(silent), 120))


async def hear(directory: Path) -> tuple[KubernetesRuntime, ScriptedCluster]:
    """With a pod, of which the service hears, at an address that takes connections and says nothing."""
    runtime, cluster = script(directory)
    cluster.deaf, cluster.address = False, "127.0.0.1"
    await runtime.create(SPEC)
    while "pods" not in cluster.hearers:
        await asyncio.sleep(0)
    return runtime, cluster


def test_a_pod_that_something_holds_is_waited_for_to_a_bound_and_its_record_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernels.kubernetes.pods.END_SECONDS", 0.0)
    monkeypatch.setattr("kernels.kubernetes.pods.GONE_SECONDS", 1000.0)

    async def run() -> None:
        runtime, cluster = script(tmp_path)
        await runtime.create(SPEC)
        cluster.held, cluster.pods[NAME]["metadata"]["finalizers"] = True, ["example.org/keep"]
        destroying = asyncio.create_task(runtime.destroy(SPEC.sandbox_id))
        while cluster.graces != [1, 0]:
            await asyncio.sleep(0.01)
        with monkeypatch.context() as bounds:
            bounds.setattr("kernels.kubernetes.pods.GONE_SECONDS", 0.0)
            with pytest.raises(SandboxFailed, match=r"finalizers example\.org/keep$"):
                await destroying
        assert [each.sandbox_id for each in await runtime.list()] == [SPEC.sandbox_id]  # so that the sweep tries again
        cluster.held = False
        await runtime.destroy(SPEC.sandbox_id)
        assert await runtime.list() == ()

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.parametrize(
    ("state", "ready", "more"),
    [
        ({"terminated": {"exitCode": 137}}, "True", {}),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "False", {}),
        ({"running": {}}, "False", {}),  # the cluster hears nothing of its node
        ({"running": {}}, "True", {"deletionTimestamp": "2000-01-01T00:00:00Z"}),  # long ago
    ],
)
def test_a_pod_that_waiting_does_not_end_is_struck_off_at_once(
    state: dict[str, Any], ready: str, more: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernels.kubernetes.pods.END_SECONDS", 1000)
    monkeypatch.setattr("kernels.kubernetes.pods.GONE_SECONDS", 1000)

    async def run() -> None:
        runtime, cluster = script(tmp_path)
        await runtime.create(SPEC)
        cluster.held, status = True, cluster.pods[NAME]["status"]
        removing = asyncio.create_task(runtime.destroy(SPEC.sandbox_id))
        while not cluster.graces:
            await asyncio.sleep(0)
        assert cluster.graces == [1]
        status["containerStatuses"], status["conditions"] = [{"state": state}], [{"type": "Ready", "status": ready}]
        cluster.pods[NAME]["metadata"].update(more)
        while len(cluster.graces) < 2:
            await asyncio.sleep(0.01)
        del cluster.pods[NAME]
        await removing
        assert cluster.graces == [1, 0]

    asyncio.run(asyncio.wait_for(run(), 120))


def test_no_pod_is_made_where_the_policy_is_not_as_it_is_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        runtime, cluster = script(tmp_path)
        await runtime.create(SPEC)
        del cluster.policies[manifests.POLICY]
        await runtime.list()
        assert manifests.is_closed(cluster.policies[manifests.POLICY])
        assert "pods were open" in caplog.text
        cluster.policies[manifests.POLICY]["spec"]["egress"] = [{}]
        await runtime.list()
        with pytest.raises(RuntimeUnusable, match="somebody has changed it"):
            await runtime.create(SPEC)
        assert len(cluster.secrets) == 1

    asyncio.run(run())
