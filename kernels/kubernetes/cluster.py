"""The API server, asked through the official client: the few verbs that sandboxes need, in one namespace.

The client waits in threads; every request has a deadline. Objects are plain dictionaries, as the server writes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from kernels.errors import NotReached, RuntimeUnusable, SandboxFailed
from kernels.kubernetes import claims
from kernels.kubernetes.api_sockets import ApiSockets
from kernels.sandbox import KubernetesSettings

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

Object = dict[str, Any]

REQUEST_SECONDS: Final = 15.0
_CONNECT_SECONDS: Final = 5.0
WATCH_SECONDS: Final = 60
"""After which the server ends a watch: one that says nothing for longer is broken."""
_WATCH_SLACK_SECONDS: Final = 15.0
_THREADS: Final = 16
PODS: Final = "pods"
SECRETS: Final = "secrets"
_CLAIMING: Final = (
    *(("", "pods/attach", verb) for verb in ("create", "get")),
    (claims.CORE, "sandboxes", "delete"),
    *((claims.EXTENSIONS, "sandboxtemplates", verb) for verb in ("create", "get", "delete")),
    *((claims.EXTENSIONS, "sandboxwarmpools", verb) for verb in ("create", "get", "list")),
    *((claims.EXTENSIONS, "sandboxclaims", verb) for verb in ("create", "get", "list", "watch", "delete")),
)
_FORWARDING: Final = tuple(("", "pods/portforward", verb) for verb in ("create", "get"))


def needed_rights(*, claiming: bool, forwarding: bool = False) -> tuple[tuple[str, str, str], ...]:
    """What the service's account needs in its namespace, and nothing anywhere else: groups, kinds and verbs."""
    return (
        *(("", "pods", verb) for verb in ("get", "list", "watch", "delete")),
        *(("", "secrets", verb) for verb in ("create", "get", "list", "watch", "patch", "delete")),
        *(("networking.k8s.io", "networkpolicies", verb) for verb in ("create", "get")),
        *(_CLAIMING if claiming else (("", "pods", "create"), ("", "pods", "patch"))),
        *(_FORWARDING if forwarding else ()),
    )


class Missing(SandboxFailed):
    """The server knows no object of this name."""


class Exists(SandboxFailed):
    """There is one of this name already."""


