"""User namespaces that are made before what is to be in them: of a sandbox, and of the view of a workspace.

The kernel charges what a namespace's users hold (inotify instances and watches, pending signals and timers, POSIX
queues, locked memory) also to the namespace's owner on the host. A runtime would make a sandbox's namespace as root:
then one sandbox could use up what root and every other sandbox have. So it belongs to the sandbox's own uid.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kernels.errors import SandboxFailed

_DEADLINE_SECONDS: Final = 10


@contextmanager
def owned_by(uid: int, ids: int) -> Iterator[str]:
    """The path of a new namespace, owned by the host's `uid`, in which 0 to `ids` - 1 are the host's from `uid` on.

    It lasts as long as something is in it, or as this context.
    """
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    # The one capability that hosts may demand of a process that makes a namespace.
    keep = ["--inh-caps=+sys_admin", "--ambient-caps=+sys_admin"]
    with _make([*become, *keep], f"0 {uid} {ids}") as place:
        yield place


@contextmanager
def of_one(inside: int, outside: int) -> Iterator[int]:
    """A descriptor of a new namespace, root's, in which `inside` is the host's `outside` and there is no other id."""
    with _make([], f"{inside} {outside} 1") as place:
        namespace = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield namespace
    finally:
        os.close(namespace)


@contextmanager
def _make(by: list[str], ids: str) -> Iterator[str]:
    """The path of a namespace with this map of uids and gids, while the process that made it is there."""
    holder = _start(by)
    try:
        try:
            if not _has_become(holder):
                raise SandboxFailed(f"no user namespace could be made: {_last_words(holder)}")
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{holder.pid}/{kind}").write_text(f"{ids}\n")
        except OSError as error:
            raise SandboxFailed(f"no user namespace could be made: {error}") from error
        yield f"/proc/{holder.pid}/ns/user"
    finally:
        holder.kill()
        holder.communicate()


def _start(by: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [*by, "unshare", "--user", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise SandboxFailed(f"{error.filename} is not installed; install the package util-linux") from None


def _has_become(holder: subprocess.Popen[bytes]) -> bool:
    """Wait for its echo: what it shall become it is then. It ends with its input, also when this process is killed."""
    if holder.stdin is None or holder.stdout is None:
        return False
    holder.stdin.write(b"\n")
    return bool(select.select([holder.stdout], [], [], _DEADLINE_SECONDS)[0] and holder.stdout.read(1))


def _last_words(holder: subprocess.Popen[bytes]) -> str:
    holder.kill()
    said = holder.communicate()[1].decode(errors="replace").strip()[-500:] or "no answer in time"
    return f"{said}; `sandcell doctor` says whether they are allowed"
