"""The service's view of a workspace: the same files, with the sandbox user's shown as the service's own.

An ID-mapped mount: what belongs to the sandbox's user on disk belongs to the service's user in the view, and what the
service makes there belongs to the sandbox's user on disk. No other owner is mapped. Links are not followed in it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from kernels.errors import SandboxFailed
from kernels.oci.namespaces import mounts, user_namespace

_ATTRIBUTES: Final = mounts.IDMAP | mounts.NOSUID | mounts.NODEV | mounts.NOEXEC | mounts.NOSYMFOLLOW


def mount_view(workspace: Path, view: Path, *, user: int, service: int) -> None:
    """Show `workspace`, whose files are `user`'s, at `view`, where they are `service`'s. Raises `SandboxFailed`."""
    try:
        view.mkdir(mode=0o700, exist_ok=True)
        with user_namespace.of_one(user, service) as namespace, mounts.clone(workspace) as tree:
            mounts.set_attributes(tree, _ATTRIBUTES, namespace)
            mounts.place(tree, view)
    except OSError as error:
        raise SandboxFailed(f"the service's view of the workspace cannot be mounted: {error}") from None


def unmount_view(view: Path) -> None:
    """Take the view away, at once whatever still has it open; absent is fine."""
    mounts.detach(view)
    with contextlib.suppress(FileNotFoundError):
        view.rmdir()


def shows(view: Path, service: int) -> bool:
    """Whether the view is mounted and made for this service's user."""
    try:
        return view.is_mount() and view.stat().st_uid == service
    except OSError:
        return False
