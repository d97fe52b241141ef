"""The pods of sandboxes: made, found by their sandbox and removed; here those that the runtime makes itself."""

from __future__ import annotations

import contextlib
import time
from typing import Final, Protocol

from kernels.errors import SandboxFailed
from kernels.kubernetes import images, manifests, pod_status
from kernels.kubernetes.cluster import PODS, Cluster, Exists, Missing, Object
from kernels.kubernetes.watch import OnChange, Watch
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


class Pods(Protocol):
    """Each call is about one sandbox, and may be made again."""

    async def prepare(self, spec: SandboxSpec) -> None:
        """Before its Secret is made; raises SandboxFailed, RuntimeUnusable where no pod can be had."""

    async def make(self, spec: SandboxSpec, owner: str) -> None:
        """Ask for a pod; `owner` is the uid of the sandbox's Secret. Raises SandboxFailed."""

    async def await_running(self, spec: SandboxSpec, secret: Object) -> Object:
        """The pod, once its guest can be reached; raises SandboxFailed with the cluster's reason when it will not."""

    async def find(self, sandbox_id: str) -> Object:
        """The pod that has this sandbox's keys; raises Missing."""

    async def take_over(self, sandbox_id: str) -> None:
        """Hear from now on of a pod that another gateway has made. Raises SandboxFailed where that is not to be had."""

    async def tidy(self) -> None:
        """At the start and each sweep: listen to the cluster, and remove what no sandbox needs any more."""

    async def kill(self, sandbox_id: str) -> None:
        """Have its end begin. Absent is fine."""

    async def remove(self, sandbox_id: str, owner: str) -> None:
        """Until it is gone; with an `owner` that of this Secret alone. Absent is fine; raises SandboxFailed."""

    async def aclose(self) -> None:
        """Listen to the cluster no more."""


class OwnPods:
    """A pod of the sandbox's name, owned by its Secret."""

    def __init__(self, cluster: Cluster, settings: KubernetesSettings, service: str, on_change: OnChange) -> None:
        self._cluster = cluster
        self._settings = settings
        self._service = service
        self._watch = Watch(cluster, PODS, f"{manifests.SERVICE}={service}", on_change)

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

    async def await_running(self, spec: SandboxSpec, secret: Object) -> Object:
        pod = await await_pod(self._watch, secret["metadata"]["name"])
        require_user_namespace(pod, self._settings)
        return pod

    async def find(self, sandbox_id: str) -> Object:
        return await self._watch.read(manifests.name_of(sandbox_id))

    async def take_over(self, sandbox_id: str) -> None:
        await self._cluster.label_pod(manifests.name_of(sandbox_id), {manifests.SERVICE: self._service})

    async def tidy(self) -> None:
        self._watch.begin()

    async def kill(self, sandbox_id: str) -> None:
        with contextlib.suppress(Missing):
            await self._cluster.delete_pod(manifests.name_of(sandbox_id), GRACE_SECONDS)

    async def remove(self, sandbox_id: str, owner: str) -> None:
        with contextlib.suppress(Missing):
            pod = await self.find(sandbox_id)
            if not owner or owner in pod_status.owners(pod):
                await remove_pod(self._cluster, self._watch, pod)

    async def aclose(self) -> None:
        await self._watch.aclose()


def require_user_namespace(pod: Object, settings: KubernetesSettings) -> None:
    """Raises SandboxFailed for one that was to have its own: servers leave out the fields that they do not know."""
    if settings.user_namespaces and pod["spec"].get("hostUsers") is not False:
        raise SandboxFailed("the cluster does not give pods user namespaces: unset kubernetes_user_namespaces")


async def await_pod(pods: Watch, name: str, *, made: bool = True) -> Object:
    """Wait until the guest's process runs; raises SandboxFailed with the cluster's reason when it will not.

    `made` says that the pod is there already: one that is not there then was removed.
    """
    why = "it was not placed on a node" if made else "it was not made"
    seen: Object = {}
    give_up = time.monotonic() + START_SECONDS
    while (left := give_up - time.monotonic()) > 0:
        try:
            seen = await pods.next(name, seen, left)
        except Missing:
            if made:
                raise SandboxFailed("the pod was removed while it started") from None
            seen = {}
            continue
        if pod_status.runs(seen) and seen["status"].get("podIP"):
            return seen
        if seen["metadata"].get("deletionTimestamp"):  # it, or one of this name of a life before
            continue
        why = pod_status.explain(seen) or why
        if pod_status.is_hopeless(seen):
            raise SandboxFailed(f"the pod does not start: {why}")
    raise SandboxFailed(f"the pod did not start within {START_SECONDS:g} s: {why}")


async def remove_pod(cluster: Cluster, pods: Watch, pod: Object) -> None:
    """Until it is gone: one of a lost node is struck off. Raises SandboxFailed when it stays."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    began, grace = time.monotonic(), GRACE_SECONDS
    with contextlib.suppress(Missing, Exists):  # or another one has its name by now
        if pod["metadata"].get("deletionGracePeriodSeconds", GRACE_SECONDS + 1) > GRACE_SECONDS:
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
            pod = await pods.next(name, pod, END_SECONDS - asked if grace else GONE_SECONDS - waited)
