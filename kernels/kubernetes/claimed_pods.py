"""Pods that a controller of agent-sandbox makes: claimed by name, and given their keys when they are a session's.

A pod gets its keys once, over the API server, which reaches it by its name and nobody else. One that the controller
makes in its place has none, and so is nobody's.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Final

import msgspec

from kernels.errors import SandboxFailed
from kernels.kubernetes import claims, images, manifests, pod_status
from kernels.kubernetes.certificates import GUEST_FILES
from kernels.kubernetes.cluster import PODS, Cluster, Exists, Missing, Object
from kernels.kubernetes.pods import (
    GONE_SECONDS,
    GRACE_SECONDS,
    START_SECONDS,
    await_pod,
    remove_pod,
    require_user_namespace,
)
from kernels.kubernetes.watch import OnChange, Watch
from kernels.sandbox import KubernetesSettings, SandboxSpec

CLAIMS: Final = "sandboxclaims"
UNUSED_SECONDS: Final = 3600.0
"""How long a template stays that nobody asks for: the next session of its environment makes it again."""


class ClaimedPods:
    """A SandboxClaim of the sandbox's name, owned by its Secret, which names the pod that got the keys."""

    def __init__(self, cluster: Cluster, settings: KubernetesSettings, service: str, on_change: OnChange) -> None:
        self._cluster = cluster
        self._settings = settings
        self._service = service
        own = f"{manifests.SERVICE}={service}"
        self._pods, self._claims = Watch(cluster, PODS, own, on_change), Watch(cluster, CLAIMS, own)
        self._used: dict[str, float] = {}
        """Templates by name, and when each was last asked for."""
        self._began = time.monotonic()

    async def prepare(self, spec: SandboxSpec) -> None:
        """Have the environment's template and pool there. How many pods the pool has is not the service's to say."""
        template = self._make_template(spec)
        name = template["metadata"]["name"]
        self._used[name] = time.monotonic()
        try:
            pool = await self._cluster.read_custom("sandboxwarmpools", name)
            if pool["metadata"].get("deletionTimestamp"):
                raise SandboxFailed(f"the pool {name} is being removed: try again")
        except Missing:
            try:
                made = await self._cluster.create_custom("sandboxtemplates", template)
            except Exists:
                made = await self._cluster.read_custom("sandboxtemplates", name)
            with contextlib.suppress(Exists):
                await self._cluster.create_custom("sandboxwarmpools", claims.pool(template, made["metadata"]["uid"]))

    def _make_template(self, spec: SandboxSpec) -> Object:
        """Raises SandboxFailed where pods of one template cannot be kept apart."""
        image = spec.environment.image
        runtime_class = self._settings.classes.get(image, "")
        user = claims.find_user(runtime_class, namespaced=self._settings.user_namespaces)
        if user is None:
            raise SandboxFailed(f"the image {image} has no pods to be claimed: {claims.WHY_APART}; {claims.HOW_APART}")
        # All pods begin as the first of their session.
        first = msgspec.structs.replace(spec, generation=1)
        reference = images.reference(spec.environment, self._settings.registry)
        return claims.template(self._service, first, reference, runtime_class, user)

    async def make(self, spec: SandboxSpec, owner: str) -> None:
        pool = self._make_template(spec)["metadata"]["name"]
        try:
            await self._cluster.create_custom(CLAIMS, claims.claim(self._service, spec.sandbox_id, pool, owner))
        except Exists as error:
            raise SandboxFailed(f"the claim before this one has not gone yet: {error}") from None

    async def await_running(self, spec: SandboxSpec, secret: Object) -> Object:
        name = secret["metadata"]["name"]
        pod = await self._await_pod(name)
        require_user_namespace(pod, self._settings)
        keys = manifests.read_keys(secret)
        beginning = {"generation": spec.generation, "keys": {each: keys[each].decode("ascii") for each in GUEST_FILES}}
        metadata = pod["metadata"]
        await self._cluster.annotate_secret(name, {claims.POD: metadata["name"], claims.POD_UID: metadata["uid"]})
        line = json.dumps(beginning).encode() + b"\n"
        await self._cluster.hand_over(metadata["name"], manifests.CONTAINER, line)
        return pod

    async def _await_pod(self, name: str) -> Object:
        """The pod that this claim has, once it runs. Raises SandboxFailed with what the cluster says."""
        give_up = time.monotonic() + START_SECONDS
        claim: Object = {}
        while not claims.find_sandbox(claim):
            if (left := give_up - time.monotonic()) <= 0:
                raise SandboxFailed(f"no pod was had within {START_SECONDS:g} s: {claims.explain(claim)}")
            try:
                claim = await self._claims.next(name, claim, left)
            except Missing:
                raise SandboxFailed("the claim was removed while its pod started") from None
        return await await_pod(self._pods, claims.find_sandbox(claim), made=False)

    async def find(self, sandbox_id: str) -> Object:
        secret = await self._cluster.read_secret(manifests.name_of(sandbox_id))
        notes = secret["metadata"].get("annotations", {})
        if claims.POD not in notes:
            raise Missing("no pod has its keys")
        pod = await self._pods.read(notes[claims.POD])
        if pod["metadata"]["uid"] != notes[claims.POD_UID]:
            raise Missing("the pod that had its keys is gone, and another one in its place")
        return pod

    async def take_over(self, sandbox_id: str) -> None:
        """Its controller gives a pod the labels of its template again and again: it is asked for by itself."""

    async def tidy(self) -> None:
        """Remove templates, with their pools, that were not asked for in an hour and have no pods ready."""
        self._pods.begin()
        self._claims.begin()
        since = time.monotonic() - UNUSED_SECONDS
        self._used = {name: at for name, at in self._used.items() if at > since}
        if self._began > since:
            return
        for pool in await self._cluster.list_custom("sandboxwarmpools", f"{manifests.SERVICE}={self._service}"):
            if pool["metadata"]["name"] not in self._used and not pool["spec"].get("replicas"):
                with contextlib.suppress(Missing):
                    await self._cluster.delete_custom("sandboxtemplates", pool["metadata"]["name"])

    async def kill(self, sandbox_id: str) -> None:
        claim = await self._release(sandbox_id)
        if claim is not None and (found := claims.find_sandbox(claim)):
            with contextlib.suppress(Missing):
                await self._cluster.delete_pod(found, GRACE_SECONDS)

    async def remove(self, sandbox_id: str, owner: str) -> None:
        claim = await self._release(sandbox_id, owner)
        if claim is None:
            return
        give_up = time.monotonic() + GONE_SECONDS
        if found := claims.find_sandbox(claim):
            with contextlib.suppress(Missing):
                await remove_pod(self._cluster, self._pods, await self._pods.read(found))
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        with contextlib.suppress(Missing):
            while claim["metadata"]["uid"] == uid:
                if (left := give_up - time.monotonic()) <= 0:
                    raise SandboxFailed(f"the claim {name} is still there after {GONE_SECONDS:g} s")
                claim = await self._claims.next(name, claim, left)

    async def _release(self, sandbox_id: str, owner: str = "") -> Object | None:
        """Have the claim go with all that it has; returns what it was. With an `owner` that of this Secret alone.

        Its Sandbox is removed here as well: while it is there its controller makes a pod for the one that ends.
        """
        name = manifests.name_of(sandbox_id)
        with contextlib.suppress(Missing):
            claim = await self._cluster.read_custom(CLAIMS, name)
            if owner and owner not in pod_status.owners(claim):
                return None
            with contextlib.suppress(Missing, Exists):
                await self._cluster.delete_custom(CLAIMS, name, claim["metadata"]["uid"])
                if found := claims.find_sandbox(claim):
                    await self._cluster.delete_custom("sandboxes", found)
            return claim
        return None

    async def aclose(self) -> None:
        await self._pods.aclose()
        await self._claims.aclose()
