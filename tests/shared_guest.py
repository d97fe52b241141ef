"""The guest's code as a runtime keeps it in its data directory, compiled once for many data directories of tests."""

from __future__ import annotations

from pathlib import Path


def share_guest(data_directory: Path, shared: Path) -> Path:
    """Have a new data directory keep the guest's code in `shared`, where an earlier one's runtime has put it."""
    (shared / "guest").mkdir(exist_ok=True, mode=0o700)
    data_directory.mkdir(parents=True, exist_ok=True)
    (data_directory / "guest").symlink_to(shared / "guest")
    return data_directory
