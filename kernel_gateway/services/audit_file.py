"""The audit log as JSON lines: one object a line in CloudTrail's names, appended to a file that is renamed when full.

`audit.jsonl` is written, `audit.jsonl.1` was full last, and so on; the oldest goes. A file that something else has
renamed or removed is begun anew. Everything here blocks: `audit` calls it in a thread.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from kernel_gateway.errors import StartRefused
from kernel_gateway.services.api_call import API
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.storage.audit import AuditRow
from kernel_gateway.storage.columns import to_json

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class AuditFile:
    """`open`, `append` and `close`, one at a time; at most `files` files of about `most_bytes` each."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._files = files
        self._descriptor = -1
        self._torn = False

    def open(self) -> None:
        """Begin or go on with the file; raises StartRefused."""
        try:
            self._open()
        except OSError as error:
            raise StartRefused(
                f"the audit file {self._path} cannot be written: {error.strerror}; set audit_file to a file in a "
                "directory of its own that the service's user (service_uid) may write, or audit_files to 0 for none"
            ) from error

    def append(self, lines: bytes) -> None:
        """Add whole lines; raises OSError, and then none, some or all of them are in the file."""
        if self._descriptor < 0 or self._replaced():
            self._open()
        if self._torn:
            lines = b"\n" + lines
        size = os.fstat(self._descriptor).st_size
        if size and size + len(lines) > self._most_bytes:
            self._rotate()
        self._torn = True
        left = memoryview(lines)
        while left:
            left = left[os.write(self._descriptor, left) :]
        self._torn = False

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(self._path, _FLAGS, 0o600)
        self._torn = _torn(self._path)

    def _replaced(self) -> bool:
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return True
        mine = os.fstat(self._descriptor)
        return (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino)

    def _rotate(self) -> None:
        self.close()
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._files))]
        with contextlib.suppress(FileNotFoundError):
            names[-1].unlink()
        for old, new in zip(names[-2::-1], names[:0:-1], strict=True):
            with contextlib.suppress(FileNotFoundError):
                old.rename(new)
        self._open()


def line(row: AuditRow) -> bytes:
    """One record as a line; those that are no calls of an interface take the same names."""
    if row.kind == API:
        return row.detail + b"\n"
    code, _, message = row.reason.partition(": ")
    told = {
        "eventTime": rfc3339(row.at),
        "eventSource": f"{row.kind}.sandcell",
        "eventName": row.event,
        "userIdentity": {"type": "Principal" if row.principal_id else "Unknown", "principalId": row.principal_id},
        **({} if row.allowed else {"errorCode": code, "errorMessage": message}),
        "additionalEventData": {
            "address": row.target,
            "sessionId": row.session_id,
            "reason": row.reason,
            "detail": msgspec.Raw(row.detail),
        },
    }
    return to_json(told) + b"\n"


def _torn(path: Path) -> bool:
    """Whether the last line lacks its end, as a process that was killed while it wrote can leave it."""
    with path.open("rb") as stream:
        if not stream.seek(0, os.SEEK_END):
            return False
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"
