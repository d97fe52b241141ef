"""What all who wait for a pod share: one watch, what is known by it, and what is done while it says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kernels.errors import SandboxFailed
from kernels.kubernetes import watch
from kernels.kubernetes.cluster import PODS, Missing
from kernels.kubernetes.pods import await_pod, remove_pod
from kernels.kubernetes.watch import Watch
from tests.doubles.scripted_cluster import ScriptedCluster

GUARD_SECONDS = 60
Changed = list[tuple[str, bool]]


def listen(run: Callable[[ScriptedCluster, Watch, Changed], Awaitable[None]]) -> None:
    """With one pod `there` on a server that is heard."""

    async def main() -> None:
        cluster, changed = ScriptedCluster(), Changed()
        cluster.deaf = False
        await cluster.create_pod({"metadata": {"name": "there", "resourceVersion": "1"}})

        def note(found: dict[str, Any], *, gone: bool) -> None:
            changed.append((found["metadata"]["name"], gone))

        pods = Watch(cluster, PODS, "", note)  # type: ignore[arg-type]
        pods.begin()
        while not changed:
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(GUARD_SECONDS):
                await run(cluster, pods, changed)
        finally:
            await pods.aclose()

    asyncio.run(main())


def test_what_is_heard_of_is_not_asked_for() -> None:
    async def run(cluster: ScriptedCluster, pods: Watch, changed: Changed) -> None:
        found = await pods.read("there")
        waiting = [asyncio.create_task(pods.next("there", found, GUARD_SECONDS)) for _ in range(3)]
        await asyncio.sleep(0)
        cluster.pods["there"]["status"]["phase"] = "Failed"
        cluster.say(PODS, "MODIFIED", cluster.pods["there"])
        assert [(await each)["status"]["phase"] for each in waiting] == ["Failed"] * 3
        assert (await pods.next("there", found, GUARD_SECONDS))["status"]["phase"] == "Failed"
        assert cluster.asked == []

    listen(run)


def test_who_waits_for_a_pod_hears_of_its_start_and_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "UNHEARD_SECONDS", GUARD_SECONDS)

    async def run(cluster: ScriptedCluster, pods: Watch, changed: Changed) -> None:
        starting = asyncio.create_task(await_pod(pods, "new"))
        await asyncio.sleep(0)
        made = await cluster.create_pod({"metadata": {"name": "new"}})
        status, made["status"] = made["status"], {"phase": "Pending"}
        cluster.say(PODS, "ADDED", made)
        await asyncio.sleep(0.01)
        made["status"] = status
        cluster.say(PODS, "MODIFIED", made)
        pod = await starting
        assert pod["status"]["phase"] == "Running"
        cluster.held = True
        removing = asyncio.create_task(remove_pod(cluster, pods, pod))  # type: ignore[arg-type]
        while not cluster.graces:
            await asyncio.sleep(0)
        made["status"]["containerStatuses"] = [{"state": {"terminated": {}}}]
        cluster.say(PODS, "MODIFIED", made)
        while len(cluster.graces) < 2:
            await asyncio.sleep(0)
        cluster.say(PODS, "DELETED", cluster.pods.pop("new"))
        await removing
        assert cluster.asked == []
        assert changed[-1] == ("new", True)

    listen(run)


def test_an_end_that_came_before_it_was_waited_for_is_known() -> None:
    async def run(cluster: ScriptedCluster, pods: Watch, changed: Changed) -> None:
        found = await pods.read("there")
        cluster.say(PODS, "DELETED", cluster.pods.pop("there"))
        while ("there", True) not in changed:
            await asyncio.sleep(0)
        with pytest.raises(Missing):
            await pods.next("there", found, GUARD_SECONDS)
        assert cluster.asked == []

    listen(run)


def test_one_that_goes_while_it_starts_is_said_to_be_gone() -> None:
    async def run(cluster: ScriptedCluster, pods: Watch, changed: Changed) -> None:
        cluster.pods["there"]["status"] = {"phase": "Pending"}
        cluster.say(PODS, "MODIFIED", cluster.pods["there"])
        starting = asyncio.create_task(await_pod(pods, "there"))
        await asyncio.sleep(0.01)
        cluster.say(PODS, "DELETED", cluster.pods.pop("there"))
        with pytest.raises(SandboxFailed, match="removed while it started"):
            await starting
        with pytest.raises(Missing):
            await pods.read("there")
        assert cluster.asked == ["there"]

    listen(run)


def test_a_watch_that_the_server_ends_goes_on_and_one_that_breaks_begins_again() -> None:
    async def run(cluster: ScriptedCluster, pods: Watch, changed: Changed) -> None:
        hearer = cluster.hearers[PODS]
        hearer.put_nowait(None)
        cluster.say(PODS, "MODIFIED", cluster.pods["there"])
        while len(changed) < 2:
            await asyncio.sleep(0)
        assert cluster.hearers[PODS] is hearer  # without another list
        waiting = asyncio.create_task(pods.next("there", await pods.read("there"), GUARD_SECONDS))
        await asyncio.sleep(0)
        cluster.deaf = True
        hearer.put_nowait({"error": "too old resource version"})
        await waiting  # asked for by itself
        assert cluster.asked == ["there"]
        gone = cluster.pods.pop("there")
        await cluster.create_pod({"metadata": {"name": "other"}})
        assert gone
        cluster.deaf = False
        while ("other", False) not in changed:
            await asyncio.sleep(0.01)
        assert ("there", True) in changed

    listen(run)


def test_while_nothing_is_heard_who_waits_asks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "UNHEARD_SECONDS", 0.01)

    async def run() -> None:
        cluster = ScriptedCluster()
        pods = Watch(cluster, PODS, "")  # type: ignore[arg-type]
        await cluster.create_pod({"metadata": {"name": "there"}})
        assert (await await_pod(pods, "there"))["status"]["phase"] == "Running"
        cluster.held = True
        removing = asyncio.create_task(remove_pod(cluster, pods, cluster.pods["there"]))  # type: ignore[arg-type]
        while len(cluster.asked) < 5:
            await asyncio.sleep(0.01)
        del cluster.pods["there"]
        await removing
        await pods.aclose()

    asyncio.run(asyncio.wait_for(run(), GUARD_SECONDS))
