"""Errors of the workspace_sync package.

Tree:

    WorkspaceSyncError
    ├── StoreError               the durable side
    │   ├── StoreUnavailable     it does not answer; retryable
    │   ├── StoreFull            it has no room left; retryable once there is room
    │   ├── StoreRefused         it answered no: a key in the way, a request it does not know
    │   │   ├── StoreUnusable        to everything: no such bucket, credentials wrong or expired, a clock that differs
    │   │   └── PermissionMissing    the credentials do not allow it; carries `permissions`
    │   └── ObjectNotFound       no such object
    ├── BadStoreUrl              the store's URL means nothing to us
    ├── IllegalName              a path or key that no workspace can hold
    ├── PathConflict             a file where a directory has to be, or the reverse
    │   └── AlreadyThere         other content has the paths that something is copied to; carries the `paths`
    ├── NotAsExpected            a durable file is not what its caller expects; carries its `sha256`
    ├── ManifestUnreadable       `manifest.json` is not a manifest
    ├── WorkspaceTooLarge        more names than a manifest may hold
    ├── DirectoryUnusable        the live directory is gone, replaced or failing
    │   └── DirectoryFull        the durable files do not fit into it
    ├── NotRestored              a flush before the restore that was begun is complete
    ├── RestoreIncomplete        the restore is not complete in time; retryable
    ├── FlushIncomplete          the deadline came first; carries what is `left`; retryable
    └── MirrorClosed             the mirror was closed while someone waited on it

`retryable` says whether the same call may succeed when made again unchanged. No message carries a secret.
"""

from __future__ import annotations

import errno
from typing import Final

NAMED_AT_MOST = 10
"""How many paths a message names before it only counts them."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says where there is no room left."""


class WorkspaceSyncError(Exception):
    """Root of this package's errors."""

    retryable = False


class StoreError(WorkspaceSyncError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The store does not answer; the message says which one and what to do."""

    retryable = True


class StoreFull(StoreError):
    """The store has no room left."""

    retryable = True


class StoreRefused(StoreError):
    """The store answered no."""


class StoreUnusable(StoreRefused):
    """The store refuses us altogether, so one request's answer holds for all: bucket, credentials, region, clock."""


class PermissionMissing(StoreRefused):
    """The credentials do not allow something; `permissions` names it as S3 does (`s3:PutObject`)."""

    def __init__(self, message: str, permissions: tuple[str, ...]) -> None:
        super().__init__(message)
        self.permissions = permissions


class ObjectNotFound(StoreError):
    """No object under this key."""


class BadStoreUrl(WorkspaceSyncError):
    """The store's URL is not one `open_store` knows."""


class IllegalName(WorkspaceSyncError):
    """A path that is empty, absolute, climbs out, holds NUL or is too long."""


class PathConflict(WorkspaceSyncError):
    """A file stands where a directory has to be, or the reverse."""


class AlreadyThere(PathConflict):
    """Something is to be copied to `paths` where other content is."""

    def __init__(self, paths: list[str]) -> None:
        named = ", ".join(map(repr, paths[:NAMED_AT_MOST]))
        more = f" and {len(paths) - NAMED_AT_MOST} more" if len(paths) > NAMED_AT_MOST else ""
        super().__init__(f"there already, with other content: {named}{more}; copy with overwrite, or elsewhere")
        self.paths = paths


class NotAsExpected(WorkspaceSyncError):
    """A durable file is not what its caller expects; `sha256` is what it is, empty when it is not there."""

    def __init__(self, message: str, sha256: str) -> None:
        super().__init__(message)
        self.sha256 = sha256


class ManifestUnreadable(WorkspaceSyncError):
    """`manifest.json` is not a manifest."""


class WorkspaceTooLarge(WorkspaceSyncError):
    """The directory holds more names than a manifest may."""


class DirectoryUnusable(WorkspaceSyncError):
    """The live directory is gone, was replaced by another, or fails."""


class DirectoryFull(DirectoryUnusable):
    """The durable files do not fit into the live directory."""


class NotRestored(WorkspaceSyncError):
    """A restore was begun and is not complete, so nothing may be flushed over what is durable."""


class RestoreIncomplete(WorkspaceSyncError):
    """A restore is not complete in time, or the store does not give what is missing; the message says how far it is."""

    retryable = True


class FlushIncomplete(WorkspaceSyncError):
    """A flush did not complete in time; `left` names the paths not yet written, as text."""

    retryable = True

    def __init__(self, reason: str, left: tuple[str, ...]) -> None:
        named = ", ".join(left[:NAMED_AT_MOST])
        more = f" and {len(left) - NAMED_AT_MOST} more" if len(left) > NAMED_AT_MOST else ""
        super().__init__(f"{reason}; left to write: {named}{more}" if left else reason)
        self.left = left


class MirrorClosed(WorkspaceSyncError):
    """The mirror was closed while someone waited on it."""