class Cluster:
    """Made lazily: the first request reads the configuration, which raises `RuntimeUnusable` when it cannot be used."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self.namespace = settings.namespace
        self._settings = settings
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kubernetes")
        self._sockets = ApiSockets(lambda: self._api.client)

    @functools.cached_property
    def _api(self) -> _Api:
        return _Api(self._settings)

    async def create_secret(self, manifest: Object) -> Object:
        return await self._ask(lambda api: api.core.create_namespaced_secret, body=manifest)

    async def create_pod(self, manifest: Object) -> Object:
        return await self._ask(lambda api: api.core.create_namespaced_pod, body=manifest)

    async def create_policy(self, manifest: Object) -> Object:
        return await self._ask(lambda api: api.networking.create_namespaced_network_policy, body=manifest)

    async def read_policy(self, name: str) -> Object:
        return await self._ask(lambda api: api.networking.read_namespaced_network_policy, name)

    async def read_secret(self, name: str) -> Object:
        return await self._ask(lambda api: api.core.read_namespaced_secret, name)

    async def read(self, kind: str, name: str) -> Object:
        """A pod, where `kind` is PODS, or an object of one of the kinds of `claims.KINDS`; so for the next two."""
        if kind == PODS:
            return await self._ask(lambda api: api.core.read_namespaced_pod, name)
        return await self.read_custom(kind, name)

    async def list_all(self, kind: str, selector: str) -> Object:
        """All of this kind, which may also be SECRETS, with the version from which a watch goes on."""
        return await self._run(lambda: _decode(self._list(kind, label_selector=selector, **_RAW)))

    async def watch(self, kind: str, selector: str, version: str, hear: Callable[[Object], None]) -> None:
        """Have `hear` called with each event in the loop, until the server ends that; raises SandboxFailed."""
        loop, over = asyncio.get_running_loop(), threading.Event()
        responses: list[Any] = []

        def follow() -> Object:
            response = self._list(
                kind,
                label_selector=selector,
                resource_version=version,
                watch=True,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_SECONDS,
                _preload_content=False,
                _request_timeout=(_CONNECT_SECONDS, WATCH_SECONDS + _WATCH_SLACK_SECONDS),
            )
            responses.append(response)
            with contextlib.closing(response):
                if not over.is_set():
                    for event in _read_events(response):
                        loop.call_soon_threadsafe(hear, event)
            return {}

        try:
            await _run_aside(follow, f"kubernetes-{kind}")
        finally:
            over.set()
            for response in responses:
                with contextlib.suppress(Exception):  # it has ended
                    response.shutdown()

    def _list(self, kind: str, **arguments: Any) -> Any:
        if kind == PODS:
            return self._api.core.list_namespaced_pod(namespace=self.namespace, **arguments)
        if kind == SECRETS:
            return self._api.core.list_namespaced_secret(namespace=self.namespace, **arguments)
        return self._api.custom.list_namespaced_custom_object(namespace=self.namespace, **_custom(kind), **arguments)

    async def annotate_secret(self, name: str, annotations: dict[str, str]) -> Object:
        body = {"metadata": {"annotations": annotations}}
        return await self._ask(lambda api: api.core.patch_namespaced_secret, name, body=body)

    async def label_pod(self, name: str, labels: dict[str, str]) -> Object:
        body = {"metadata": {"labels": labels}}
        return await self._ask(lambda api: api.core.patch_namespaced_pod, name, body=body)

    async def label_secret(self, name: str, labels: dict[str, str]) -> Object:
        body = {"metadata": {"labels": labels}}
        return await self._ask(lambda api: api.core.patch_namespaced_secret, name, body=body)

    async def list_secrets(self, selector: str) -> list[Object]:
        found = await self._ask(lambda api: api.core.list_namespaced_secret, label_selector=selector)
        return list(found.get("items", ()))

    async def delete_pod(self, name: str, grace_seconds: int, uid: str = "") -> Object:
        """Of this uid alone, when one is given: `Exists` says that there is another of its name."""
        body: Object = {"gracePeriodSeconds": grace_seconds, "propagationPolicy": _BACK}
        if uid:
            body["preconditions"] = {"uid": uid}
        return await self._ask(lambda api: api.core.delete_namespaced_pod, name, body=body)

    async def delete_secret(self, name: str) -> Object:
        return await self._ask(lambda api: api.core.delete_namespaced_secret, name, propagation_policy=_BACK)

    async def create_custom(self, kind: str, manifest: Object) -> Object:
        """One of the kinds of `claims.KINDS`; so for the others."""
        return await self._ask(lambda api: api.custom.create_namespaced_custom_object, body=manifest, **_custom(kind))

    async def read_custom(self, kind: str, name: str) -> Object:
        return await self._ask(lambda api: api.custom.get_namespaced_custom_object, name=name, **_custom(kind))

    async def list_custom(self, kind: str, selector: str) -> list[Object]:
        found = await self._ask(
            lambda api: api.custom.list_namespaced_custom_object, label_selector=selector, **_custom(kind)
        )
        return list(found.get("items", ()))

    async def delete_custom(self, kind: str, name: str, uid: str = "") -> Object:
        """With what it has, and until that is gone it is there as well; of this uid alone, when one is given."""
        body: Object = {"propagationPolicy": "Foreground", **({"preconditions": {"uid": uid}} if uid else {})}
        return await self._ask(
            lambda api: api.custom.delete_namespaced_custom_object, name=name, body=body, **_custom(kind)
        )

    async def missing_kinds(self) -> list[str]:
        """Which of the kinds of `claims.KINDS` the server does not have, in words."""
        served: set[str] = set()
        for group in sorted(set(claims.KINDS.values())):
            with contextlib.suppress(Missing):
                found = await self._run(functools.partial(self._read_resources, group))
                served |= {f"{each['name']}.{group}" for each in found.get("resources", ())}
        return [f"{kind}.{group}" for kind, group in claims.KINDS.items() if f"{kind}.{group}" not in served]

    def _read_resources(self, group: str) -> Object:
        return _decode(self._api.custom.get_api_resources(group, claims.VERSION, **_RAW))

    async def hand_over(self, pod: str, container: str, line: bytes) -> None:
        """Write a line to the standard input of a container that waits for one, and close it."""
        query = {"container": container, "stdin": "true"}
        try:
            async with await self.open_socket(pod, "attach", REQUEST_SECONDS, **query) as opened:
                await opened.send(_STDIN + line)
        except Exception as error:
            raise _translate(error) from None

    async def open_socket(self, pod: str, part: str, seconds: float, **query: str) -> ClientConnection:
        """To a subresource of a pod; raises NotReached where it is not for the pod's sake that none is had."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/{part}?{urllib.parse.urlencode(query)}"
        try:
            return await self._sockets.open(path, seconds)
        except Exception as error:
            status, translated = _status_of(error), _translate(error)
            if status in _NOT_ABOUT_THE_POD or (status or 0) >= 500:
                raise NotReached(str(translated)) from None
            raise translated from None

    async def version(self) -> str:
        """What the server says it is; raises `RuntimeUnusable` without a usable configuration."""
        found = await self._run(lambda: _decode(self._api.version.get_code(**_RAW)))
        return str(found.get("gitVersion", "?"))

    async def missing_rights(self) -> list[str]:
        """Which of the rights that are needed the service's account does not have, in words."""
        rights = needed_rights(claiming=self._settings.claims, forwarding=self._settings.port_forward)
        return [
            f"{verb} {kind}"
            for (_, kind, verb), allowed in zip(rights, await asyncio.gather(*map(self._may, rights)), strict=True)
            if not allowed
        ]

    async def _may(self, right: tuple[str, str, str]) -> bool:
        group, kind, verb = right
        kind, _, part = kind.partition("/")
        asked = {"namespace": self.namespace, "group": group, "resource": kind, "subresource": part, "verb": verb}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        body["spec"] = {"resourceAttributes": asked}  # type: ignore[assignment]
        found = await self._run(
            lambda: _decode(self._api.authorization.create_self_subject_access_review(body, **_RAW))
        )
        return bool(found.get("status", {}).get("allowed"))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, verb: Callable[[_Api], Any], *names: str, **arguments: Any) -> Awaitable[Object]:
        """One request about objects of the namespace."""
        return self._run(lambda: _decode(verb(self._api)(*names, namespace=self.namespace, **arguments, **_RAW)))

    async def _run(self, work: Callable[[], Object]) -> Object:
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(_translated, work))


