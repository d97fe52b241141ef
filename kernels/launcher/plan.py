"""What the launcher is started with: said once, by root, before anything listens. Plain values, passed in memory."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from kernels.launcher.checks import Bounds
from kernels.sandbox import RuntimeSettings


class TokenPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the launcher saves the first token for the user who started it: an open file, or why it is not open.

    The token is written between `before` and `after`, as JSON writes a text.
    """

    descriptor: int
    before: str
    after: str
    error: str


class ViewerPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a process that makes views is started: its user, its command, which the form is appended to, what it runs on.

    At most `at_once` run, each for at most so many seconds.
    """

    uid: int
    command: list[str]
    reach: list[str]
    seconds: float
    at_once: int


class ServicePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the service is started: its user, its command, the descriptors it inherits, what it must be able to reach.

    `variables` are all that stands in its environment, which others of its user could read in /proc while it begins.

    The number of the launcher's socket is appended to the command. An exit with `refusal` is a start that was refused:
    it is not tried again.
    """

    uid: int
    command: list[str]
    variables: dict[str, str]
    directory: str
    descriptors: list[int]
    reach: list[str]
    refusal: int
    alone: bool = False
    """Whether the launcher has no privileges: the service is another process of its user, in a container of its own."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it."""

    oci: RuntimeSettings
    environments: str
    bounds: Bounds
    service: ServicePlan
    token: TokenPlan
    viewer: ViewerPlan

    def encode(self) -> bytes:
        """As it travels; `decode` reads it."""
        return msgspec.json.encode(self, enc_hook=os.fspath)

    @classmethod
    def decode(cls, content: bytes) -> Plan:
        """The plan again; raises msgspec.ValidationError."""
        return msgspec.json.decode(content, type=cls, dec_hook=_path)


def _path(kind: type, value: str) -> Path:
    """A path from its text, for the decoder, which does not know this one type of a plan."""
    if kind is not Path:
        raise NotImplementedError(f"a plan holds no {kind}")
    return Path(value)
