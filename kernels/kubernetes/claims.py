"""What is asked of agent-sandbox (https://github.com/kubernetes-sigs/agent-sandbox) in place of a pod (pure).

For an environment a SandboxTemplate, which has what all its pods have in common, and a SandboxWarmPool of it; for a
sandbox a SandboxClaim on that pool. Written for its API `v1beta1`, which came with version 0.5. Pods of one template
are all alike: they begin without keys, and get them when they are claimed.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from kernels.kubernetes import manifests
from kernels.kubernetes.manifests import Manifest
from kernels.oci.bundle import USER_ID
from kernels.sandbox import SandboxSpec

CORE: Final = "agents.x-k8s.io"
EXTENSIONS: Final = f"extensions.{CORE}"
VERSION: Final = "v1beta1"
KINDS: Final = {
    "sandboxes": CORE,
    "sandboxtemplates": EXTENSIONS,
    "sandboxwarmpools": EXTENSIONS,
    "sandboxclaims": EXTENSIONS,
}
"""The groups of the kinds that are asked for, by the names that requests have them by."""
OWN_KERNELS: Final = ("gvisor", "kata")
"""What names of RuntimeClasses begin with whose sandboxes have a kernel of their own."""
WHY_APART: Final = "pods of one template are all the same user, which a node's kernel counts and limits as one"
HOW_APART: Final = (
    "set kubernetes_user_namespaces, or give each image a RuntimeClass that begins with gvisor or kata"
    " (kubernetes_classes)"
)
POD: Final = f"{manifests.DOMAIN}/pod"
POD_UID: Final = f"{manifests.DOMAIN}/pod-uid"
"""Annotations of the sandbox's Secret: the pod that got its keys. Another one of this name has none."""
IMAGE: Final = f"{manifests.DOMAIN}/image"
"""Label of templates and pools, by which people find them."""
_DIGITS: Final = 16


def find_user(runtime_class: str, *, namespaced: bool) -> int | None:
    """The user of all pods of a template; None where the node's kernel would count them as one."""
    if namespaced:
        return USER_ID
    return manifests.FIRST_USER if runtime_class.startswith(OWN_KERNELS) else None


def template(service: str, spec: SandboxSpec, image: str, runtime_class: str, user: int) -> Manifest:
    """Of the pods of this environment, as they are when nobody has claimed them; its name is one of its content."""
    content = {
        "podTemplate": {
            "metadata": {
                "labels": {**manifests.OURS, manifests.SERVICE: service},
                "annotations": {
                    f"{manifests.DOMAIN}/{name}": text.decode() for name, text in manifests.names_of_users(user).items()
                },
            },
            "spec": manifests.pod_spec(spec, image, runtime_class, user, ""),
        },
        # The policy of the namespace closes them off, as all others.
        "networkPolicyManagement": "Unmanaged",
        "envVarsInjectionPolicy": "Disallowed",
        "volumeClaimTemplatesPolicy": "Disallowed",
        "service": False,
    }
    version = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGITS]
    return _object(
        "SandboxTemplate", f"sandcell-{service}-{version}", {**manifests.OURS, manifests.SERVICE: service}
    ) | {"spec": content}


def pool(template: Manifest, owner: str) -> Manifest:
    """Of this template, whose uid is `owner`: empty, until somebody scales it."""
    metadata = template["metadata"]
    made = _object("SandboxWarmPool", metadata["name"], metadata["labels"])
    made["metadata"]["ownerReferences"] = [
        manifests.goes_with(f"{EXTENSIONS}/{VERSION}", "SandboxTemplate", metadata["name"], owner)
    ]
    reference = {"name": metadata["name"]}
    return made | {"spec": {"replicas": 0, "sandboxTemplateRef": reference, "updateStrategy": {"type": "Recreate"}}}


def claim(service: str, sandbox_id: str, pool: str, owner: str) -> Manifest:
    """The sandbox; `owner` is the uid of its Secret."""
    name = manifests.name_of(sandbox_id)
    made = _object("SandboxClaim", name, manifests.labels(service, sandbox_id))
    made["metadata"]["ownerReferences"] = [manifests.goes_with("v1", "Secret", name, owner)]
    return made | {"spec": {"warmPoolRef": {"name": pool}}}


def find_sandbox(claim: Manifest) -> str:
    """The name of the Sandbox that a claim has, and of its pod; empty until it has one."""
    return str(claim.get("status", {}).get("sandbox", {}).get("name", ""))


def is_ready(claim: Manifest) -> bool:
    """Whether the pod that the claim has is there and runs."""
    return bool(find_sandbox(claim)) and _find_condition(claim).get("status") == "True"


def explain(claim: Manifest) -> str:
    """What its controller says of a claim that is not ready."""
    found = _find_condition(claim)
    if not found:
        return "the controller of agent-sandbox has not looked at the claim: is it running?"
    return f"{found.get('reason', '')}: {found.get('message', '')}"


def _find_condition(claim: Manifest) -> dict[str, Any]:
    conditions = claim.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each.get("type") == "Ready"), {})


def _object(kind: str, name: str, labels: dict[str, str]) -> Manifest:
    return {"apiVersion": f"{EXTENSIONS}/{VERSION}", "kind": kind, "metadata": {"name": name, "labels": dict(labels)}}
