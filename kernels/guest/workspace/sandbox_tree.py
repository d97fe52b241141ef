"""All files of the sandbox, as its user may use them: for callers that name places outside the workspace.

What shows processes, devices and the guest itself is not among them: a thread of the guest's looks at those with more
rights than the user has.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress

from ..refusal import Refusal
from .files import Entry, Workspace
from .paths import directory, split_path

CLOSED = ("proc", "sys", "dev", "run")


class SandboxTree(Workspace):
    """Paths are relative to the root."""

    detailed = True
    closed = CLOSED

    def split(self, path: str) -> list[str]:
        """The components of a path; refuses those that are not for callers."""
        parts = split_path(path)
        if parts and parts[0] in self.closed:
            raise Refusal(403, "permission_denied", f"/{parts[0]} is not reached this way: let code look at it")
        return parts

    def directory(self, parts: list[str]) -> AbstractContextManager[int]:
        """A descriptor of the directory at these components of a path."""
        return directory(self._root, parts)

    def stat(self, path: str) -> Entry:
        """What is at this path; a link is described with its target, not followed."""
        found = super().stat(path)
        if found["kind"] == "link":
            parts = self.split(path)
            with directory(self._root, parts[:-1]) as parent, suppress(OSError):
                found["target"] = os.readlink(parts[-1], dir_fd=parent)
        return found

    def make_directory(self, path: str) -> Entry:
        """Make a directory and those above it that are missing; refuses one that is there already."""
        parts = self.split(path)
        with directory(self._root, parts[:-1], make=True) as parent:
            if not parts:
                raise FileExistsError(17, "it is there already")
            os.mkdir(parts[-1], dir_fd=parent)
        return self.stat(path)

    def remove(self, path: str, *, recursive: bool) -> None:
        """Remove what is at a path, as `Workspace` does; the root is not cleared."""
        if not self.split(path):
            raise Refusal(403, "permission_denied", "the root stays where it is")
        super().remove(path, recursive=recursive)

    def move(self, path: str, to: str) -> Entry:
        """Give what is at a path another one; a file that is there gives way."""
        old, new = self.split(path), self.split(to)
        if not old or not new:
            raise Refusal(403, "permission_denied", "the root stays where it is")
        with directory(self._root, old[:-1]) as source, directory(self._root, new[:-1], make=True) as target:
            os.rename(old[-1], new[-1], src_dir_fd=source, dst_dir_fd=target)
        return self.stat(to)
