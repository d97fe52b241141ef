"""The bounds of a mirror, in one value."""

from __future__ import annotations

from dataclasses import dataclass

_DOUBLINGS = 16


@dataclass(frozen=True)
class TransferLimits:
    """Every bound of one mirror; the defaults suit a session of a few gigabytes."""

    concurrency: int = 4
    """Files sent or fetched at a time."""
    workspace_bytes: int = 10_240 * 1024 * 1024
    """All files together, holes counted; those that do not fit, in order of path, are reported and not sent."""
    manifest_bytes: int = 64 * 1024 * 1024
    """A manifest, read or written: about 250,000 names."""
    read_attempts: int = 3
    """Reads of a file that changes meanwhile, before it is copied aside and sent as it was."""
    fetch_attempts: int = 3
    """Downloads of one file on restore."""
    settle_seconds: float = 0.2
    """Pause between a request and its flush, so that executions in quick succession share one."""
    between_seconds: float = 0.0
    """From the beginning of one flush to that of the next at least, unless somebody waits for it."""
    walk_every_seconds: float = 300.0
    """After so long the next flush walks the whole directory even if no event says that something changed."""
    walk_share: float = 0.01
    """The share of the time that these walks take at most."""
    watch: bool = True
    """Whether the kernel is asked to tell of changes; without, every flush walks the whole directory."""
    flush_attempts: int = 1 << 30
    """Attempts in a row that may fail before those who wait for a flush get an error; it goes on all the same."""
    retry_seconds: float = 0.5
    """First pause after a failed flush; doubles each time, with jitter."""
    retry_max_seconds: float = 30.0
    """Longest pause after a failed flush."""
    attempt_seconds: float = 1800.0
    """One attempt of a flush; of a restore, with 10 s more for each megabyte."""
    at_once_bytes: int = 8 * 1024 * 1024
    """A restore of more than this brings no file before a caller waits for it."""
    restore_seconds: float = 600.0
    """How long a restore tries again while nothing arrives; the next one who waits for it begins it again."""
    close_seconds: float = 10.0
    """How long `aclose` waits for a transfer under way before it is left to its own timeouts."""

    def pause_seconds(self, failures: int, jitter: float) -> float:
        """The pause after so many failures in a row; `jitter`, from 0 to 1, spreads those that failed together."""
        longest: float = min(self.retry_max_seconds, self.retry_seconds * 2.0 ** min(failures - 1, _DOUBLINGS))
        return longest * (0.5 + jitter / 2)
