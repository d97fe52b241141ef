"""`SandboxRuntime` on Kubernetes: makes, finds and removes pods.

What is known of a sandbox is in its Secret and its pod: any later process of the service reads it there. The service's
files of it lie in `data_directory/pods/<id>`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import secrets
import shutil
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kernels.cancelling import cancel_all
from kernels.errors import KernelsError, NotListening, NotReached, RuntimeUnusable, SandboxFailed, SandboxGone
from kernels.guest_client.client import GuestClient
from kernels.kubernetes import accounts, certificates, claims, manifests, pod_status
from kernels.kubernetes.accounts import Account
from kernels.kubernetes.claimed_pods import ClaimedPods
from kernels.kubernetes.cluster import SECRETS, Cluster, Exists, Missing, Object
from kernels.kubernetes.pods import OwnPods, Pods
from kernels.kubernetes.port_forward import Forwarding
from kernels.kubernetes.streams import Direct, Stream, Streams, Way, open_stream
from kernels.kubernetes.watch import Watch
from kernels.kubernetes.ways_out import WaysOut
from kernels.sandbox import Finding, PagedOut, RuntimeSettings, SandboxInfo, SandboxSpec, SandboxUsage
from kernels.wire.dialing import GUEST, PATIENCE_SECONDS

log = logging.getLogger(__name__)
NAME: Final = "kubernetes"
WORKSPACE: Final = "workspace"
"""The service's copy, beside what it has fetched a part of."""
_DIAL_SECONDS: Final = 0.02
_USAGE_SECONDS: Final = 2.0
"""How long a pod that is to end is asked what it has used."""
_OPENED: Final = (
    f"the network policy {manifests.POLICY} does not close pods off as it is to: somebody has changed it. Remove it,"
    " and it is made again"
)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass
class _End:
    """What it takes to reach a guest, and whether that is still of use."""

    pod_uid: str
    way: Way
    context: ssl.SSLContext
    account: Account
    guest: GuestClient = field(repr=False)
    dialling: set[asyncio.Timeout] = field(default_factory=set)
    gone: bool = False
    """Whether its pod has ended."""
    cut_off: bool = False
    """Whether the cluster has lost its node, and it was not reached since."""


