"""Becomes the service: gives up all that root has, then runs its command. Started by the launcher for each start.

Run as a script with the number of a descriptor that holds a `Confinement`. What it gives up does not come back: user
and groups, capabilities with their bounding set, the means to regain them (`no_new_privs`), and root's keys. The
service gets a mount namespace of its own, without the mounts of sandboxes, in which directories that only root may
enter are replaced by ones that hold nothing but what the service needs of them. It dies with the launcher.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import resource
import signal
import sys
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    # Run by its path and isolated, so that nothing but this installation is on the path.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from kernels import system_calls
from kernels.launcher import mount_namespace
from kernels.launcher.handover import Confinement, read_back

_PR_SET_PDEATHSIG: Final = 1
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_MOST_CAPABILITIES: Final = 64
_KEYCTL: Final = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING: Final = 1
_NO_KEYS: Final = (errno.ENOSYS, errno.EPERM)
"""A kernel without keys, and a filter around this process that allows none."""


def main(descriptor: int) -> None:
    """Confine this process and become the service; on failure say why and end with the plan's status."""
    plan = Confinement.decode(read_back(descriptor))
    os.close(descriptor)
    try:
        # In this order. The group is entered and the mounts are made as root. The signal at the launcher's end is asked
        # for after the change of user, which clears it. What must be in reach is tried as the user who needs it.
        if plan.group:
            Path(plan.group).write_text("0")
        if not plan.alone:
            mount_namespace.enter(plan)
        open_as_many_files_as_allowed()
        if plan.alone:
            require_no_privileges(Path("/proc/self/status").read_text())
        else:
            give_up_privileges(plan.uid)
        system_calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        die_with(plan.parent)
        mount_namespace.require_reach(plan.reach)
        os.chdir(plan.directory)
        os.execv(plan.command[0], plan.command)  # noqa: S606 - a list, and no shell
    except OSError as error:
        sys.stderr.write(f"sandcell: the service cannot be started as the user {plan.uid}: {error}\n")
        sys.exit(plan.refusal)


def open_as_many_files_as_allowed() -> None:
    """A hundred and more are open for a busy session; the usual limit of 1,024 would be a few sessions'."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def give_up_privileges(uid: int) -> None:
    """User, groups, capabilities, and every way back."""
    # The bounding set first: it takes a capability to drop from it, and the change of user below costs all of them.
    system_calls.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    for number in range(_MOST_CAPABILITIES):
        try:
            system_calls.prctl(_PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno == errno.EINVAL:  # the kernel knows no more of them
                break
            raise OSError(error.errno, f"a capability cannot be dropped: {error.strerror}") from None
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _leave_keyring()


def require_no_privileges(status: str) -> None:
    """Raises PermissionError for a process that is root or has a capability, by its file `status` in /proc."""
    users = re.search(r"^Uid:\t(.*)$", status, re.MULTILINE)
    held = re.findall(r"^(CapPrm|CapEff|CapAmb):\t0*[1-9a-f][0-9a-f]*$", status, re.MULTILINE)
    if held or users is None or "0" in users[1].split():
        raise PermissionError(errno.EPERM, "it is to be started as root, or without any capability")


def die_with(parent: int) -> None:
    """Have the kernel end this process when the launcher ends, however it does."""
    system_calls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above, of which no signal tells any more
        os._exit(1)


def _leave_keyring() -> None:
    """Join a new session keyring: a process that holds root's may read the keys in it, whatever its user."""
    try:
        system_calls.call(_KEYCTL[platform.machine()], _JOIN_SESSION_KEYRING, None)
    except OSError as error:
        if error.errno not in _NO_KEYS:
            raise OSError(error.errno, f"root's session keyring cannot be left: {error.strerror}") from None


if __name__ == "__main__":
    main(int(sys.argv[1]))
