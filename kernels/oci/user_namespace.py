"""The user namespace of a sandbox, made before its container so that it belongs to the sandbox's own uid.

The kernel charges what a namespace's users hold (inotify instances and watches, pending signals and timers, POSIX
queues, locked memory) also to the namespace's owner on the host. A runtime would make the namespace as root: then one
sandbox could use up what root and every other sandbox have.
"""

from __future__ import annotations

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
    holder = _start(uid)
    try:
        if not _has_become(holder):
            raise SandboxFailed(f"no user namespace could be made: {_last_words(holder)}")
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{holder.pid}/{kind}").write_text(f"0 {uid} {ids}\n")
        yield f"/proc/{holder.pid}/ns/user"
    except OSError as error:
        raise SandboxFailed(f"no user namespace could be made: {error}") from error
    finally:
        holder.kill()
        holder.communicate()


def _start(uid: int) -> subprocess.Popen[bytes]:
    """Become the uid, keeping the one capability that hosts may ask of whoever makes a namespace; then make it."""
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    keep = ["--inh-caps=+sys_admin", "--ambient-caps=+sys_admin"]
    try:
        return subprocess.Popen(
            [*become, *keep, "unshare", "--user", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            start_new_session=True,
        )
    except FileNotFoundError:
        raise SandboxFailed("setpriv is not installed; install the package util-linux") from None


def _has_become(holder: subprocess.Popen[bytes]) -> bool:
    """Wait for its echo: what it shall become it is then. It ends with its input, also when this process is killed."""
    if holder.stdin is None or holder.stdout is None:
        return False
    holder.stdin.write(b"\n")
    return bool(select.select([holder.stdout], [], [], _DEADLINE_SECONDS)[0] and holder.stdout.read(1))


def _last_words(holder: subprocess.Popen[bytes]) -> str:
    holder.kill()
    return holder.communicate()[1].decode(errors="replace").strip()[-500:] or "no answer in time"
