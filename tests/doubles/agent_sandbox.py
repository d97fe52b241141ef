"""agent-sandbox (https://github.com/kubernetes-sigs/agent-sandbox) on a cluster of the tests: its kinds, and who acts.

The real controller is a Go program that asks for a newer Kubernetes than the tests have. This one was written by what
version 0.5.6 and the main branch of August 2026 (API `v1beta1`) do, for what the runtime uses: pools are filled, claims
get a Sandbox of their pool or one of their own, a Sandbox gets a pod of its name, and another one when that is gone.
Services, volume claims, times of expiry and the fields that conversions and metrics need are not there.

Nor can the tests' API server hold custom resources: it ends when it is given one (json-iterator of its time under a
newer Go). So the kinds are served beside it, as those of an extension server are, and what they own is collected here.
"""

from __future__ import annotations

import contextlib
import copy
import json
import secrets
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from kernels.kubernetes import certificates
from kernels.kubernetes.claims import CORE, EXTENSIONS, VERSION
from tests.kubernetes_cluster import NAMESPACE

Object = dict[str, Any]
LOOK_SECONDS = 0.05
POOL = f"{CORE}/warm-pool-sandbox"
CLAIM = f"{CORE}/claim-uid"
ASSIGNED = f"{CORE}/sandbox-name"
KINDS: Final = {
    "Sandbox": ("sandboxes", CORE),
    "SandboxTemplate": ("sandboxtemplates", EXTENSIONS),
    "SandboxWarmPool": ("sandboxwarmpools", EXTENSIONS),
    "SandboxClaim": ("sandboxclaims", EXTENSIONS),
}
_DEFAULTS: Final[dict[str, Object]] = {
    "Sandbox": {"podTemplate": None, "service": None, "operatingMode": "Running"},
    "SandboxTemplate": {
        "podTemplate": None,
        "service": None,
        "networkPolicyManagement": "Managed",
        "networkPolicy": None,
        "envVarsInjectionPolicy": "Disallowed",
        "volumeClaimTemplatesPolicy": "Disallowed",
        "volumeClaimTemplates": None,
    },
    "SandboxWarmPool": {"sandboxTemplateRef": None, "replicas": 1, "updateStrategy": None},
    "SandboxClaim": {"warmPoolRef": None, "lifecycle": None, "additionalPodMetadata": None, "env": None},
}
"""The fields of each kind's `spec`, of which the first is required, and what they are where none is given."""


