"""What is asked of the API server for one sandbox: a Secret, which owns the pod, and one NetworkPolicy for all (pure).

The Secret is made first and removed last: it is the record of a sandbox, as a journal is on a host. What is owned by it
the cluster removes with it, also when somebody else removes the Secret.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Mapping
from typing import Any, Final

from kernels.environment import Environment
from kernels.kubernetes.certificates import GUEST_FILES
from kernels.oci.bundle import NETLINK_SOCKETS, USER_ID, way_out
from kernels.sandbox import SandboxSpec

Manifest = dict[str, Any]

DOMAIN: Final = "sandcell.dev"
SERVICE: Final = f"{DOMAIN}/service"
"""Label: which service's it is; several in one namespace never see each other's."""
SANDBOX: Final = f"{DOMAIN}/sandbox"
READY: Final = f"{DOMAIN}/workspace-ready"
DIGEST: Final = f"{DOMAIN}/environment-digest"
START: Final = f"{DOMAIN}/start"
"""Which start made it: one that fails takes back what is its own."""
POLICY: Final = "sandcell-sandboxes"
PORT: Final = 7443
OURS: Final = {"app.kubernetes.io/name": "sandcell-sandbox"}
KEYS: Final = "/run/sandcell-keys"
HANDED_KEYS: Final = "/run/sandcell/keys"
"""In memory, where they come when the pod has begun."""
FIRST_USER: Final = 1_000_000_000
_USERS: Final = 1_000_000_000
"""User ids of sandboxes: beyond those of images and of what runs on nodes, and so many that few are ever twice."""
USER_FILES: Final = ("passwd", "group")
CONTAINER: Final = "guest"
EVICT_SECONDS: Final = 5
"""How long a pod stays bound to a node that is lost: its session says so, and its next use starts another."""
_REQUESTS: Final = {"memory": "256Mi", "cpu": "10m", "ephemeral-storage": "64Mi"}
"""What a pod is placed by: about what a kernel takes that does nothing. What it may take is in its limits."""
_SOCKETS_BYTES: Final = 64 * 1024 * 1024
_NO_SECCOMP_NOTIFICATIONS: Final = "gvisor"
"""What the usual name of gVisor's class begins with: its guest counts no netlink sockets, which are not the host's."""


def name_of(sandbox_id: str) -> str:
    """The name of a sandbox's objects, and of its guest in certificates."""
    return f"sandcell-{sandbox_id}"


def user_of(sandbox_id: str, *, namespaced: bool = False) -> int:
    """A user for each sandbox: its processes, and all else that a kernel counts for a user, are counted alone.

    One that is `namespaced` has that by its user namespace, in which it is as on a host.
    """
    return USER_ID if namespaced else FIRST_USER + uuid.UUID(sandbox_id).int % _USERS


def labels(service: str, sandbox_id: str) -> dict[str, str]:
    """What all of a sandbox's objects carry."""
    return {**OURS, SERVICE: service, SANDBOX: sandbox_id}


def secret(service: str, spec: SandboxSpec, keys: Mapping[str, bytes], start: str, user: int) -> Manifest:
    """The keys, the names of its users, and what is to be known of the sandbox without its pod."""
    contents = {**keys, **names_of_users(user)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,  # all but its metadata: so its node stops watching it once it has it
        "metadata": {
            "name": name_of(spec.sandbox_id),
            "labels": labels(service, spec.sandbox_id),
            "annotations": {DIGEST: spec.environment.digest, START: start},
        },
        "data": {name: base64.b64encode(content).decode() for name, content in contents.items()},
    }


def read_keys(secret: Manifest) -> dict[str, bytes]:
    """What such a Secret holds."""
    return {name: base64.b64decode(content) for name, content in secret.get("data", {}).items()}


