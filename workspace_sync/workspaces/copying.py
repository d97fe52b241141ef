"""Durable files copied from one workspace to another of the same store, none of their bytes coming here.

A plan says what would be done and refuses what cannot be; carrying it out copies the objects several at a time and
then writes the target's manifest. What fails midway leaves each file whole, what was copied in the manifest, and the
same call goes on from there: content that is there already is not copied again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec.structs import replace

from workspace_sync.entry import Entry
from workspace_sync.errors import (
    AlreadyThere,
    ObjectNotFound,
    PathConflict,
    StoreError,
    WorkspaceTooLarge,
)
from workspace_sync.limits import TransferLimits
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.mirroring.plan import Remote, merge
from workspace_sync.names import check_path, escape, key_of, parents, path_from_text, text_of
from workspace_sync.store import ObjectStore
from workspace_sync.threads import Threads

COPY_ATTEMPTS = 3
"""Tries to copy a file that its session replaces meanwhile."""


class Move(msgspec.Struct, frozen=True):
    """One file: the key of its object and what it was, and the entry that it becomes."""

    source_key: str
    etag: str
    entry: Entry


@dataclass
class CopyPlan:
    """Files to copy; directories and links, which the manifest alone holds; what is overwritten or the same already."""

    files: list[Move] = field(default_factory=list)
    others: list[Entry] = field(default_factory=list)
    overwritten: int = 0
    unchanged: int = 0

    @property
    def size_bytes(self) -> int:
        """Of the files to copy."""
        return sum(move.entry.size for move in self.files)

    @property
    def paths(self) -> list[str]:
        """All that is written in the target, in order."""
        return [
            text_of(path) for path in sorted(entry.path for entry in [*(m.entry for m in self.files), *self.others])
        ]


class WorkspaceCopy:
    """From the workspace at one prefix to that at another, or within one."""

    def __init__(self, store: ObjectStore, source: str, target: str, limits: TransferLimits | None = None) -> None:
        self._store = store
        self._limits = limits or TransferLimits()
        self._source = DurableFiles(store, source, self._limits.manifest_bytes)
        self._target = DurableFiles(store, target, self._limits.manifest_bytes)

    def plan(self, paths: Iterable[str], to_path: str, *, overwrite: bool) -> CopyPlan:
        """What copying these paths, all without any, below `to_path` does. Blocking.

        Raises `ObjectNotFound` (a path), `AlreadyThere`, `PathConflict`, `IllegalName`, `WorkspaceTooLarge`.
        """
        objects = list(self._source.objects())
        remote, there = merge(self._source.read_manifest(), objects), self._target.load()
        etags = {stored.key: stored.etag for stored in objects}
        head = path_from_text(to_path) + b"/" if to_path else b""
        plan, conflicts = CopyPlan(), list[bytes]()
        chosen = [
            (path, replace(remote.entries[path], path=check_path(head + path)))
            for path in _choose_paths(remote, [path_from_text(path) for path in paths])
        ]
        for path, entry in chosen:
            self._add(plan, entry, there, conflicts, overwrite=overwrite)
            if entry.kind == "file" and not _same(entry, there.entries.get(entry.path)):
                key = remote.keys[path]
                plan.files.append(Move(self._source.files_prefix + key, etags.get(key, ""), entry))
        if self._source.prefix == self._target.prefix:
            _check_apart(plan, {path for path, _ in chosen})
        if conflicts:
            raise AlreadyThere([text_of(path) for path in conflicts])
        self._check_room(plan, there)
        return plan

    def _add(self, plan: CopyPlan, entry: Entry, there: Remote, conflicts: list[bytes], *, overwrite: bool) -> None:
        """Hold one entry against the target."""
        before = there.entries.get(entry.path)
        for parent in parents(entry.path):
            known = there.entries.get(parent)
            if known is not None and known.kind != "directory":
                raise PathConflict(f"{escape(parent)} is a {known.kind} in the other workspace, not a directory")
        if before is not None and (before.kind == "directory") != (entry.kind == "directory"):
            raise PathConflict(f"{escape(entry.path)} is a {before.kind} in the other workspace, not a {entry.kind}")
        if _same(entry, before):
            plan.unchanged += entry.kind != "directory"
            return
        if before is not None and not overwrite:
            conflicts.append(entry.path)
        plan.overwritten += before is not None
        if entry.kind != "file":
            plan.others.append(entry)

    def _check_room(self, plan: CopyPlan, there: Remote) -> None:
        sizes = {path: entry.size for path, entry in there.entries.items() if entry.kind == "file"}
        sizes.update((move.entry.path, move.entry.size) for move in plan.files)
        if sum(sizes.values()) > self._limits.workspace_bytes:
            raise WorkspaceTooLarge(
                f"the other workspace would have {sum(sizes.values()):,} bytes; the most is "
                f"{self._limits.workspace_bytes:,}: copy less, or remove some of its files"
            )

    async def carry_out(self, plan: CopyPlan, threads: Threads) -> None:
        """Do it; raises `StoreError`, after what was copied until then is in the manifest."""
        done: list[Entry] = []

        def copy(move: Move) -> None:
            done.append(self._copy(move))  # noted in its thread: one that others' failure cuts off is done all the same

        try:
            await threads.each(copy, plan.files)
        except StoreError:
            if done:
                await threads.run(partial(self._write, done))
            raise
        await threads.run(partial(self._write, [*done, *plan.others]))

    def _copy(self, move: Move) -> Entry:
        target = self._target.files_prefix + key_of(move.entry.path)
        etag, entry = move.etag, move.entry
        for _ in range(COPY_ATTEMPTS):
            try:
                written = self._store.copy(move.source_key, target, etag=etag)
            except ObjectNotFound:
                now = self._store.stat(move.source_key)  # of one that is gone for good this says so
                etag, entry = now.etag, replace(entry, size=now.size, mtime_ns=int(now.modified * 1e9), sha256="")
            else:
                return replace(entry, etag=written.etag, version_id=written.version_id)
        raise ObjectNotFound(f"{escape(move.entry.path)} is replaced faster than it can be copied; copy it again later")

    def _write(self, entries: Iterable[Entry]) -> None:
        """Put the entries into the target's manifest, then remove objects that stand for what they replace."""
        with self._target.changing:
            there = self._target.load()
            every, stale = there.entries.copy(), []
            for entry in entries:
                every[entry.path] = entry
                key = there.keys.get(entry.path)
                if key is not None and (entry.kind != "file" or key != key_of(entry.path)):
                    stale.append(self._target.files_prefix + key)
            self._target.write_manifest(every.values(), execution=there.execution)
            self._store.delete(stale)


def _check_apart(plan: CopyPlan, sources: set[bytes]) -> None:
    """Within one workspace nothing is written over that is still to be copied."""
    for move in plan.files:
        if move.entry.path in sources:
            raise PathConflict(f"{escape(move.entry.path)} would be copied and written at once: choose another to_path")


def _choose_paths(remote: Remote, wanted: list[bytes]) -> list[bytes]:
    """The paths that are wanted, with all beneath them, in order; everything when none are named."""
    if not wanted:
        return list(remote.entries)
    for path in wanted:
        if path not in remote.entries:
            raise ObjectNotFound(f"no such path: {text_of(path)!r}")
    tops = set(wanted)
    return [path for path in remote.entries if path in tops or not tops.isdisjoint(parents(path))]


def _same(entry: Entry, before: Entry | None) -> bool:
    """Whether the target has it already: a directory, the same link, a file known to hold the same bytes."""
    if before is None or before.kind != entry.kind:
        return False
    if entry.kind == "file":
        return bool(entry.sha256) and entry.sha256 == before.sha256
    return entry.kind == "directory" or entry.target == before.target
