"""What a pod uses by its guest's word, held to what it can have used (pure).

The guest is hostile: it may say less than the pod has used, which nobody in its namespace can tell; but not what takes
back an earlier word, and not more than the pod's limits have let it have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kernels.sandbox import SandboxUsage

_SKEW_SECONDS: Final = 300.0
"""How far the clock of the API server may be ahead."""
_UNITS: Final = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""How the server shortens what it is sent as a plain number."""
_QUANTITY: Final = re.compile(r"([0-9]{1,18})([mkMGT]?)")


@dataclass
class Account:
    """Of one pod, made at `began` (seconds since the epoch); a limit of 0 is not known."""

    began: float
    vcpus: float = 0.0
    memory_limit_bytes: int = 0
    storage_limit_bytes: int = 0
    _cpu_seconds: float = 0.0

    def hold(self, said: Mapping[str, float], now: float) -> SandboxUsage:
        """What the guest says now, as `GuestClient.usage` has it, within bounds."""
        most = max(0.0, now - self.began + _SKEW_SECONDS) * self.vcpus
        self._cpu_seconds = max(self._cpu_seconds, min(said["cpu_seconds"], most))
        limit = self.memory_limit_bytes or int(said["memory_limit"])
        memory, peak, held = (min(int(said[each]), limit) for each in ("memory", "memory_peak", "memory_held"))
        return SandboxUsage(
            memory_bytes=memory,
            memory_peak_bytes=max(memory, peak),
            memory_limit_bytes=limit,
            cpu_seconds=self._cpu_seconds,
            pids=int(said["pids"]),
            oom_kills=int(said["oom_kills"]),
            storage_used_bytes=0,  # the cluster evicts a pod that takes more than its limit, and says no figure
            storage_limit_bytes=self.storage_limit_bytes,
            memory_held_bytes=held,
        )


def open_account(pod: Mapping[str, Any]) -> Account:
    """By what the cluster says of a pod: its limits as `manifests.pod` writes them."""
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return Account(
        datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp(),
        _number(limits.get("cpu")),
        int(_number(limits.get("memory"))),
        int(_number(limits.get("ephemeral-storage"))),
    )


def _number(quantity: object) -> float:
    """Of a quantity; 0 for what none of ours can become."""
    found = _QUANTITY.fullmatch(str(quantity))
    return round(int(found[1]) * _UNITS[found[2]], 3) if found else 0.0
