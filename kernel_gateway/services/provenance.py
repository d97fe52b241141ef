"""What an execution used and changed: what its kernel says, and what is seen from outside the sandbox."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kernels.run_usage import RunUsage


def provenance_of(usage: RunUsage | None, environment_digest: str) -> dict[str, Any]:
    """What is stored beside an execution's outcome: `usage` by its names as far as it is known, and the image."""
    used = {} if usage is None else {name: value for name, value in asdict(usage).items() if value is not None}
    return {**used, "environment_digest": environment_digest} if environment_digest else used