def names_of_users(user: int) -> dict[str, bytes]:
    """In place of the image's, which do not have this user."""
    passwd = (
        "root:x:0:0:root:/root:/bin/sh\n"
        f"user:x:{user}:{user}:user:/home/user:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    return {"passwd": passwd.encode(), "group": f"root:x:0:\nuser:x:{user}:\nnogroup:x:65534:\n".encode()}


def policy() -> Manifest:
    """Nothing leaves a sandbox, and its guest's port alone is reached. The cluster's network has to enforce it.

    So it is for those that have a way out as well: the service dials them, and lends them its connections.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "podSelector": {"matchLabels": dict(OURS)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": PORT}]}],
            "egress": [],
        },
    }


def is_closed(found: Manifest) -> bool:
    """Whether a policy that is there closes pods off as ours does; what the server leaves out is empty."""
    spec, wanted = found.get("spec", {}), policy()["spec"]
    return (
        spec.get("podSelector") == wanted["podSelector"]
        and set(spec.get("policyTypes", ())) == set(wanted["policyTypes"])
        and spec.get("ingress") == wanted["ingress"]
        and not spec.get("egress")
        and not found.get("metadata", {}).get("deletionTimestamp")
    )


def pod(service: str, spec: SandboxSpec, *, image: str, runtime_class: str, owner: str, user: int) -> Manifest:
    """The sandbox; `owner` is the uid of its Secret, and `user` its own by `user_of`."""
    name = name_of(spec.sandbox_id)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": labels(service, spec.sandbox_id),
            "ownerReferences": [goes_with("v1", "Secret", name, owner)],
        },
        "spec": pod_spec(spec, image, runtime_class, user, name),
    }


def goes_with(version: str, kind: str, name: str, uid: str) -> Manifest:
    """A reference to the owner, with which the cluster removes what has it."""
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": uid}
    return {**reference, "controller": False, "blockOwnerDeletion": False}


def pod_spec(spec: SandboxSpec, image: str, runtime_class: str, user: int, secret: str) -> Manifest:
    """What runs. Without the name of a Secret the guest waits for keys, and no two pods differ: see `claims`."""
    return {
        "containers": [_container(spec, image, runtime_class, user, secret)],
        "volumes": _volumes(spec.environment, secret),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "hostname": spec.hostname,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # No name resolves: there is no server at this address of the sandbox's own.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "securityContext": _as(user) | {"fsGroup": user, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [
            {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute"}
            | {"tolerationSeconds": EVICT_SECONDS}
            for each in ("not-ready", "unreachable")
        ],
        **({"runtimeClassName": runtime_class} if runtime_class else {}),
        **({"hostUsers": False} if user == USER_ID else {}),
    }


def _as(user: int) -> Manifest:
    return {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user}


def _container(spec: SandboxSpec, image: str, runtime_class: str, user: int, secret: str) -> Manifest:
    resources = spec.environment.resources
    limits = {
        "memory": str(resources.memory_bytes),
        "cpu": f"{max(1, math.ceil(resources.vcpus * 1000))}m",
        # Its log counts as well, and it writes none to speak of.
        "ephemeral-storage": str(resources.storage_bytes),
    }
    return {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": _command(spec, runtime_class, user, secret),
        "env": [{"name": "LANG", "value": "C.UTF-8"}],
        "workingDir": "/",
        "ports": [{"name": "guest", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"limits": limits, "requests": dict(_REQUESTS)},
        "securityContext": _as(user)
        | {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({} if secret else {"stdin": True, "stdinOnce": True}),
        "volumeMounts": [
            {"name": "disk", "mountPath": "/workspace", "subPath": "workspace"},
            {"name": "disk", "mountPath": "/home/user", "subPath": "home"},
            {"name": "disk", "mountPath": "/tmp", "subPath": "tmp"},  # noqa: S108 - the sandbox's own
            {"name": "sockets", "mountPath": "/run/sandcell"},
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108
            *([{"name": "keys", "mountPath": KEYS, "readOnly": True}] if secret else ()),
            *({"name": "users", "mountPath": f"/etc/{each}", "subPath": each, "readOnly": True} for each in USER_FILES),
        ],
    }


def _command(spec: SandboxSpec, runtime_class: str, user: int, secret: str) -> list[str]:
    environment = spec.environment
    counted = 0 if runtime_class.startswith(_NO_SECCOMP_NOTIFICATIONS) else NETLINK_SOCKETS
    arguments = {
        "--generation": spec.generation,
        "--user": user,
        "--processes": environment.resources.pids,
        "--vcpus": f"{environment.resources.vcpus:.3f}",
        "--file-bytes": environment.resources.storage_bytes,
        "--python": environment.python,
        "--netlink-sockets": counted,
        "--keep-packages": int(environment.keep_packages),
        "--tls-port": PORT,
        "--tls-keys": KEYS if secret else HANDED_KEYS,
        "--await-keys": 0 if secret else 1,
        "--variables": json.dumps(dict(environment.variables), ensure_ascii=False),
    }
    command = [environment.python, "-I", "-B", "/opt/sandcell/guest"]
    command += [*(str(part) for pair in arguments.items() for part in pair), *way_out(environment)]
    return [each.replace("$(", "$$(") for each in command]  # else the cluster would put a variable there


def _volumes(environment: Environment, secret: str) -> list[Manifest]:
    resources = environment.resources
    in_memory_or_on_disk = [
        {"name": "disk", "emptyDir": {"sizeLimit": str(resources.storage_bytes)}},
        {"name": "sockets", "emptyDir": {"medium": "Memory", "sizeLimit": str(_SOCKETS_BYTES)}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": str(resources.memory_bytes // 2)}},
    ]
    if not secret:
        shown = [
            {"path": each, "fieldRef": {"fieldPath": f"metadata.annotations['{DOMAIN}/{each}']"}} for each in USER_FILES
        ]
        return [*in_memory_or_on_disk, {"name": "users", "downwardAPI": {"defaultMode": 0o444, "items": shown}}]
    return [
        *in_memory_or_on_disk,
        *(
            {
                "name": name,
                "secret": {
                    "secretName": secret,
                    "defaultMode": mode,
                    "items": [{"key": each, "path": each} for each in files],
                },
            }
            for name, mode, files in (("keys", 0o400, GUEST_FILES), ("users", 0o444, USER_FILES))
        ),
    ]
