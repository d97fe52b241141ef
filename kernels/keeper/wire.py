"""What a caller and its keeper say to each other: one JSON value a line. Pure.

The first line to the keeper is its `LaunchRequest`; then come `Request`s. The keeper answers with `Report`s.
"""

from __future__ import annotations

from typing import Literal

import msgspec

LINE_BYTES = 64 * 1024
"""Of one line; a longer one was not written by this package."""


class LaunchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to keep: a sandbox of this image, below these directories, within these bounds (the service's settings)."""

    environment: str
    environments_directory: str
    data_directory: str
    run_directory: str
    runtime: str
    memory_mb: int
    storage_mb: int
    pids: int
    uid_base: int
    uid_ranges: int
    cgroup_parent: str


class Request(msgspec.Struct, frozen=True):
    """`start` the next kernel, `interrupt` or `kill` the one there is, `end` all of it."""

    do: Literal["start", "interrupt", "kill", "end"]


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kernel `started` (with its sockets' prefix and key) or `exited`, or what was asked for `failed`.

    `exit_code` is negative for a kernel that a signal ended, as in `subprocess`.
    """

    event: Literal["started", "exited", "failed"]
    generation: int = 0
    sockets: str = ""
    key: str = ""
    exit_code: int = 0
    detail: str = ""