class Refused(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class Store:
    """The objects of one namespace, as an API server has them. What is removed stays until what it owns is gone."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self.version = 0

    def list(self, kind: str, selector: str = "") -> list[Object]:
        name, _, value = selector.partition("=")
        with self.lock:
            found = copy.deepcopy(list(self._objects[kind].values()))
        return [each for each in found if not name or each["metadata"].get("labels", {}).get(name) == value]

    def read(self, kind: str, name: str) -> Object:
        with self.lock:
            if name not in self._objects[kind]:
                raise Refused(404, "NotFound", f"{KINDS[kind][0]} {name!r} not found")
            return copy.deepcopy(self._objects[kind][name])

    def create(self, kind: str, manifest: Object) -> Object:
        spec, known = manifest.get("spec", {}), _DEFAULTS[kind]
        if (unknown := spec.keys() - known.keys()) or next(iter(known)) not in spec:
            raise Refused(422, "Invalid", f"{kind} has no {sorted(unknown)}, and needs {next(iter(known))}")
        with self.lock:
            name = manifest["metadata"]["name"]
            if name in self._objects[kind]:
                raise Refused(409, "AlreadyExists", f"{KINDS[kind][0]} {name!r} already exists")
            made = copy.deepcopy(manifest)
            made["spec"] = {key: each for key, each in {**known, **made["spec"]}.items() if each is not None}
            made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now(), "namespace": NAMESPACE}
            return self._put(kind, made)

    def write(self, kind: str, found: Object) -> Object:
        """As it was read, or not at all."""
        with self.lock:
            there = self.read(kind, found["metadata"]["name"])["metadata"]
            if any(there[each] != found["metadata"][each] for each in ("uid", "resourceVersion")):
                raise Refused(409, "Conflict", "the object has been modified")
            return self._put(kind, copy.deepcopy(found))

    def remove(self, kind: str, name: str, uid: str = "") -> Object:
        with self.lock:
            found = self.read(kind, name)
            if uid and found["metadata"]["uid"] != uid:
                raise Refused(409, "Conflict", "the UID in the precondition does not match")
            found["metadata"].setdefault("deletionTimestamp", _now())
            return self._put(kind, found)

    def forget(self, kind: str, name: str) -> None:
        with self.lock:
            self._objects[kind].pop(name, None)

    def _put(self, kind: str, found: Object) -> Object:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        self._objects[kind][found["metadata"]["name"]] = found
        return copy.deepcopy(found)


class _Handler(BaseHTTPRequestHandler):
    """What the API server passes on. Nobody is asked who they are: it has."""

    store: Store
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if self.command == "GET" and asked.get("watch") == ["True"]:
            with contextlib.suppress(OSError):  # who listened has gone
                self._watch(asked)
            return
        try:
            status, answer = 200, self._do()
        except Refused as error:
            status = error.status
            answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
            answer |= {"reason": error.reason, "message": str(error)}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, asked: dict[str, list[str]]) -> None:
        """Say what changes, as far as that is seen by looking again and again."""
        plural = urlsplit(self.path).path.rpartition("/")[2]
        kind = next(kind for kind, (its, _) in KINDS.items() if its == plural)
        known: dict[str, Object] | None = None
        seen, until = int(asked["resourceVersion"][0]), time.monotonic() + int(asked["timeoutSeconds"][0])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while time.monotonic() < until:
            found = {each["metadata"]["name"]: each for each in self.store.list(kind, asked["labelSelector"][0])}
            gone = [each for name, each in (known or {}).items() if name not in found]
            changed = [each for each in found.values() if int(each["metadata"]["resourceVersion"]) > seen]
            for what, each in [*(("DELETED", one) for one in gone), *(("MODIFIED", one) for one in changed)]:
                line = json.dumps({"type": what, "object": each}).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            seen = max([seen, *(int(each["metadata"]["resourceVersion"]) for each in changed)])
            known = found
            time.sleep(LOOK_SECONDS)
        self.wfile.write(b"0\r\n\r\n")

    def _do(self) -> Object:
        asked = urlsplit(self.path)
        _, _, group, *parts = asked.path.split("/")
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        kinds = {plural: kind for kind, (plural, its) in KINDS.items() if its == group}
        match parts:
            case [version] if version == VERSION:
                return _describe(group, kinds)
            case [_, "namespaces", _, plural] if plural in kinds:
                kind = kinds[plural]
                if self.command == "POST":
                    return self.store.create(kind, body)
                with self.store.lock:
                    metadata = {"resourceVersion": str(self.store.version)}
                    found = self.store.list(kind, parse_qs(asked.query).get("labelSelector", [""])[0])
                described = {"apiVersion": f"{group}/{VERSION}", "kind": f"{kind}List", "metadata": metadata}
                return {**described, "items": found}
            case [_, "namespaces", _, plural, name] if plural in kinds:
                if self.command == "DELETE":
                    return self.store.remove(kinds[plural], name, body.get("preconditions", {}).get("uid", ""))
                if self.command == "PATCH":
                    with self.store.lock:
                        return self.store.write(kinds[plural], merge(self.store.read(kinds[plural], name), body))
                return self.store.read(kinds[plural], name)
        raise Refused(404, "NotFound", f"there is no {asked.path}")

    do_GET = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 - as the server calls them

    def log_message(self, *_: object) -> None:
        """Nothing."""


def merge(found: Object, patch: Object) -> Object:
    """As a JSON merge patch does (pure)."""
    merged = dict(found)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key) or {}, value) if isinstance(value, dict) else value
    return merged


def _describe(group: str, kinds: dict[str, str]) -> Object:
    # Without `watch` the cluster's own garbage collector leaves them alone.
    verbs = ["create", "delete", "get", "list", "patch"]
    resources = [
        {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs}
        for plural, kind in kinds.items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{VERSION}", "resources": resources}


@contextlib.contextmanager
def served(place: Path, address: str) -> Iterator[tuple[Store, list[Object]]]:
    """The kinds at this address of the cluster's, and what makes the API server pass requests for them on."""
    keys = certificates.make("agent-sandbox")
    pem = place / "agent-sandbox.pem"
    pem.write_bytes(keys["guest.crt"] + keys["guest.key"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    store = Store()
    server = ThreadingHTTPServer((address, 0), type("_Handler", (_Handler,), {"store": store}))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    reference = {"name": "agent-sandbox", "namespace": NAMESPACE, "port": server.server_port}
    objects: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "agent-sandbox", "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": address, "ports": [{"port": server.server_port}]},
        }
    ]
    for group in (CORE, EXTENSIONS):
        spec = {"group": group, "version": VERSION, "service": reference, "insecureSkipTLSVerify": True}
        spec |= {"groupPriorityMinimum": 100, "versionPriority": 10}
        kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
        objects.append({**kind, "metadata": {"name": f"{VERSION}.{group}"}, "spec": spec})
    try:
        yield store, objects
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Controller:
    """Looks at all there is, again and again, from its start to its stop; `failures` is what it could not do.

    What is to go goes also while it is `away`: in a cluster its garbage collector sees to that.
    """

    def __init__(self, store: Store, config: Path) -> None:
        from kubernetes import client
        from kubernetes import config as configurations

        configuration = client.Configuration()
        load: Any = configurations.load_kube_config
        load(str(config), client_configuration=configuration)
        self._store = store
        self._client = client.ApiClient(configuration)
        self._core: Any = client.CoreV1Api(self._client)
        self._refused: Any = (client.ApiException, Refused)
        self._over = threading.Event()
        self.away = False
        self.failures: list[str] = []

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        """From here on; its thread is in this thread's network."""
        thread = threading.Thread(target=self._act)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._client.rest_client.pool_manager.clear()

    def _act(self) -> None:
        while not self._over.wait(0.1):
            self._try(self._collect)
            for look in () if self.away else (self._look_at_pools, self._look_at_claims, self._look_at_sandboxes):
                self._try(look)

    def _try(self, work: Callable[[], None]) -> None:
        """What does not succeed by now is tried again."""
        try:
            work()
        except self._refused as error:
            if error.status not in (404, 409):
                self.failures.append(f"{work.__name__}: {error}"[:1000])

    # What there is

    def _list(self, kind: str) -> list[Object]:
        """Those that are not on their way out."""
        return [each for each in self._store.list(kind) if not each["metadata"].get("deletionTimestamp")]

    def _pods(self) -> dict[str, Object]:
        found = self._core.list_namespaced_pod(NAMESPACE, _preload_content=False)
        return {each["metadata"]["name"]: each for each in json.loads(found.data)["items"]}

    def _say(self, kind: str, found: Object, status: Object) -> None:
        if found.get("status", {}) != status:
            self._store.write(kind, {**found, "status": status})

    def _collect(self) -> None:
        """What is to go, and what has no owner any more: what it owns goes before it."""
        secrets_there = json.loads(self._core.list_namespaced_secret(NAMESPACE, _preload_content=False).data)["items"]
        pods = self._pods()
        kept = {kind: self._store.list(kind) for kind in KINDS}
        everything = [*secrets_there, *pods.values(), *(each for found in kept.values() for each in found)]
        uids = {each["metadata"]["uid"] for each in everything}
        owned = {one["uid"] for each in everything for one in each["metadata"].get("ownerReferences", ())}
        for kind, found in kept.items():
            for each in found:
                metadata = each["metadata"]
                if any(one["uid"] not in uids for one in metadata.get("ownerReferences", ())):
                    self._store.remove(kind, metadata["name"])
                if not metadata.get("deletionTimestamp"):
                    continue
                if metadata["uid"] not in owned:
                    self._store.forget(kind, metadata["name"])
                for other in ("Sandbox", "SandboxWarmPool"):
                    for one in kept[other]:
                        if metadata["uid"] in _owners(one):
                            self._store.remove(other, one["metadata"]["name"])
                for name, pod in pods.items():
                    if metadata["uid"] in _owners(pod) and not pod["metadata"].get("deletionTimestamp"):
                        self._core.delete_namespaced_pod(name, NAMESPACE)

    # Pools

    def _look_at_pools(self) -> None:
        sandboxes = self._list("Sandbox")
        templates = {each["metadata"]["name"]: each for each in self._list("SandboxTemplate")}
        for pool in self._list("SandboxWarmPool"):
            name, wanted = pool["metadata"]["name"], pool["spec"]["replicas"]
            members = [each for each in sandboxes if _controller(each).get("uid") == pool["metadata"]["uid"]]
            template = templates.get(pool["spec"]["sandboxTemplateRef"]["name"])
            for _ in range(wanted - len(members) if template else 0):
                labels = {POOL: name}
                self._make_sandbox(f"{name}-{secrets.token_hex(3)}", template or {}, "SandboxWarmPool", pool, labels)
            for each in members[wanted:]:
                self._store.remove("Sandbox", each["metadata"]["name"])
            ready = len([each for each in members if _is_ready(each)])
            self._say("SandboxWarmPool", pool, {"replicas": len(members), "readyReplicas": ready})

    def _make_sandbox(self, name: str, template: Object, kind: str, owner: Object, labels: dict[str, str]) -> Object:
        spec = {key: copy.deepcopy(template["spec"][key]) for key in ("podTemplate", "service")}
        spec["podTemplate"]["metadata"].setdefault("labels", {}).update(labels)
        spec["podTemplate"]["spec"].setdefault("automountServiceAccountToken", False)
        metadata = {"name": name, "labels": labels, "ownerReferences": [_own(kind, owner)]}
        return self._store.create(
            "Sandbox",
            {"apiVersion": f"{CORE}/{VERSION}", "kind": "Sandbox", "metadata": metadata, "spec": spec},
        )

    # Claims

    def _look_at_claims(self) -> None:
        sandboxes = {each["metadata"]["name"]: each for each in self._list("Sandbox")}
        pools = {each["metadata"]["name"]: each for each in self._list("SandboxWarmPool")}
        templates = {each["metadata"]["name"]: each for each in self._list("SandboxTemplate")}
        for each in self._list("SandboxClaim"):
            claim = each
            uid, pool = claim["metadata"]["uid"], pools.get(claim["spec"]["warmPoolRef"]["name"])
            found = next((one for one in sandboxes.values() if _controller(one).get("uid") == uid), None)
            if found is None and pool is not None:
                claim, found = self._adopt(claim, pool, sandboxes)
            if found is None:
                template = pool and templates.get(pool["spec"]["sandboxTemplateRef"]["name"])
                if pool is None or template is None:
                    reason = "WarmPoolNotFound" if pool is None else "TemplateNotFound"
                    self._say("SandboxClaim", claim, {"conditions": [_condition("False", reason)]})
                    continue
                found = self._make_sandbox(claim["metadata"]["name"], template, "SandboxClaim", claim, {CLAIM: uid})
            conditions = found.get("status", {}).get("conditions", [_condition("False", "SandboxNotReady")])
            known = {"name": found["metadata"]["name"], "podIPs": found.get("status", {}).get("podIPs", [])}
            self._say("SandboxClaim", claim, {"conditions": conditions, "sandbox": known})

    def _adopt(self, claim: Object, pool: Object, sandboxes: dict[str, Object]) -> tuple[Object, Object | None]:
        """One of the pool that has an address, one that is ready first: noted at the claim, and then handed on."""
        members = [each for each in sandboxes.values() if _controller(each).get("uid") == pool["metadata"]["uid"]]
        members = [each for each in members if each.get("status", {}).get("podIPs")]
        noted = sandboxes.get(claim["metadata"].get("annotations", {}).get(ASSIGNED, ""))
        chosen = noted if noted in members else max(members, key=_is_ready, default=None)
        if chosen is None:
            return claim, None
        name = chosen["metadata"]["name"]
        claim = self._store.write("SandboxClaim", merge(claim, {"metadata": {"annotations": {ASSIGNED: name}}}))
        labels = {POOL: None, CLAIM: claim["metadata"]["uid"]}
        metadata = {"labels": labels, "ownerReferences": [_own("SandboxClaim", claim)]}
        changed = {"metadata": metadata, "spec": {"podTemplate": {"metadata": {"labels": labels}}}}
        sandboxes[name] = self._store.write("Sandbox", merge(chosen, changed))
        return claim, sandboxes[name]

    # Sandboxes

    def _look_at_sandboxes(self) -> None:
        pods = self._pods()
        for sandbox in self._list("Sandbox"):
            pod = pods.get(sandbox["metadata"]["name"])
            if pod is None:
                try:
                    self._make_pod(sandbox)
                    why = "DependenciesNotReady"
                except self._refused as error:
                    why = f"ReconcilerError: {error}"
                self._say("Sandbox", sandbox, {"conditions": [_condition("False", why)]})
                continue
            if _controller(pod).get("uid") != sandbox["metadata"]["uid"]:
                self._say("Sandbox", sandbox, {"conditions": [_condition("False", "ReconcilerError")]})
                continue
            labels = sandbox["spec"]["podTemplate"]["metadata"].get("labels", {})
            lost = {each: None for each in (POOL,) if each in pod["metadata"]["labels"] and each not in labels}
            if lost:
                changed = {"metadata": {"labels": {**labels, **lost}}}
                self._core.patch_namespaced_pod(pod["metadata"]["name"], NAMESPACE, changed)
            self._say("Sandbox", sandbox, _status_of(pod))

    def _make_pod(self, sandbox: Object) -> None:
        template = sandbox["spec"]["podTemplate"]
        metadata = {
            "name": sandbox["metadata"]["name"],
            "labels": template["metadata"].get("labels", {}),
            "annotations": template["metadata"].get("annotations", {}),
            "ownerReferences": [_own("Sandbox", sandbox)],
        }
        self._core.create_namespaced_pod(NAMESPACE, {"metadata": metadata, "spec": template["spec"]})


