"""What is in a workspace before and after a run, and what that says about the run. Pure.

A listing is bounded, and directories that programs keep for themselves are not looked into, so that what they hold does
not fill it. Of one that is not whole only what it has is known: what it lacks may be there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.librechat.identifiers import identify_file
from kernel_gateway.services.workspaces.files import is_private
from sandcell.models.workspaces import FileEntry

Version = tuple[int, str]
"""A file's size, and when it was changed."""


@dataclass(frozen=True)
class Listing:
    """The files of a workspace; `problem` says why it could not be listed."""

    files: list[FileEntry]
    whole: bool = True
    problem: GatewayError | None = None

    @cached_property
    def by_path(self) -> dict[str, FileEntry]:
        return {each.path: each for each in self.files}

    @cached_property
    def by_id(self) -> dict[str, FileEntry]:
        return {identify_file(each.path): each for each in self.files}

    @cached_property
    def _end(self) -> list[str]:
        """Up to here a cut one is known: a directory comes before what is in it, siblings by name."""
        return max((_place(each.path) for each in self.files), default=[])

    def reaches(self, path: str) -> bool:
        """Whether a file at this path would be in it."""
        return self.whole or _place(path) <= self._end


def find_made(before: Listing, after: Listing, began: str) -> list[FileEntry]:
    """Files that were made or changed, in the order in which they were.

    Those that the listing before does not reach count by when they were changed: since the run `began`.
    """
    made = []
    for each in after.files:
        known = before.by_path.get(each.path)
        old = known is not None and version_of(known) == version_of(each)
        unknown = known is None and not before.reaches(each.path)
        if not old and (not unknown or each.modified_at >= began) and not is_private(each.path):
            made.append(each)
    return sorted(made, key=lambda each: each.modified_at)


def find_gone(before: Listing, after: Listing, paths: Iterable[str]) -> set[str]:
    """Those of these paths that had a file and have none now; nothing is said where the listing was cut."""
    return {path for path in paths if after.whole and path in before.by_path and path not in after.by_path}


def version_of(file: FileEntry) -> Version:
    return file.size, file.modified_at


def _place(path: str) -> list[str]:
    return path.split("/")
