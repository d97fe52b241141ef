"""What a guest says, as values: its JSON, checked field by field.

Nothing in it is trusted: a field that is missing, of another type or out of range is `SandboxFailed`.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from kernels.errors import GuestRefused, SandboxFailed
from kernels.guest.relay import frames

MAX_NUMBER = 2**63
MAX_SECONDS = 62_135_596_800.0
"""From the epoch back to year 1, and as far ahead: what calendars can show."""
STATUSES = ("running", "done", "timeout", "stopped")
LONGEST_NAME = 4_096
"""Of what has changed, below the watched directory, in bytes."""
VERSION = re.compile(r"[0-9a-f.-]{1,100}")
"""What a file's version is made of: it becomes a header of an answer."""
CHANGES = ("create", "write", "remove", "rename", "chmod")
FILE_KINDS = ("file", "directory", "link", "other")


@dataclass(frozen=True)
class KernelStarted:
    """A kernel of this generation runs; `key` is the HMAC key of its connection, in hex."""

    generation: int
    key: str
    has_relay: bool = True
    """Whether the guest is the kernel's client, and keeps what it says; one of an older release is not."""


class KernelExit(msgspec.Struct, frozen=True):
    """A kernel ended: with an exit code, or by a signal (by name, `SIGSEGV`), or neither when it never started.

    `last_words` is the end of what it wrote to its raw stderr: user data.
    """

    generation: int
    exit_code: int | None
    signal: str | None
    last_words: str = ""


class FileChange(msgspec.Struct, frozen=True):
    """Something changed below a watched directory: `kind` is one of CHANGES, `name` is relative to the directory."""

    kind: str
    name: str

    @property
    def size(self) -> int:
        """Of the name, in bytes; one that is not UTF-8 has a surrogate for each byte that is not."""
        return len(self.name.encode("utf-8", "replace"))


class CommandResult(msgspec.Struct, frozen=True):
    """A shell command: `status` is running, done, timeout or stopped; `*_truncated` are bytes cut from each stream.

    `exit_code` is as shells say it: 128 plus the number of the signal that ended the shell.
    """

    id: str
    status: str
    stdout: str
    stderr: str
    exit_code: int | None
    timed_out: bool
    duration_seconds: float
    stdout_truncated: int
    stderr_truncated: int


@dataclass(frozen=True)
class FileStat:
    """One entry of the workspace: `path` is relative to it, `kind` one of file, directory, link, other.

    Names that are not UTF-8 hold surrogates, as `os.fsdecode` makes them. `modified` is seconds since the epoch.
    `version` differs once the file has changed, if it is `settled`; it is empty in lists of the workspace, and when it
    is not known. From `mode` to `target`, a link's, all is told where paths are relative to the sandbox's root. What is
    in an `unread` directory could not be looked at.
    """

    path: str
    kind: str
    size: int
    modified: float
    version: str = ""
    settled: bool = False
    mode: int = 0
    uid: int = 0
    gid: int = 0
    target: str = ""
    unread: bool = False


