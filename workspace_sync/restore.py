"""From the store to a live directory, before anything else runs in it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

from workspace_sync.durable import DurableFiles
from workspace_sync.errors import DirectoryFull
from workspace_sync.manifest import Entry, Skipped
from workspace_sync.names import escape, key_of
from workspace_sync.plan import Remote, Seen
from workspace_sync.threads import Threads
from workspace_sync.transfer import Transfer, finish_directory, make_directory, make_link, settled, unusable


@dataclass(frozen=True)
class RestoreReport:
    """What a restore brought: counts, bytes, what the manifest was as of, and what was left out with the reason."""

    files: int
    directories: int
    links: int
    size_bytes: int
    as_of: str
    skipped: tuple[Skipped, ...]


async def restore(
    durable: DurableFiles, transfer: Transfer, threads: Threads
) -> tuple[RestoreReport, dict[bytes, Seen]]:
    """Fill the directory; returns what was done and the baseline for the first flush.

    Raises `StoreError` and `DirectoryUnusable`, and leaves the directory half filled then.
    """
    remote = await threads.run(durable.load)
    skipped = list(remote.skipped)
    entries = [remote.entries[path] for path in sorted(remote.entries)]
    directories = [entry for entry in entries if entry.kind == "directory"]
    links = [entry for entry in entries if entry.kind == "link"]
    await threads.run(partial(_make_all, transfer, directories, []))
    fetched = await threads.each(partial(_fetch, transfer, remote), list(remote.keys))
    baseline = {seen.entry.path: seen for seen in fetched if seen is not None}
    made = await threads.run(partial(_make_all, transfer, links, skipped))
    await threads.run(partial(_finish_all, transfer, directories))
    baseline.update({entry.path: Seen(entry) for entry in [*directories, *made]})
    end_ns = time.time_ns()
    baseline = {path: _settle(seen, end_ns) for path, seen in baseline.items()}
    files = [seen.entry for seen in baseline.values() if seen.entry.kind == "file"]
    size = sum(entry.size for entry in files)
    report = RestoreReport(len(files), len(directories), len(made), size, remote.as_of, tuple(skipped))
    return report, baseline


def _fetch(transfer: Transfer, remote: Remote, path: bytes) -> Seen | None:
    return transfer.fetch(remote.entries[path], remote.keys[path], remote.modified[path])


def _settle(seen: Seen, moment_ns: int) -> Seen:
    """Trust a restored file's signature, unless it is too fresh or the file has to be sent under its proper key."""
    if seen.signature is None or seen.key != key_of(seen.entry.path):
        return replace(seen, signature=None)
    return replace(seen, signature=settled(seen.signature, moment_ns))


def _make_all(transfer: Transfer, entries: list[Entry], skipped: list[Skipped]) -> list[Entry]:
    """Make directories or links; a link that cannot be made (a store may name anything) is left out and told."""
    made = []
    for entry in entries:
        make = make_link if entry.kind == "link" else make_directory
        try:
            make(transfer.root, entry, transfer.owner)
        except OSError as error:
            failure = unusable(entry.path, error)
            if entry.kind != "link" or isinstance(failure, DirectoryFull):
                raise failure from error
            skipped.append(Skipped(escape(entry.path), str(failure)))
        else:
            made.append(entry)
    return made


def _finish_all(transfer: Transfer, directories: list[Entry]) -> None:
    for entry in reversed(directories):
        try:
            finish_directory(transfer.root, entry)
        except OSError as error:
            raise unusable(entry.path, error) from error
