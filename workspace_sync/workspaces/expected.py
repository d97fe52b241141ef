"""What a caller expects a durable file to be before it is changed (pure). Digests are SHA-256 in hexadecimal."""

from __future__ import annotations

import msgspec

from workspace_sync.errors import NotAsExpected
from workspace_sync.workspaces.file_info import FileInfo


class Expected(msgspec.Struct, frozen=True):
    """`any_of`: the file has one of these digests, or is there at all when there are none. `none_of`: the reverse.

    None: nothing is expected.
    """

    any_of: frozenset[str] | None = None
    none_of: frozenset[str] | None = None

    @property
    def needs_digest(self) -> bool:
        """Whether the file's digest has to be known."""
        return bool(self.any_of) or bool(self.none_of)

    def check(self, info: FileInfo | None) -> None:
        """Raise `NotAsExpected` unless the file, None when there is none, is as expected."""
        digest = info.sha256 if info is not None else ""
        if self.any_of is not None and (info is None or (self.any_of and digest not in self.any_of)):
            is_now = (
                f"its SHA-256 is {digest}" if digest else "it is not known" if info is not None else "it is not there"
            )
            raise NotAsExpected(f"the file is not what you expect: {is_now}", digest)
        if self.none_of is not None and info is not None and (not self.none_of or digest in self.none_of):
            raise NotAsExpected("the file is there already", digest)


ANYTHING = Expected()
