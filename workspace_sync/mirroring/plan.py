"""What a workspace's store holds, and what has to move (pure).

The rule for restore and list: the objects decide which files there are and what they hold; the manifest adds what
objects cannot say. A file of the manifest without its object was removed by someone and is gone; an object the manifest
does not know was dropped by someone and is a file of mode 644. When a path is both a file and a directory, the
directory wins. Of two keys for one path, the one we would write wins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from workspace_sync.directory.safe_open import split
from workspace_sync.directory.scan import Scan
from workspace_sync.entry import ENTRIES, Entry, clamp_nanoseconds
from workspace_sync.errors import IllegalName
from workspace_sync.manifest import AsOf, Manifest, Skipped
from workspace_sync.mirroring.baseline import Baseline, Seen
from workspace_sync.names import LONG, escape, key_of, parents, path_of
from workspace_sync.store import StoredObject
from workspace_sync.table import Codec, Table

KEYS = Codec[str](
    lambda path, key: b"" if key == key_of(path) else key.encode("utf-8", "surrogatepass"),
    lambda path, data: data.decode("utf-8", "surrogatepass") or key_of(path),
)
SAME_PATH = "another key holds the same path"


@dataclass
class Remote:
    """The workspace as the store has it: entries by path, the key of each file."""

    entries: Table[Entry] = field(default_factory=lambda: Table(ENTRIES))
    keys: Table[str] = field(default_factory=lambda: Table(KEYS))
    skipped: list[Skipped] = field(default_factory=list)
    as_of: str = ""
    execution: AsOf | None = None
    unnamed: set[bytes] = field(default_factory=set)
    """What the manifest does not have."""


@dataclass
class FlushPlan:
    """What one flush does, in this order: `clear` keys in the way, `send` files, `delete` keys, write the manifest.

    Directories and links are in that alone: `others` from now on, those that are `gone` no more.
    """

    clear: list[bytes] = field(default_factory=list)
    gone: list[bytes] = field(default_factory=list)
    send: list[bytes] = field(default_factory=list)
    delete: list[bytes] = field(default_factory=list)
    others: list[Entry] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def merge(manifest: Manifest, objects: Iterable[StoredObject]) -> Remote:
    """The manifest and the listed objects (keys relative to the workspace's files) by the rule above."""
    remote = Remote(manifest.entries.copy(), as_of=manifest.as_of, execution=manifest.execution)
    remote.skipped.extend(manifest.skipped)
    hashed = {key: path for path in manifest.entries if (key := key_of(path)).startswith(LONG)}
    folders = []
    for stored in objects:
        try:
            if stored.key.endswith("/"):  # a folder marker, as S3 consoles make them
                folders.append(_folder(stored))
            else:
                _add_object(remote, manifest, stored, hashed)
        except IllegalName as error:
            remote.skipped.append(Skipped(ascii(stored.key), str(error)))
    for path, entry in manifest.entries.items():
        if entry.kind == "file" and path not in remote.keys:
            del remote.entries[path]
    for path in folders:
        known = remote.entries.get(path)
        if path not in remote.keys and (known is None or known.kind != "directory"):
            remote.entries[path] = Entry(path, "directory", mode=0o755)
    _let_directories_win(remote)
    remote.keys.pack()
    remote.unnamed = {path for path in remote.entries if path not in manifest.entries}
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
    for path, entry in scan.entries.items():
        seen = baseline.get(path)
        if entry.kind != "file":
            if seen is None or seen.entry != entry or not seen.ours:
                plan.others.append(entry)
            continue
        if entry.size > room:
            plan.skipped.append(Skipped(escape(path), f"does not fit into the {workspace_bytes} bytes of a workspace"))
            continue
        room -= entry.size
        signature = scan.signatures[path]
        if seen is None or seen.signature != signature or signature.ctime_ns >= read_since_ns:
            plan.send.append(path)
    _plan_removal(plan, baseline, scan, removes=removes)
    return plan


def _add_object(remote: Remote, manifest: Manifest, stored: StoredObject, hashed: Mapping[str, bytes]) -> None:
    path = hashed.get(stored.key) if stored.key.startswith(LONG) else path_of(stored.key)
    if path is None:
        raise IllegalName("a hashed key that the manifest does not know")
    other = remote.keys.get(path)
    if other is not None:
        if other == key_of(path) or stored.key != key_of(path):
            raise IllegalName(SAME_PATH)
        remote.skipped.append(Skipped(ascii(other), SAME_PATH))
    known = manifest.entries.get(path)
    if known is not None and known.kind == "file" and known.size == stored.size:
        entry = known if _same_object(known, stored) else replace(known, sha256="", etag=stored.etag, version_id="")
    else:
        mode = known.mode if known is not None and known.kind == "file" else 0o644
        entry = Entry(path, "file", stored.size, clamp_nanoseconds(int(stored.modified * 1e9)), mode, etag=stored.etag)
    if other is not None or entry is not known:
        remote.entries[path] = entry
    path = path if known is None else known.path  # one object for all tables
    remote.keys[path] = stored.key


def _folder(stored: StoredObject) -> bytes:
    path = path_of(stored.key.rstrip("/"))
    if path is None:
        raise IllegalName("a folder below the hashed keys")
    return path


def _same_object(entry: Entry, stored: StoredObject) -> bool:
    """Whether the manifest speaks of these bytes, as far as the store tells; else their digest is not known."""
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
        remote.entries[path] = Entry(path, "directory", mode=0o755)


def _plan_removal(plan: FlushPlan, baseline: Mapping[bytes, Seen], scan: Scan, *, removes: bool) -> None:
    """Sort what the directory no longer has: keys in the way of new ones go first.

    What could not be looked at stays.
    """
    for path, seen in baseline.items():
        now = scan.entries.get(path)
        if now is None and (scan.is_unknown(path) or not (removes or any(_is_other(scan, up) for up in parents(path)))):
            continue
        if not seen.key:
            if now is None or now.kind == "file":
                plan.gone.append(path)
        elif now is None and not any(_is_file(scan, parent) for parent in parents(path)):
            if seen.ours:
                plan.delete.append(path)
        elif now is None or now.kind != "file":
            plan.clear.append(path)


def _is_other(scan: Scan, path: bytes) -> bool:
    """Whether it is there and nothing can be beneath it."""
    entry = scan.entries.get(path)
    return entry is not None and entry.kind != "directory"


def _is_file(scan: Scan, path: bytes) -> bool:
    entry = scan.entries.get(path)
    return entry is not None and entry.kind == "file"


def baseline_of(remote: Remote) -> Baseline:
    """What the store has, as the starting point of a mirror whose directory was filled by someone else."""
    baseline = Baseline()
    for path, entry in remote.entries.items():
        baseline[path] = Seen(entry, remote.keys.get(path, ""), ours=path not in remote.unnamed)
    return baseline
