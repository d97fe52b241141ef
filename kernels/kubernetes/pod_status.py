"""What the cluster says of a pod, read for what the runtime wants to know of it (pure)."""

from __future__ import annotations

from kernels.kubernetes.cluster import Object


def runs(pod: Object) -> bool:
    """Whether the guest's process is there, as far as the cluster knows: not on a node that is lost."""
    status = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") != "Running":
        return False
    ready = [each.get("status") for each in status.get("conditions", ()) if each.get("type") == "Ready"]
    containers = status.get("containerStatuses", ())
    return "False" not in ready and any("running" in each.get("state", {}) for each in containers)


def explain(pod: Object) -> str:
    """What the cluster says of a pod that does not run."""
    status = pod.get("status", {})
    for each in status.get("containerStatuses", ()):
        for state in each.get("state", {}).values():
            if reason := state.get("reason"):
                return f"{reason}: {state.get('message', '')}".strip()
    for each in status.get("conditions", ()):
        if each.get("status") == "False" and each.get("message"):
            return f"{each.get('reason', '')}: {each['message']}"
    return str(status.get("message", ""))


def owners(pod: Object) -> list[str]:
    return [str(each.get("uid")) for each in pod["metadata"].get("ownerReferences", ())]


def holders(pod: Object) -> str:
    """What keeps a pod that is to go."""
    held = pod["metadata"].get("finalizers", ())
    return f"it has the finalizers {', '.join(held)}" if held else "its node does not say that it has ended"
