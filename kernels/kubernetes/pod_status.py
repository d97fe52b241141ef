"""What the cluster says of a pod, read for what the runtime wants to know of it (pure)."""

from __future__ import annotations

from typing import Final

from kernels.kubernetes.cluster import Object

_HOPELESS: Final = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
"""Why a container waits that will not start by waiting; all but the second are tried again by the cluster, in vain."""


def runs(pod: Object) -> bool:
    """Whether the guest's process is there, as far as the cluster knows: not on a node that is lost."""
    conditions = pod.get("status", {}).get("conditions", ())
    return ran(pod) and "False" not in [each.get("status") for each in conditions if each.get("type") == "Ready"]


def ran(pod: Object) -> bool:
    """Whether it was there when its node last said so: the node may be silent, and the guest answer all the same."""
    status = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") != "Running":
        return False
    return any("running" in each.get("state", {}) for each in status.get("containerStatuses", ()))


def has_ended(pod: Object) -> bool:
    """Whether its node says that nothing of it runs any more."""
    found = pod.get("status", {}).get("containerStatuses", ())
    return bool(found) and all("terminated" in each.get("state", {}) for each in found)


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


def is_hopeless(pod: Object) -> bool:
    """Whether one that does not run will not by waiting either."""
    ended = pod.get("status", {}).get("phase") in ("Failed", "Succeeded")
    return ended or explain(pod).split(":")[0] in _HOPELESS


def owners(pod: Object) -> list[str]:
    """The uids of what it goes with."""
    return [str(each.get("uid")) for each in pod["metadata"].get("ownerReferences", ())]


def holders(pod: Object) -> str:
    """What keeps a pod that is to go."""
    held = pod["metadata"].get("finalizers", ())
    return f"it has the finalizers {', '.join(held)}" if held else "its node does not say that it has ended"
