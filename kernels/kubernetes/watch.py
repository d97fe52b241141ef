"""What the API server says of this service's objects of one kind: one watch, which all who wait for one of them share.

It begins with a list and goes on from the list's version. While nothing is heard, as the server is away, or of an
object that is not among them, such as a claimed pod that another gateway has made, those who wait ask again in a while.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import Any, Final, Protocol

from kernels.cancelling import cancel_all
from kernels.kubernetes.cluster import Cluster, Missing, Object

log = logging.getLogger(__name__)
AGAIN_SECONDS: Final = 15.0
"""After so long without a word an object that is heard of is asked for all the same."""
UNHEARD_SECONDS: Final = 0.5
"""And one that is not."""
_REMEMBERED: Final = 1000
_PAUSES: Final = (0.1, 10.0)
"""First and longest pause before a watch that broke begins again."""


class OnChange(Protocol):
    def __call__(self, found: Object, *, gone: bool) -> None:
        """Called in the loop with an object that has changed, or is gone."""


class Watch:
    """Objects of `kind` that `selector` selects, from the first question on."""

    def __init__(self, cluster: Cluster, kind: str, selector: str, on_change: OnChange | None = None) -> None:
        self._cluster = cluster
        self._kind = kind
        self._selector = selector
        self._on_change = on_change
        self._listening: asyncio.Task[None] | None = None
        self._hears = False
        self._known: dict[str, Object] = {}
        """As they were last heard of, by their names."""
        self._removed: deque[str] = deque(maxlen=_REMEMBERED)
        """Uids of those that went last: who waits for an end may begin to after it."""
        self._version = ""
        self._waiting: dict[str, set[asyncio.Future[bool]]] = {}

    def begin(self) -> None:
        """Listen from now on, if that has not begun."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def aclose(self) -> None:
        await cancel_all([self._listening])

    def list_known(self) -> list[Object] | None:
        """All of them, as they were last heard of, without what Secrets hold; None while nothing is heard."""
        return list(self._known.values()) if self._hears else None

    def remember(self, made: Object) -> None:
        """This process has made it; the server may say so a little later."""
        if self._hears:
            self._note({**made, "metadata": dict(made["metadata"])})  # what is not kept of it is its maker's

    def forget(self, name: str) -> None:
        """This process has removed it; the server may say so a little later."""
        self._known.pop(name, None)

    async def read(self, name: str) -> Object:
        """As it was last heard of, else as the server has it; raises Missing, SandboxFailed."""
        self.begin()
        return self._find(name) or await self._ask(name)

    async def next(self, name: str, seen: Object, seconds: float) -> Object:
        """Once it is not as it was `seen`, in so many seconds at most; raises Missing, SandboxFailed."""
        self.begin()
        known = self._find(name)
        if known is not None and _version(known) != _version(seen):
            return known
        if seen and seen["metadata"]["uid"] in self._removed:
            raise Missing(f"{name} was removed")
        said = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, set()).add(said)
        try:
            await asyncio.wait({said}, timeout=min(seconds, UNHEARD_SECONDS if known is None else AGAIN_SECONDS))
        finally:
            self._waiting[name].discard(said)
            if not self._waiting[name]:
                del self._waiting[name]
        if not said.done():
            return await self._ask(name)
        if said.result():
            raise Missing(f"{name} was removed")
        return await self.read(name)

    def _find(self, name: str) -> Object | None:
        return self._known.get(name) if self._hears else None

    async def _ask(self, name: str) -> Object:
        try:
            return await self._cluster.read(self._kind, name)
        except Missing:
            self._known.pop(name, None)
            raise

    async def _listen(self) -> None:
        pause = _PAUSES[0]
        while True:
            try:
                await self._list()
                pause = _PAUSES[0]
                while True:  # the server ends each watch after a while
                    await self._cluster.watch(self._kind, self._selector, self._version, self._take)
                    await asyncio.sleep(pause)
            except Exception as error:  # whatever it is: what is known would be taken for what is there
                if self._hears:
                    log.warning("the watch of %s broke off: %s", self._kind, error)
                self._hears = False
                for name in list(self._waiting):
                    self._wake(name)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - so that gateways do not come together
            pause = min(pause * 2, _PAUSES[1])

    async def _list(self) -> None:
        found = await self._cluster.list_all(self._kind, self._selector)
        self._version, self._hears = str(found["metadata"].get("resourceVersion", "")), True
        there = {str(each["metadata"]["name"]): each for each in found.get("items", ())}
        for each in [each for name, each in self._known.items() if name not in there]:
            self._note(each, gone=True)
        for each in there.values():
            self._note(each)

    def _take(self, event: Object) -> None:
        """One event of the watch."""
        found = event["object"]
        self._version = _version(found)
        if event["type"] != "BOOKMARK":
            self._note(found, gone=event["type"] == "DELETED")

    def _note(self, found: Object, *, gone: bool = False) -> None:
        metadata: dict[str, Any] = found["metadata"]
        metadata.pop("managedFields", None)  # as large as all the rest
        found.pop("data", None)  # keys, which nobody needs from here
        name = str(metadata["name"])
        if gone:
            self._known.pop(name, None)
            self._removed.append(metadata["uid"])
        else:
            self._known[name] = found
        if self._on_change is not None:
            self._on_change(found, gone=gone)
        self._wake(name, gone=gone)

    def _wake(self, name: str, *, gone: bool = False) -> None:
        for each in self._waiting.get(name, ()):
            if not each.done():
                each.set_result(gone)


def _version(found: Object) -> str:
    return str(found.get("metadata", {}).get("resourceVersion", ""))