class KubernetesRuntime:
    """Pods of one service in one namespace. See `SandboxRuntime` for the contract."""

    def __init__(self, settings: RuntimeSettings) -> None:
        self.settings = settings
        self.cluster = Cluster(settings.kubernetes)
        self._streams = Streams()
        self._forwarding = Forwarding(self.cluster)
        self._ways_out = WaysOut(settings.data_directory / "pods")
        self._ends: dict[str, _End] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._took = False
        """Whether a sandbox was taken from another gateway since the last list: the watch may not know it yet."""
        self._looked = False
        """Whether the files here are those of this service's sandboxes."""
        self._closed_off = False
        """Whether the policy has been there."""

    @functools.cached_property
    def _pods(self) -> Pods:
        kind = ClaimedPods if self.settings.kubernetes.claims else OwnPods
        return kind(self.cluster, self.settings.kubernetes, self.service, self._note_change)

    @functools.cached_property
    def _secrets(self) -> Watch:
        return Watch(self.cluster, SECRETS, f"{manifests.SERVICE}={self.service}")

    @functools.cached_property
    def service(self) -> str:
        """A random name, kept where this service keeps its files: hosts that look alike may share a namespace."""
        home = self.settings.data_directory / "pods"
        place, unfinished = home / "service-id", home / f".service-id-{os.getpid()}"
        if not place.exists():
            home.mkdir(mode=0o711, exist_ok=True)
            unfinished.write_text(secrets.token_hex(8))
            with contextlib.suppress(FileExistsError):
                place.hardlink_to(unfinished)
            unfinished.unlink()
        return place.read_text()

    async def check(self) -> tuple[Finding, ...]:
        namespace = self.cluster.namespace
        try:
            version = await self.cluster.version()
            missing = await self.cluster.missing_rights()
            policy = await self._find_policy()
            unserved = await self._find_unserved()
        except (RuntimeUnusable, SandboxFailed) as error:
            return (Finding("kubernetes", ok=False, detail=str(error), remedy="set kubernetes_config"),)
        rights = f"in the namespace {namespace}: " + (f"not {', '.join(missing)}" if missing else "all that are needed")
        return (
            Finding("kubernetes", ok=True, detail=f"the API server answers: {version}"),
            Finding("rights", ok=not missing, detail=rights, remedy="bind a Role with these to the service's account"),
            *unserved,
            *self._find_unforwarded(),
            Finding(
                "network policy",
                ok=policy is None or manifests.is_closed(policy),
                detail=f"{manifests.POLICY} is " + ("not there yet" if policy is None else "there"),
                remedy=_OPENED,
            ),
            Finding(
                "network policies",
                ok=False,
                required=False,
                detail="whether the cluster's network enforces them cannot be seen from here",
                remedy="use a network plugin that does; without one pods reach whatever the nodes reach",
            ),
        )

    async def _find_unserved(self) -> tuple[Finding, ...]:
        """What the cluster and the settings have of what claims need."""
        kubernetes = self.settings.kubernetes
        if not kubernetes.claims:
            return ()
        missing = await self.cluster.missing_kinds()
        served = f"no {', '.join(missing)}" if missing else "its kinds"
        classes = kubernetes.classes.values() or ("",)
        apart = any(claims.find_user(each, namespaced=kubernetes.user_namespaces) is not None for each in classes)
        return (
            Finding(
                "agent-sandbox",
                ok=not missing,
                detail=f"the API server has {claims.VERSION} of {served}",
                remedy="install agent-sandbox 0.5 or later with its extensions, or unset kubernetes_claims",
            ),
            Finding(
                "users of claimed pods",
                ok=apart,
                detail="those of one template are kept apart" if apart else claims.WHY_APART,
                remedy=claims.HOW_APART,
            ),
        )

    def _find_unforwarded(self) -> tuple[Finding, ...]:
        kubernetes = self.settings.kubernetes
        isolated = [each for each in kubernetes.classes.values() if each.startswith(claims.OWN_KERNELS)]
        if not (kubernetes.port_forward and isolated):
            return ()
        return (
            Finding(
                "port-forward",
                ok=False,
                required=False,
                detail=f"the RuntimeClass {isolated[0]} may have a loopback to which no node forwards a port",
                remedy="unset kubernetes_port_forward, or the classes of images whose sessions do not start",
            ),
        )

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        _require_id(spec.sandbox_id)
        await self._close_off()
        await self._pods.prepare(spec)
        start = secrets.token_hex(8)
        making = asyncio.create_task(self._make(spec, start))
        try:
            secret = await asyncio.shield(making)
            pod = await self._pods.await_running(spec, secret)
            self._ends[spec.sandbox_id] = self._make_end(spec.sandbox_id, pod, secret)
        except Exists as error:
            raise SandboxFailed(f"a sandbox {spec.sandbox_id} exists already: {error}") from None
        except BaseException:
            await asyncio.wait([making])  # it ends: each of its requests has a deadline
            await asyncio.shield(self._take_back(spec.sandbox_id, start))
            raise
        return SandboxInfo(
            spec.sandbox_id,
            str(self._place(spec.sandbox_id) / WORKSPACE),
            environment_digest=spec.environment.digest,
            runtime=NAME,
            workspace_copy=True,
        )

    async def claim(self, sandbox_id: str, *, workspace_ready: bool = False) -> SandboxUsage:
        """Spare pods have their full share from the start."""
        if workspace_ready:
            await self.mark_workspace_ready(sandbox_id)
        return await self.usage(sandbox_id)

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        try:
            await self.cluster.annotate_secret(manifests.name_of(sandbox_id), {manifests.READY: "true"})
        except Missing as error:
            raise SandboxGone(f"sandbox {sandbox_id} is gone: {error}") from None

    async def reopen(self, sandbox_id: str) -> None:
        place, ours = self._place(sandbox_id), await self._is_ours(sandbox_id)
        if ours and place.is_dir():
            return
        if not ours:  # another gateway's that is gone; what is here is from before that had it
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
            # First of all: whatever fails from here on, who has taken it lists it, and so can remove it.
            try:
                await self.cluster.label_secret(manifests.name_of(sandbox_id), {manifests.SERVICE: self.service})
            except Missing as error:
                raise SandboxGone(f"sandbox {sandbox_id} is gone: {error}") from None
            self._took = True
        try:
            await self._pods.take_over(sandbox_id)
        except SandboxFailed as error:
            log.warning("the watch of pods does not have that of sandbox %s: %s", sandbox_id, error)
        if not await self.running(sandbox_id):
            raise SandboxGone(f"the files of sandbox {sandbox_id} are gone with its pod")
        self._make_place(sandbox_id)

    async def list(self) -> tuple[SandboxInfo, ...]:
        with contextlib.suppress(RuntimeUnusable, SandboxFailed):  # said by `check`, and by what makes the next pod
            await self._close_off()
            await self._pods.tidy()
        places = set() if self._looked else await asyncio.to_thread(self._find_places)
        found = await self._list_secrets()
        infos = tuple(self._info(each["metadata"]) for each in found)
        for each in places - {info.sandbox_id for info in infos}:  # gone meanwhile, or another gateway's by now
            await asyncio.to_thread(shutil.rmtree, self._place(each), ignore_errors=True)
        self._looked = True
        return infos

    async def _list_secrets(self) -> Sequence[Object]:
        """As the watch has them, but for one that was taken over: that is asked for, so that it is among them."""
        self._secrets.begin()
        known = None if self._took else self._secrets.list_known()
        if known is not None:
            return known
        self._took = False  # before the request: what is taken meanwhile is for the next one
        try:
            return await self.cluster.list_secrets(f"{manifests.SERVICE}={self.service}")
        except BaseException:
            self._took = True
            raise

    async def running(self, sandbox_id: str) -> bool:
        _require_id(sandbox_id)
        try:
            pod = await self._pods.find(sandbox_id)
        except Missing:
            return False
        if pod_status.ran(pod) and not pod_status.runs(pod):
            # Its node has not spoken to the API server for a while, or could not: the guest itself knows better.
            try:
                (await self.dial(sandbox_id, GUEST)).close()
            except (NotListening, NotReached, SandboxGone):  # nor does the API server reach its node
                return False
            return True
        return pod_status.runs(pod)

    async def usage(self, sandbox_id: str) -> SandboxUsage:
        end = await self._end(sandbox_id)
        try:
            found = await end.guest.usage()
        except (KernelsError, OSError) as error:
            raise SandboxGone(f"sandbox {sandbox_id} does not say what it uses: {error}") from None
        return end.account.hold(found, time.time())

    async def watch_memory(self, sandbox_id: str, percents: tuple[int, ...]) -> int:
        raise SandboxFailed("a pod's memory cannot be watched from outside")

    async def page_out(self, sandbox_id: str) -> PagedOut:
        return PagedOut(0, "a pod cannot be stopped with its memory in swap")

    async def thaw(self, sandbox_id: str) -> None:
        """None is ever stopped."""

    async def save(self, sandbox_id: str) -> PagedOut:
        return PagedOut(0, "a pod's processes cannot be saved")

    async def put_away(self, sandbox_id: str) -> bool:
        return False

    async def dial(self, sandbox_id: str, name: str, *, patience_seconds: float = 0) -> socket.socket:
        end = await self._end(sandbox_id)
        give_up = time.monotonic() + min(patience_seconds, PATIENCE_SECONDS)
        while True:
            if end.gone or end.cut_off:
                raise _make_lost_error(sandbox_id, end)
            try:
                return await self._open(sandbox_id, end, name)
            except NotListening:
                if time.monotonic() >= give_up:
                    raise
            await asyncio.sleep(_DIAL_SECONDS)

    async def _open(self, sandbox_id: str, end: _End, name: str) -> socket.socket:
        """A stream to its guest; raises NotListening, and SandboxGone as soon as its pod has ended."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                end.dialling.add(limit)
                return await self._streams.open(end.way, manifests.name_of(sandbox_id), name, end.context)
        except TimeoutError:
            raise _make_lost_error(sandbox_id, end) from None
        finally:
            end.dialling.discard(limit)

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        _require_id(sandbox_id)
        return await self._ways_out.open(sandbox_id, name, functools.partial(self._reach, sandbox_id))

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        raise PermissionError(13, "the copy of a workspace is the service's own: nothing in it is closed to it")

    async def open_kept(self, sandbox_id: str, name: str) -> int:
        raise SandboxGone("the disk of a pod goes with it")

    async def kill(self, sandbox_id: str) -> SandboxUsage | None:
        _require_id(sandbox_id)
        if not await self._is_ours(sandbox_id):
            return None
        used = None
        with contextlib.suppress(KernelsError, TimeoutError):
            async with asyncio.timeout(_USAGE_SECONDS):
                used = await self.usage(sandbox_id)
        await self._pods.kill(sandbox_id)
        return used

    async def destroy(self, sandbox_id: str) -> None:
        _require_id(sandbox_id)
        await asyncio.shield(self._remove(sandbox_id))

    async def aclose(self) -> None:
        await self._ways_out.aclose()
        for end in self._ends.values():
            await end.guest.aclose()
        await self._streams.aclose()
        await self._forwarding.aclose()
        if "_pods" in self.__dict__:
            await self._pods.aclose()
        if "_secrets" in self.__dict__:
            await self._secrets.aclose()
        await cancel_all(list(self._probes))
        self.cluster.close()

    async def _close_off(self) -> None:
        """Have the policy there, as it is to be, whenever a pod is made, and at each sweep."""
        policy = await self._find_policy()
        if policy is None:
            if self._closed_off:
                log.error("the network policy %s was gone: pods were open", manifests.POLICY)
            with contextlib.suppress(Exists):
                await self.cluster.create_policy(manifests.policy())
            policy = await self._find_policy()
        if policy is None or not manifests.is_closed(policy):
            raise RuntimeUnusable(_OPENED)
        self._closed_off = True

    async def _find_policy(self) -> Object | None:
        try:
            return await self.cluster.read_policy(manifests.POLICY)
        except Missing:
            return None

    async def _make(self, spec: SandboxSpec, start: str) -> Object:
        """The Secret, the pod and the service's directory. Raises Exists when there is such a Secret already."""
        user = manifests.user_of(spec.sandbox_id, namespaced=self.settings.kubernetes.user_namespaces)
        keys = await asyncio.to_thread(certificates.make, manifests.name_of(spec.sandbox_id))
        secret = await self.cluster.create_secret(manifests.secret(self.service, spec, keys, start, user))
        self._secrets.remember(secret)
        self._make_place(spec.sandbox_id)
        await self._pods.make(spec, str(secret["metadata"]["uid"]))
        return secret

    async def _take_back(self, sandbox_id: str, start: str) -> None:
        """What a start has made that failed, and nothing of another one; what resists is the sweep's."""
        with contextlib.suppress(KernelsError):
            secret = await self.cluster.read_secret(manifests.name_of(sandbox_id))
            if secret["metadata"].get("annotations", {}).get(manifests.START) == start:
                await self._remove(sandbox_id, owner=str(secret["metadata"]["uid"]))

    async def _remove(self, sandbox_id: str, owner: str = "") -> None:
        """The pod, and once it has ended what is left. With an `owner`, a Secret's uid, a pod of that one alone."""
        name = manifests.name_of(sandbox_id)
        await self._ways_out.close(sandbox_id)
        end = self._ends.pop(sandbox_id, None)
        if end is not None:
            await end.guest.aclose()
        if await self._is_ours(sandbox_id):
            await self._pods.remove(sandbox_id, owner)
            with contextlib.suppress(Missing):
                await self.cluster.delete_secret(name)
            self._secrets.forget(name)
        await asyncio.to_thread(shutil.rmtree, self._place(sandbox_id), ignore_errors=True)

    async def _reach(self, sandbox_id: str) -> Stream:
        end = await self._end(sandbox_id)
        return await open_stream(end.way, manifests.name_of(sandbox_id), end.context)

    async def _end(self, sandbox_id: str) -> _End:
        """How its guest is reached: known, or read from the cluster. Raises SandboxGone."""
        _require_id(sandbox_id)
        found = self._ends.get(sandbox_id)
        if found is None:
            name = manifests.name_of(sandbox_id)
            try:
                pod, secret = await asyncio.gather(self._pods.find(sandbox_id), self.cluster.read_secret(name))
                made = self._make_end(sandbox_id, pod, secret)
            except (Missing, ValueError) as error:
                raise SandboxGone(f"sandbox {sandbox_id} is gone: {error}") from None
            found = self._ends.setdefault(sandbox_id, made)
        if found.gone:
            raise _make_lost_error(sandbox_id, found)
        return found

    def _make_end(self, sandbox_id: str, pod: Object, secret: Object) -> _End:
        """Raises NotListening, ValueError where the Secret has no keys."""
        address = pod.get("status", {}).get("podIP")
        if not address:
            raise NotListening(f"the pod of sandbox {sandbox_id} has no address")
        context = certificates.open_context(manifests.read_keys(secret))
        guest = GuestClient(functools.partial(self.dial, sandbox_id))
        way: Way = Direct((address, manifests.PORT))
        if self.settings.kubernetes.port_forward:
            way = self._forwarding.to(pod["metadata"]["name"])
        end = _End(pod["metadata"]["uid"], way, context, accounts.open_account(pod), guest)
        end.gone = pod_status.has_ended(pod)
        return end

    def _note_change(self, found: Object, *, gone: bool) -> None:
        """The cluster says something of a pod: with one that has ended nothing is waited for any more."""
        uid = found["metadata"]["uid"]
        for sandbox_id, end in [each for each in self._ends.items() if each[1].pod_uid == uid]:
            if gone or pod_status.has_ended(found):
                end.gone = True
                self._break_off(sandbox_id, end)
            elif not pod_status.is_cut_off(found):
                end.cut_off = False
            else:
                probe = asyncio.create_task(self._probe(sandbox_id, end))
                self._probes.add(probe)
                probe.add_done_callback(self._probes.discard)

    async def _probe(self, sandbox_id: str, end: _End) -> None:
        """The cluster hears nothing of its node: the guest itself knows better."""
        try:
            (await self._open(sandbox_id, end, GUEST)).close()
        except (NotListening, NotReached, SandboxGone):
            end.cut_off = True
            self._break_off(sandbox_id, end)

    def _break_off(self, sandbox_id: str, end: _End) -> None:
        """End all that is under way with a guest that is not there."""
        while end.dialling:
            end.dialling.pop().reschedule(0)
        self._streams.cut(manifests.name_of(sandbox_id))

    async def _is_ours(self, sandbox_id: str) -> bool:
        """Not once another gateway has taken it: a service that was held up would end what runs on there."""
        try:
            secret = await self.cluster.read_secret(manifests.name_of(sandbox_id))
        except Missing:
            return True  # as far as there is anything
        return bool(secret["metadata"].get("labels", {}).get(manifests.SERVICE, self.service) == self.service)

    def _find_places(self) -> set[str]:
        """The sandboxes of which there are files here."""
        home = self.settings.data_directory / "pods"
        return {each.name for each in home.glob("*") if _UUID.fullmatch(each.name)}

    def _info(self, metadata: Mapping[str, Any]) -> SandboxInfo:
        notes, sandbox_id = metadata.get("annotations", {}), str(metadata["labels"].get(manifests.SANDBOX, ""))
        return SandboxInfo(
            sandbox_id,
            str(self._place(sandbox_id) / WORKSPACE),
            workspace_ready=notes.get(manifests.READY) == "true",
            environment_digest=notes.get(manifests.DIGEST, ""),
            runtime=NAME,
            workspace_copy=True,
        )

    def _place(self, sandbox_id: str) -> Path:
        _require_id(sandbox_id)
        return self.settings.data_directory / "pods" / sandbox_id

    def _make_place(self, sandbox_id: str) -> None:
        place, uid = self._place(sandbox_id), self.settings.service_uid
        place.parent.mkdir(mode=0o711, exist_ok=True)
        place.mkdir(mode=0o700)
        (place / WORKSPACE).mkdir(mode=0o700)
        for each in (place / WORKSPACE, place):  # the service's own only once all in it is
            os.chown(each, uid, uid)


def _make_lost_error(sandbox_id: str, end: _End) -> SandboxFailed:
    if end.gone:
        return SandboxGone(f"the pod of sandbox {sandbox_id} has ended")
    return NotListening(f"the node of sandbox {sandbox_id} is lost")


def _require_id(sandbox_id: str) -> None:
    if not _UUID.fullmatch(sandbox_id):
        raise SandboxFailed(f"a sandbox id is a UUID with dashes, not {sandbox_id!r}")
