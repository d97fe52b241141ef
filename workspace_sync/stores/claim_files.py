"""What a service keeps on its own disk about the stores that it uses: its id, and which stores it has used.

Both are written whole or not at all, and are on disk before anything relies on them. A disk that takes no more writes
stops no service: it is logged, and what that costs is said at each function.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)
MOST_USED_STORES: Final = 16
"""How many stores are remembered; the one that was first used the longest ago is forgotten."""
_ID: Final = re.compile(r"[0-9a-f]{32}")


def keep_service_id(file: Path) -> str:
    """The random id of the service of this data directory, which is made at its first start.

    Where it can be neither read nor kept it is of this process alone: after a crash the next one then waits as another
    service would, until the store's mark has expired.
    """
    try:
        kept = file.read_text(errors="replace").strip()
        if _ID.fullmatch(kept):
            return kept
        log.warning("service_id_damaged", file=str(file))
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("service_id_not_read", file=str(file), error=str(error))
        return uuid.uuid4().hex
    made = uuid.uuid4().hex
    try:
        _write_whole(file, made)
    except OSError as error:
        log.warning("service_id_not_kept", file=str(file), error=str(error))
    return made


class UsedStores:
    """The descriptions of stores that this service has used, a line each in `file`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._failed = False

    def has(self, store: str) -> bool:
        """Whether it was used; a file that is not there has none. Raises OSError."""
        return _as_line(store) in self._read()

    def add(self, store: str) -> bool:
        """Remember it; whether the disk has it. One that it does not take may be restored from while it is away."""
        try:
            used, line = self._read(), _as_line(store)
            if line not in used:
                _write_whole(self.file, "\n".join([*used, line][-MOST_USED_STORES:]))
        except OSError as error:
            if not self._failed:
                log.warning("store_not_remembered", file=str(self.file), error=str(error))
            self._failed = True
            return False
        return True

    def _read(self) -> list[str]:
        try:
            return self.file.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []


def _as_line(store: str) -> str:
    return " ".join(store.splitlines())


def _write_whole(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = file.with_name(f"{file.name}.new")
    try:
        with beside.open("w") as target:
            target.write(f"{text}\n")
            target.flush()
            os.fsync(target.fileno())
        beside.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
