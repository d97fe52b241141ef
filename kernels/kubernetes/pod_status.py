"""What the cluster says of a pod, read for what the runtime wants to know of it (pure)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kernels.kubernetes.cluster import Object

_HOPELESS: Final = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
"""Why a container waits that will not start by waiting; all but the second are tried again by the cluster, in vain."""


def runs(pod: Object) -> bool:
    """Whether the guest's process is there, as far as the cluster knows: not on a node that is lost."""
    return ran(pod) and not is_cut_off(pod)


def ran(pod: Object) -> bool:
    """Whether it was there when its node last said so: the node may be silent, and the guest answer all the same."""
    status = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") != "Running":
        return False
    return _has_running(status)


def is_cut_off(pod: Object) -> bool:
    """Whether it ran when its node last said so, and the cluster has not heard from the node for a while."""
    status = pod.get("status", {})
    ready = [each.get("status") for each in status.get("conditions", ()) if each.get("type") == "Ready"]
    return _has_running(status) and "False" in ready


def _has_running(status: Object) -> bool:
    return any("running" in each.get("state", {}) for each in status.get("containerStatuses", ()))


def has_ended(pod: Object) -> bool:
    """Whether its node says that nothing of it runs any more, or that nothing of it could be started."""
    states = [each.get("state", {}) for each in pod.get("status", {}).get("containerStatuses", ())]
    return bool(states) and all(
        "terminated" in each or each.get("waiting", {}).get("reason") in _HOPELESS for each in states
    )


def terminating_seconds(pod: Object, now: float) -> float:
    """For how long it has been to end, as of `now` (seconds since the epoch); 0 for one that is to stay."""
    asked = pod["metadata"].get("deletionTimestamp")
    return now - datetime.fromisoformat(asked).timestamp() if asked else 0.0


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
