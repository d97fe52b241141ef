"""An API server in memory that does on demand what a real one does by chance: holds a pod, refuses, answers late."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from kernels.errors import SandboxFailed
from kernels.kubernetes.cluster import Exists, Missing

Object = dict[str, Any]


class ScriptedCluster:
    """As `kernels.kubernetes.cluster.Cluster`. What is `held` stays when it is removed; pods run at once.

    A claim has its pod at once as well, called `adopted`; `handed` is what containers got at their standard input.
    """

    namespace = "sandcell"

    def __init__(self) -> None:
        self.secrets: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.policies: dict[str, Object] = {}
        self.custom: dict[str, dict[str, Object]] = {}
        self.handed: list[tuple[str, bytes]] = []
        self.held = False
        self.address = "192.0.2.1"
        self.deaf = True
        self.asked: list[str] = []
        """Names of what was read by itself."""
        self.hearers: dict[str, asyncio.Queue[Object | None]] = {}
        """Those who watch, by kinds; None ends a watch as the server does, `{"error": ...}` as a fault."""
        self.before_secret: Callable[[], Awaitable[None]] | None = None
        self.graces: list[int] = []
        self._uids = map(str, itertools.count(1))

    def put(self, where: dict[str, Object], manifest: Object) -> Object:
        name = manifest["metadata"]["name"]
        if name in where:
            raise Exists(f"{name} already exists")
        where[name] = {**manifest, "metadata": {**manifest["metadata"], "uid": next(self._uids)}}
        where[name]["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        return where[name]

    async def create_secret(self, manifest: Object) -> Object:
        if self.before_secret is not None:
            await self.before_secret()
        return self.put(self.secrets, manifest)

    async def create_pod(self, manifest: Object) -> Object:
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "podIP": self.address, "conditions": ready}
        return self.put(
            self.pods, {**manifest, "status": {**status, "containerStatuses": [{"state": {"running": {}}}]}}
        )

    async def create_policy(self, manifest: Object) -> Object:
        return self.put(self.policies, manifest)

    async def read_policy(self, name: str) -> Object:
        return _read(self.policies, name)

    async def read_secret(self, name: str) -> Object:
        return _read(self.secrets, name)

    def _of(self, kind: str) -> dict[str, Object]:
        known = {"pods": self.pods, "secrets": self.secrets}
        return known[kind] if kind in known else self.custom.setdefault(kind, {})

    async def read(self, kind: str, name: str) -> Object:
        self.asked.append(name)
        return copy.deepcopy(_read(self._of(kind), name))

    async def list_all(self, kind: str, selector: str) -> Object:
        """Refused while it is `deaf`, as nothing is said either."""
        if self.deaf:
            raise SandboxFailed("the API server says nothing")
        self.hearers[kind] = asyncio.Queue()
        return {"metadata": {"resourceVersion": "1"}, "items": copy.deepcopy(_select(self._of(kind), selector))}

    async def watch(self, kind: str, selector: str, version: str, hear: Callable[[Object], None]) -> None:
        while (event := await self.hearers[kind].get()) is not None:
            if "error" in event:
                raise SandboxFailed(event["error"])
            hear(copy.deepcopy(event))

    def say(self, kind: str, what: str, found: Object) -> None:
        """To who watches: that it was ADDED, MODIFIED or DELETED."""
        found["metadata"]["resourceVersion"] = next(self._uids)
        if kind in self.hearers:
            self.hearers[kind].put_nowait({"type": what, "object": found})

    async def list_secrets(self, selector: str) -> list[Object]:
        self.asked.append(selector)
        return _select(self.secrets, selector)

    async def annotate_secret(self, name: str, annotations: dict[str, str]) -> Object:
        found = _read(self.secrets, name)
        found["metadata"]["annotations"] = found["metadata"].get("annotations", {}) | annotations
        return found

    async def label_pod(self, name: str, labels: dict[str, str]) -> Object:
        found = _read(self.pods, name)
        found["metadata"]["labels"] = found["metadata"].get("labels", {}) | labels
        self.say("pods", "ADDED", found)
        return found

    async def label_secret(self, name: str, labels: dict[str, str]) -> Object:
        found = _read(self.secrets, name)
        found["metadata"]["labels"] = found["metadata"].get("labels", {}) | labels
        return found

    async def delete_pod(self, name: str, grace_seconds: int, uid: str = "") -> Object:
        found = _read(self.pods, name)
        if uid and found["metadata"]["uid"] != uid:
            raise Exists("the UID in the precondition does not match")
        self.graces.append(grace_seconds)
        if not self.held:
            self.say("pods", "DELETED", self.pods.pop(name))
        return found

    async def delete_secret(self, name: str) -> Object:
        _read(self.secrets, name)
        return self.secrets.pop(name)

    async def create_custom(self, kind: str, manifest: Object) -> Object:
        made = self.put(self.custom.setdefault(kind, {}), manifest)
        if kind == "sandboxclaims":
            template = self.custom["sandboxtemplates"][manifest["spec"]["warmPoolRef"]["name"]]["spec"]["podTemplate"]
            await self.create_pod({**template, "metadata": {**template["metadata"], "name": "adopted"}})
            made["status"] = {"sandbox": {"name": "adopted"}}
        return made

    async def read_custom(self, kind: str, name: str) -> Object:
        return _read(self.custom.get(kind, {}), name)

    async def list_custom(self, kind: str, selector: str) -> list[Object]:
        return _select(self.custom.get(kind, {}), selector)

    async def delete_custom(self, kind: str, name: str, uid: str = "") -> Object:
        found = _read(self.custom.get(kind, {}), name)
        if uid and found["metadata"]["uid"] != uid:
            raise Exists("the UID in the precondition does not match")
        return self.custom[kind].pop(name)

    async def hand_over(self, pod: str, container: str, line: bytes) -> None:
        self.handed.append((_read(self.pods, pod)["metadata"]["uid"], line))

    def close(self) -> None:
        """There is nothing to let go of."""


def _select(where: dict[str, Object], selector: str) -> list[Object]:
    """Those with this label, or all of them."""
    name, _, value = selector.partition("=")
    return [each for each in where.values() if not name or each["metadata"].get("labels", {}).get(name) == value]


def _read(where: dict[str, Object], name: str) -> Object:
    if name not in where:
        raise Missing(f"{name} not found")
    return where[name]