def _own(kind: str, owner: Object) -> Object:
    metadata = owner["metadata"]
    found = {"apiVersion": f"{KINDS[kind][1]}/{VERSION}", "kind": kind}
    return {**found, "name": metadata["name"], "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def _owners(found: Object) -> set[str]:
    return {each["uid"] for each in found["metadata"].get("ownerReferences", ())}


def _controller(found: Object) -> Object:
    return next((each for each in found["metadata"].get("ownerReferences", ()) if each.get("controller")), {})


def _condition(status: str, reason: str) -> Object:
    # Times are left out: they would make each look a change.
    return {"type": "Ready", "status": status, "reason": reason, "message": reason}


def _is_ready(sandbox: Object) -> bool:
    conditions = sandbox.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _status_of(pod: Object) -> Object:
    status = pod.get("status", {})
    addresses = [each["ip"] for each in status.get("podIPs", ())]
    if status.get("phase") in ("Succeeded", "Failed"):
        reason = f"Pod{status['phase']}"
        ended = {"type": "Finished", "status": "True", "reason": reason, "message": reason}
        return {"conditions": [_condition("False", reason), ended], "podIPs": addresses}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))
    if status.get("phase") == "Running" and ready and addresses:
        return {"conditions": [_condition("True", "DependenciesReady")], "podIPs": addresses}
    return {"conditions": [_condition("False", "DependenciesNotReady")], "podIPs": addresses}
