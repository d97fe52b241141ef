"""A directory mirrored to an object store.

Knows nothing of kernels, HTTP or principals. The directory is hostile: other processes write to it while it is read, so
no link in it is followed and no special file opened.
"""

from workspace_sync.errors import WorkspaceSyncError
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import AsOf
from workspace_sync.mirroring.flush import FlushReport
from workspace_sync.mirroring.mirror import Mirror, MirrorState
from workspace_sync.mirroring.restore import RestoreReport
from workspace_sync.store import ObjectStore, StoredObject, Written
from workspace_sync.stores.url import open_store
from workspace_sync.workspaces.archive import ArchiveLimits
from workspace_sync.workspaces.chunks import Chunks
from workspace_sync.workspaces.expected import ANYTHING, Expected
from workspace_sync.workspaces.file_info import FileInfo, Removed, WorkspaceSummary
from workspace_sync.workspaces.workspace import Bounds, DurableWorkspace

__all__ = [
    "ANYTHING",
    "ArchiveLimits",
    "AsOf",
    "Bounds",
    "Chunks",
    "DurableWorkspace",
    "Expected",
    "FileInfo",
    "FlushReport",
    "Mirror",
    "MirrorState",
    "ObjectStore",
    "Removed",
    "RestoreReport",
    "StoredObject",
    "TransferLimits",
    "WorkspaceSummary",
    "WorkspaceSyncError",
    "Written",
    "open_store",
]
