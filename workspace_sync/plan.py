"""What a workspace's store holds, and what has to move (pure).

The rule for restore and list: the objects decide which files there are and what they hold; the manifest adds what
objects cannot say. A file of the manifest without its object was removed by someone and is gone; an object the manifest
does not know was dropped by someone and is a file of mode 644. When a path is both a file and a directory, the
directory wins. Of two keys for one path, the one we would write wins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from workspace_sync.confined import split
from workspace_sync.errors import IllegalName
from workspace_sync.manifest import AsOf, Entry, Manifest, Skipped, clamp_nanoseconds
from workspace_sync.names import LONG, escape, key_of, parents, path_of
from workspace_sync.scan import Scan, Signature, is_below
from workspace_sync.store import StoredObject

SAME_PATH = "another key holds the same path"


@dataclass
class Remote:
    """The workspace as the store has it: entries by path, the key of each file, when each object was written."""

    entries: dict[bytes, Entry] = field(default_factory=dict)
    keys: dict[bytes, str] = field(default_factory=dict)
    modified: dict[bytes, float] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    as_of: str = ""
    execution: AsOf | None = None
    named: AbstractSet[bytes] = frozenset()
    """What the manifest has."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A name as the store has it by our own doing; `signature` is None when the file has to be read to be known.

    Not `ours`: an object that no manifest names. Somebody else has put it there, and it is not for us to remove.
    """

    entry: Entry
    key: str = ""
    signature: Signature | None = None
    ours: bool = True

    def unsure(self) -> Seen:
        """The same while it is written or removed: until the store has answered, it may hold anything or nothing."""
        return replace(self, entry=replace(self.entry, sha256="", etag="", version_id=""), signature=None)


@dataclass
class FlushPlan:
    """What one flush does, in this order: `clear` keys in the way, `send` files, `delete` keys, write the manifest.

    `kept` are entries that stay as the store has them: unchanged, or left out this time.
    """

    clear: list[bytes] = field(default_factory=list)
    send: list[bytes] = field(default_factory=list)
    delete: list[bytes] = field(default_factory=list)
    kept: dict[bytes, Entry] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


def merge(manifest: Manifest, objects: Iterable[StoredObject]) -> Remote:
    """The manifest and the listed objects (keys relative to the workspace's files) by the rule above."""
    remote = Remote(as_of=manifest.as_of, skipped=list(manifest.skipped), execution=manifest.execution)
    remote.named = manifest.entries.keys()
    hashed = {key: path for path in manifest.entries if (key := key_of(path)).startswith(LONG)}
    for stored in objects:
        try:
            _add_object(remote, manifest, stored, hashed)
        except IllegalName as error:
            remote.skipped.append(Skipped(ascii(stored.key), str(error)))
    for path, entry in manifest.entries.items():
        if entry.kind != "file":
            remote.entries.setdefault(path, entry)
    _let_directories_win(remote)
    return remote


def plan_flush(
    baseline: Mapping[bytes, Seen],
    scan: Scan,
    workspace_bytes: int,
    read_since_ns: float = math.inf,
    *,
    removes: bool = True,
) -> FlushPlan:
    """What takes the store from `baseline` to `scan`, which is known to be a part alone unless this `removes`.

    A file is taken for unchanged when its signature is, unless it changed at `read_since_ns` or later.
    """
    plan = FlushPlan(skipped=list(scan.skipped))
    room = workspace_bytes
    for path, entry in sorted(scan.entries.items()):
        if entry.kind != "file":
            plan.kept[path] = entry
            continue
        seen = baseline.get(path)
        if entry.size > room:
            plan.skipped.append(Skipped(escape(path), f"does not fit into the {workspace_bytes} bytes of a workspace"))
            if seen is not None and seen.entry.kind == "file":
                plan.kept[path] = seen.entry
            continue
        room -= entry.size
        signature = scan.signatures[path]
        if seen is not None and seen.signature == signature and signature.ctime_ns < read_since_ns:
            plan.kept[path] = seen.entry
        else:
            plan.send.append(path)
    _plan_removal(plan, baseline, scan, removes=removes)
    return plan


def _add_object(remote: Remote, manifest: Manifest, stored: StoredObject, hashed: Mapping[str, bytes]) -> None:
    if stored.key.endswith("/"):  # a folder marker, as S3 consoles make them
        _add_folder(remote, manifest, path_of(stored.key.rstrip("/")))
        return
    path = hashed.get(stored.key) if stored.key.startswith(LONG) else path_of(stored.key)
    if path is None:
        raise IllegalName("a hashed key that the manifest does not know")
    if path in remote.keys:
        if remote.keys[path] == key_of(path) or stored.key != key_of(path):
            raise IllegalName(SAME_PATH)
        remote.skipped.append(Skipped(ascii(remote.keys[path]), SAME_PATH))
    known = manifest.entries.get(path)
    if known is not None and known.kind == "file" and known.size == stored.size:
        entry = known if _same_object(known, stored) else replace(known, sha256="", etag=stored.etag, version_id="")
    else:
        mode = known.mode if known is not None and known.kind == "file" else 0o644
        entry = Entry(path, "file", stored.size, clamp_nanoseconds(int(stored.modified * 1e9)), mode, etag=stored.etag)
    remote.entries[path] = entry
    remote.keys[path] = stored.key
    remote.modified[path] = stored.modified


def _add_folder(remote: Remote, manifest: Manifest, path: bytes | None) -> None:
    if path is None:
        raise IllegalName("a folder below the hashed keys")
    known = manifest.entries.get(path)
    entry = known if known is not None and known.kind == "directory" else Entry(path, "directory", mode=0o755)
    remote.entries.setdefault(path, entry)


def _same_object(entry: Entry, stored: StoredObject) -> bool:
    """Whether the manifest speaks of these bytes, as far as the store tells; else nobody knows their digest."""
    return not entry.etag or not stored.etag or entry.etag == stored.etag


def _let_directories_win(remote: Remote) -> None:
    above: set[bytes] = set()
    for path in remote.entries:
        parent = split(path)[0]
        while parent and parent not in above:
            above.add(parent)
            parent = split(parent)[0]
    for path in above:
        entry = remote.entries.get(path)
        if entry is not None and entry.kind == "directory":
            continue
        if entry is not None:
            remote.skipped.append(Skipped(escape(path), "is a directory as well"))
            remote.keys.pop(path, None)
            remote.modified.pop(path, None)
        remote.entries[path] = Entry(path, "directory", mode=0o755)


def _plan_removal(plan: FlushPlan, baseline: Mapping[bytes, Seen], scan: Scan, *, removes: bool) -> None:
    """Sort what the directory no longer has: keys in the way of new ones go first.

    What could not be looked at stays; the manifest has no room for what is beyond its bound.
    """
    for path, seen in baseline.items():
        now = scan.entries.get(path)
        if now is not None and now.kind == "file":
            continue
        if now is None and scan.is_unknown(path):
            if is_below(path, scan.unread):
                plan.kept[path] = seen.entry
        elif now is None and not removes and not any(_is_other(scan, parent) for parent in parents(path)):
            plan.kept[path] = seen.entry
        elif not seen.key:
            continue
        elif now is not None or any(_is_file(scan, parent) for parent in parents(path)):
            plan.clear.append(path)
        elif seen.ours:
            plan.delete.append(path)


def _is_other(scan: Scan, path: bytes) -> bool:
    """Whether it is there and nothing can be beneath it."""
    entry = scan.entries.get(path)
    return entry is not None and entry.kind != "directory"


def _is_file(scan: Scan, path: bytes) -> bool:
    entry = scan.entries.get(path)
    return entry is not None and entry.kind == "file"


def baseline_of(remote: Remote) -> dict[bytes, Seen]:
    """What the store has, as the starting point of a mirror whose directory was filled by someone else."""
    named = remote.named
    return {path: Seen(entry, remote.keys.get(path, ""), ours=path in named) for path, entry in remote.entries.items()}
