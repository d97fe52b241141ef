"""The service's view of a workspace: the same files, with the sandbox user's shown as the service's own.

An ID-mapped mount: what belongs to the sandbox's user on disk belongs to the service's user in the view, and what the
service makes there belongs to the sandbox's user on disk. No other owner is mapped. Links are not followed in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kernels.errors import SandboxFailed
from kernels.oci import mounts

_ATTRIBUTES: Final = mounts.IDMAP | mounts.NOSUID | mounts.NODEV | mounts.NOEXEC | mounts.NOSYMFOLLOW
_SECONDS: Final = 10


def mount_view(workspace: Path, view: Path, *, user: int, service: int) -> None:
    """Show `workspace`, whose files are `user`'s, at `view`, where they are `service`'s. Raises `SandboxFailed`."""
    try:
        view.mkdir(mode=0o700, exist_ok=True)
        with _user_namespace(user, service) as namespace, mounts.copied(workspace) as tree:
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


@contextlib.contextmanager
def _user_namespace(inside: int, outside: int) -> Iterator[int]:
    """A descriptor of a user namespace that maps one id; the process that made it is gone at the end."""
    with subprocess.Popen(
        ["unshare", "--user", "sh", "-c", "echo; read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    ) as holder:
        try:
            if not select.select([holder.stdout], [], [], _SECONDS)[0] or not holder.stdout.read(1):  # type: ignore[union-attr,type-var]
                raise SandboxFailed("a user namespace cannot be made; `sandcell doctor` says whether they are allowed")
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{holder.pid}/{kind}").write_text(f"{inside} {outside} 1")
            namespace = os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            holder.kill()
            holder.wait(_SECONDS)
    try:
        yield namespace
    finally:
        os.close(namespace)
