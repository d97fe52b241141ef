"""What a sandbox says of a file: believed as far as its shape and bounds go, or the error that it stands for. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from kernel_gateway.errors import DeadlinePassed, EnvironmentUnavailable, GatewayError, UnreadableFile
from kernels.environment import Environment
from kernels.guest_client.client import CommandResult
from sandcell.models.datasets import DatasetFormat, DatasetProfile, Described

KILLED: Final = 128 + 9
BROKEN: Final = "the file broke its reader: write it again with a current version of pandas or PyArrow"


def profile_of(
    result: CommandResult, environment: Environment, wanted: DatasetFormat | None, seconds: float
) -> DatasetProfile:
    """The profile that the reader printed. Raises UnreadableFile, DeadlinePassed, EnvironmentUnavailable."""
    if result.timed_out:
        raise DeadlinePassed(f"the file could not be described within {seconds:g} s (dataset_seconds)")
    if result.exit_code == KILLED:
        raise UnreadableFile(
            f"describing the file needs more than the {environment.resources.memory_mb:,} MB of memory of a sandbox: "
            "write it in smaller row groups, batches or rows",
            reason="too_large",
        )
    said = _decode(result)
    if said is None:
        raise UnreadableFile(BROKEN, reason="damaged")
    if said.refused is not None:
        raise _refusal(said.refused.reason, said.refused.message, environment)
    if said.profile is None or wanted not in (None, said.profile.format):
        raise UnreadableFile(BROKEN, reason="damaged")
    return said.profile


def _decode(result: CommandResult) -> Described | None:
    """The document, if it is one and within its bounds."""
    if result.exit_code != 0 or result.stdout_truncated:
        return None
    try:
        said = msgspec.json.decode(result.stdout, type=Described)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    profile = said.profile
    if profile is not None and any(len(row) > len(profile.columns) for row in profile.sample):
        return None
    return said


def _refusal(reason: str, message: str, environment: Environment) -> GatewayError:
    if reason == "no_pyarrow":
        return EnvironmentUnavailable(
            f"the environment {environment.name} has no PyArrow: build it again (sandcell environments build "
            f"{environment.image}), or name another in dataset_environment"
        )
    return UnreadableFile(message if message.isprintable() else BROKEN, reason=reason)