_RAW: Final = {"_preload_content": False, "_request_timeout": (_CONNECT_SECONDS, REQUEST_SECONDS)}
_BACK: Final = "Background"
_NOT_ABOUT_THE_POD: Final = (401, 403, 429)
"""Nor are those from 500 on: the server, or what leads from it to the pod's node, does not do what it is to."""
_STDIN: Final = b"\x00"
"""The channel of standard input, in the protocol that is asked for."""


def _custom(kind: str) -> dict[str, str]:
    return {"group": claims.KINDS[kind], "version": claims.VERSION, "plural": kind}


class _Api:
    """The client's groups of requests. The client is imported here: only services on this runtime pay for it."""

    def __init__(self, settings: KubernetesSettings) -> None:
        try:
            from kubernetes import client, config  # noqa: PLC0415
        except ImportError:
            raise RuntimeUnusable(
                "the runtime kubernetes needs the Python package kubernetes: pip install 'sandcell-server[kubernetes]'"
            ) from None
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = _THREADS
        configuration.retries = False
        load: Any = config
        try:
            if settings.config:
                load.load_kube_config(settings.config, client_configuration=configuration)
            else:
                load.load_incluster_config(client_configuration=configuration)
        except (config.ConfigException, OSError) as error:
            raise RuntimeUnusable(f"the configuration of the Kubernetes cluster cannot be used: {error}") from None
        api = client.ApiClient(configuration)
        # Its types know no plain dictionaries, which it takes all the same.
        self.core: Any = client.CoreV1Api(api)
        self.networking: Any = client.NetworkingV1Api(api)
        self.authorization: Any = client.AuthorizationV1Api(api)
        self.version: Any = client.VersionApi(api)
        self.custom: Any = client.CustomObjectsApi(api)
        self.client: Any = api


def _decode(response: Any) -> Object:
    found = json.loads(response.data)
    if not isinstance(found, dict):
        raise SandboxFailed("the Kubernetes API server answered what is no object")
    return found


def _read_events(response: Any) -> Iterator[Object]:
    """Of a watch; raises SandboxFailed where the server says that it cannot go on from there."""
    rest = b""
    for piece in response.stream():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            event: Object = json.loads(line)
            if event["type"] == "ERROR":
                raise SandboxFailed(f"the Kubernetes API server ended a watch: {event['object'].get('message')}")
            yield event


def _run_aside(work: Callable[[], Object], name: str) -> asyncio.Future[None]:
    """In a thread of its own, which does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(error: Exception | None) -> None:
        if not ended.done():
            ended.set_exception(error) if error else ended.set_result(None)

    def run() -> None:
        error = None
        try:
            _translated(work)
        except (SandboxFailed, RuntimeUnusable) as found:
            error = found
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended


def _translated(work: Callable[[], Object]) -> Object:
    """In a thread: the client's errors as this package's."""
    try:
        return work()
    except Exception as error:
        raise _translate(error) from None


def _translate(error: Exception) -> Exception:
    """As one of this package's; those of the client and its transports have no common root."""
    if isinstance(error, (SandboxFailed, RuntimeUnusable)):
        return error
    status = _status_of(error)
    why = _explain(getattr(getattr(error, "response", error), "body", None)) or str(error)
    if status == 404:
        return Missing(why)
    if status == 409:
        return Exists(why)
    return SandboxFailed(f"the Kubernetes API server refused or did not answer: {why}"[:1000])


def _status_of(error: Exception) -> int | None:
    """The HTTP status that a request was refused with; that of a WebSocket is its response's."""
    response = getattr(error, "response", None)
    return getattr(error, "status", None) if response is None else getattr(response, "status_code", None)


def _explain(body: object) -> str:
    """The server's own sentence."""
    try:
        return str(json.loads(body)["message"])  # type: ignore[arg-type]
    except (TypeError, ValueError, KeyError):
        return ""
