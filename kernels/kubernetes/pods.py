"""The pods of sandboxes: made, found by their sandbox and removed; here those that the runtime makes itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final, Protocol

from kernels.errors import SandboxFailed
from kernels.kubernetes import images, manifests, pod_status
from kernels.kubernetes.cluster import Cluster, Exists, Missing, Object
from kernels.sandbox import KubernetesSettings, SandboxSpec

START_SECONDS: Final = 120.0
"""How long a pod has to be placed, to get its image and to run."""
END_SECONDS: Final = 10.0
"""How long its end is waited for, from when it was asked for, before it is taken out of the cluster's books.

Its node may be lost, or say nothing more of it; one that is there ends what is in the books no longer.
"""
GONE_SECONDS: Final = 50.0
"""How long it may stay in them all the same: something in the cluster holds it. Callers wait for 60 s."""
GRACE_SECONDS: Final = 1
POLL_SECONDS: Final = 0.05
SLOW_POLL_SECONDS: Final = 0.5


class Pods(Protocol):
    """Each call is about one sandbox, and may be made again."""

    async def prepare(self, spec: SandboxSpec) -> None:
        """Before its Secret is made; raises SandboxFailed, RuntimeUnusable where no pod can be had."""

    async def make(self, spec: SandboxSpec, owner: str) -> None:
        """Ask for a pod; `owner` is the uid of the sandbox's Secret. Raises SandboxFailed."""

    async def await_running(self, spec: SandboxSpec, secret: Object) -> None:
        """Wait until its guest can be reached; raises SandboxFailed with the cluster's reason when it will not."""

    async def find(self, sandbox_id: str) -> Object:
        """The pod that has this sandbox's keys; raises Missing."""

    async def tidy(self) -> None:
        """At each sweep: remove what no sandbox needs any more."""

    async def kill(self, sandbox_id: str) -> None:
        """Have its end begin. Absent is fine."""

    async def remove(self, sandbox_id: str, owner: str) -> None:
        """Until it is gone; with an `owner` that of this Secret alone. Absent is fine; raises SandboxFailed."""


class OwnPods:
    """A pod of the sandbox's name, owned by its Secret."""

    def __init__(self, cluster: Cluster, settings: KubernetesSettings, service: str) -> None:
        self._cluster = cluster
        self._settings = settings
        self._service = service

    async def prepare(self, spec: SandboxSpec) -> None:
        """There is nothing to prepare."""

    async def make(self, spec: SandboxSpec, owner: str) -> None:
        image = images.reference(spec.environment, self._settings.registry)
        runtime_class = self._settings.classes.get(spec.environment.image, "")
        user = manifests.user_of(spec.sandbox_id, namespaced=self._settings.user_namespaces)
        try:
            await self._cluster.create_pod(
                manifests.pod(self._service, spec, image=image, runtime_class=runtime_class, owner=owner, user=user)
            )
        except Exists as error:  # of a life before, that is still ending
            raise SandboxFailed(f"the pod before this one has not gone yet: {error}") from None

    async def await_running(self, spec: SandboxSpec, secret: Object) -> None:
        require_user_namespace(await await_pod(self._cluster, secret["metadata"]["name"]), self._settings)

    async def find(self, sandbox_id: str) -> Object:
        return await self._cluster.read_pod(manifests.name_of(sandbox_id))

    async def tidy(self) -> None:
        """There is nothing but pods."""

    async def kill(self, sandbox_id: str) -> None:
        with contextlib.suppress(Missing):
            await self._cluster.delete_pod(manifests.name_of(sandbox_id), GRACE_SECONDS)

    async def remove(self, sandbox_id: str, owner: str) -> None:
        with contextlib.suppress(Missing):
            pod = await self.find(sandbox_id)
            if not owner or owner in pod_status.owners(pod):
                await remove_pod(self._cluster, pod)


def require_user_namespace(pod: Object, settings: KubernetesSettings) -> None:
    """Raises SandboxFailed for one that was to have its own: servers leave out the fields that they do not know."""
    if settings.user_namespaces and pod["spec"].get("hostUsers") is not False:
        raise SandboxFailed("the cluster does not give pods user namespaces: unset kubernetes_user_namespaces")


async def await_pod(cluster: Cluster, name: str) -> Object:
    """Wait until the guest's process runs; raises SandboxFailed with the cluster's reason when it will not."""
    why, pause = "it was not placed on a node", POLL_SECONDS
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            pod = await cluster.read_pod(name)
        except Missing:
            raise SandboxFailed("the pod was removed while it started") from None
        if pod_status.runs(pod) and pod["status"].get("podIP"):
            return pod
        why = pod_status.explain(pod) or why
        if pod_status.is_hopeless(pod):
            raise SandboxFailed(f"the pod does not start: {why}")
        if time.monotonic() > give_up:
            raise SandboxFailed(f"the pod did not start within {START_SECONDS:g} s: {why}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.1, SLOW_POLL_SECONDS)


async def remove_pod(cluster: Cluster, pod: Object) -> None:
    """Until it is gone: one of a lost node is struck off. Raises SandboxFailed when it stays."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    began, pause, grace = time.monotonic(), POLL_SECONDS, GRACE_SECONDS
    with contextlib.suppress(Missing, Exists):  # or another one has its name by now
        await cluster.delete_pod(name, grace, uid)
        while pod["metadata"]["uid"] == uid:
            waited = time.monotonic() - began
            if waited > GONE_SECONDS:
                raise SandboxFailed(
                    f"the pod {name} is still there after {GONE_SECONDS:g} s: {pod_status.holders(pod)}"
                )
            # What has ended needs no more time; its node would strike it off when it next tidies up, in a minute.
            # A node that is silent does not hear that it is to end it, and ends it when it is back.
            asked = max(waited, pod_status.terminating_seconds(pod, time.time()))
            if grace and (asked > END_SECONDS or pod_status.has_ended(pod) or pod_status.is_cut_off(pod)):
                grace = 0
                await cluster.delete_pod(name, grace, uid)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, SLOW_POLL_SECONDS)
            pod = await cluster.read_pod(name)