def parse(line: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SandboxFailed(f"the guest sent what is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise SandboxFailed("the guest sent JSON that is not an object")
    return value


def parse_refusal(status: int, body: bytes) -> GuestRefused:
    """The refusal that an answer without a good status is."""
    value = parse(body)
    return GuestRefused(status, str(value.get("code", "failed"))[:100], str(value.get("message", ""))[:1000])


def parse_refusals(value: dict[str, Any], done: str, count: int) -> list[tuple[int, GuestRefused]]:
    """Which of `count` files a guest refused, by their numbers; it says under `done` how many it did not."""
    found = [_parse_one_refusal(each, count) for each in of_type(value, "refused", list)]
    if of_type(value, done, int) + len(found) != count or len({number for number, _ in found}) != len(found):
        raise SandboxFailed("the guest has lost count of the files")
    return found


def parse_contents(body: bytes, count: int) -> list[bytes | GuestRefused]:
    """Of `count` files that were asked for at once, what is in each or why it was refused."""
    length = int.from_bytes(body[:4], "big")
    head, rest = parse(body[4 : 4 + length]), memoryview(body)[4 + length :]
    refused, sizes = dict(parse_refusals(head, "read", count)), of_type(head, "sizes", list)
    if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != len(rest):
        raise SandboxFailed("the guest sends other files than it says")
    if len(sizes) + len(refused) != count:
        raise SandboxFailed("the guest has lost count of the files")
    found: list[bytes | GuestRefused] = []
    left = iter(sizes)
    for number in range(count):
        if (why := refused.get(number)) is not None:
            found.append(why)
        else:
            size = next(left)
            found.append(bytes(rest[:size]))
            rest = rest[size:]
    return found


def _parse_one_refusal(value: object, count: int) -> tuple[int, GuestRefused]:
    if not isinstance(value, dict) or (number := of_type(value, "index", int)) >= count:
        raise SandboxFailed("the guest refused a file that there is not")
    status = min(max(of_type(value, "status", int), 400), 599)
    return number, GuestRefused(status, of_type(value, "code", str)[:100], of_type(value, "message", str)[:1000])


def parse_start(value: dict[str, Any]) -> KernelStarted:
    """What `kernel_started` and the answer to a start say."""
    return KernelStarted(
        of_type(value, "generation", int), of_type(value, "key", str), value.get("relay") == frames.VERSION
    )


def parse_exit(value: dict[str, Any]) -> KernelExit:
    """What `kernel_exited` says."""
    exit_code, signal = value.get("exit_code"), value.get("signal")
    return KernelExit(
        generation=of_type(value, "generation", int),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        signal=str(signal)[:40] if signal is not None else None,
        last_words=str(value.get("last_words", ""))[:8192],
    )


def parse_result(value: dict[str, Any]) -> CommandResult:
    """What is said of a command."""
    exit_code, status = value.get("exit_code"), of_type(value, "status", str)
    if status not in STATUSES:
        raise SandboxFailed(f"the guest knows a status that we do not: {status[:40]!r}")
    return CommandResult(
        id=of_type(value, "id", str),
        status=status,
        stdout=of_type(value, "stdout", str),
        stderr=of_type(value, "stderr", str),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        timed_out=of_type(value, "timed_out", bool),
        duration_seconds=of_type(value, "duration_seconds", float),
        stdout_truncated=of_type(value, "stdout_truncated", int),
        stderr_truncated=of_type(value, "stderr_truncated", int),
    )


def parse_change(value: dict[str, Any]) -> FileChange | None:
    """One line of a watch; None for one that says nothing but that it goes on.

    Raises GuestRefused where changes were lost, which ends it.
    """
    if value.get("event") == "overflow":
        raise GuestRefused(429, "changes_lost", "more changed at once than can be followed: watch again and look")
    if value.get("event") != "change":
        return None
    kind = of_type(value, "kind", str)
    if kind not in CHANGES:
        raise SandboxFailed("the guest knows a change that we do not")
    change = FileChange(kind, of_type(value, "name", str))
    if change.size > LONGEST_NAME:
        raise SandboxFailed("the guest tells of a name that no file can have")
    return change


def parse_file(value: object) -> FileStat:
    """What is said of an entry of the workspace."""
    if not isinstance(value, dict):
        raise SandboxFailed("the guest listed what is not a file")
    kind = of_type(value, "kind", str)
    if kind not in FILE_KINDS:
        raise SandboxFailed(f"the guest knows a kind of file that we do not: {kind[:40]!r}")
    version, settled = value.get("version"), value.get("settled")
    known = isinstance(version, str) and VERSION.fullmatch(version) is not None
    return FileStat(
        of_type(value, "path", str),
        kind,
        of_type(value, "size", int),
        of_type(value, "modified", float),
        str(version) if known else "",  # a guest of an earlier version, taken up with its sandbox, says none
        known and settled is True,
        mode=_optional_number(value, "mode"),
        uid=_optional_number(value, "uid"),
        gid=_optional_number(value, "gid"),
        target=str(value.get("target", ""))[:4096],
        unread=value.get("unread") is True,
    )


def parse_listed(value: object) -> FileStat:
    """The same, in a list of what is below a directory: its path is one that a file can have there.

    Callers that copy what is listed go by these paths.
    """
    entry = parse_file(value)
    try:
        is_one_name = os.fsdecode(os.fsencode(entry.path)) == entry.path
    except UnicodeEncodeError:
        is_one_name = False
    if not is_one_name or "\0" in entry.path or not {"", ".", ".."}.isdisjoint(entry.path.split("/")):
        raise SandboxFailed(f"the guest listed what no file can be called: {entry.path[:200]!a}")
    return entry


def _optional_number(value: dict[str, Any], name: str) -> int:
    return int(of_type(value, name, int)) if name in value else 0


def of_type(value: dict[str, Any], name: str, kind: type) -> Any:
    """A field that must have this type."""
    found = value.get(name)
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool) or not _in_range(found):
        raise SandboxFailed(f"the guest's answer lacks a proper {name}")
    return found


def _in_range(value: object) -> bool:
    """Whether a number can be a size or a generation, or, with a fraction, a time (also one before the epoch)."""
    if isinstance(value, float):
        return abs(value) < MAX_SECONDS
    return not isinstance(value, int) or 0 <= value < MAX_NUMBER
