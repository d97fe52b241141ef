"""Errors of the kernels package.

Tree:

    KernelsError
    ├── UnknownEnvironment       no such environment, or it has not been built
    ├── EnvironmentBuildFailed   the recipe did not become an image
    ├── RuntimeUnusable          this host cannot enforce what a sandbox needs
    ├── SandboxFailed            a sandbox could not be started or driven
    │   ├── NotListening         nobody listens on that socket of the sandbox, yet or any more
    │   ├── NotReached           the way to the sandbox is out, which says nothing of the sandbox
    │   └── SandboxGone          the sandbox is no longer there; its session needs a new one
    ├── LauncherRefused          the launcher does not do this for the service
    ├── KernelDied               the kernel ended while someone waited on it; carries a Death
    ├── GuestRefused             the guest said no; carries the code, message and status it gave
    ├── InvalidManifest          what was given as a notebook's manifest is none
    ├── InvalidNotebook          a notebook file cannot be read; the sentence names the cell
    └── DeadlineExceeded         one of this package's waits ran out

`retryable` says whether the same call may succeed when made again unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Death:
    """Why a kernel or its sandbox is gone.

    `cause` is one of `exit`, `signal`, `oom`, `deadline`, `sandbox`, `restart`. `exit_code` and
    `signal` hold what the system said (a signal by its name, `SIGSEGV`); memory figures are bytes.
    """

    cause: str
    detail: str
    exit_code: int | None = None
    signal: str | None = None
    memory_limit_bytes: int | None = None
    memory_peak_bytes: int | None = None


class KernelsError(Exception):
    """Root of this package's errors."""

    retryable = False


class UnknownEnvironment(KernelsError):
    """No such environment, or its image has not been built."""


class EnvironmentBuildFailed(KernelsError):
    """A recipe did not become an image; the message carries the failing step's last lines."""


class RuntimeUnusable(KernelsError):
    """This host cannot enforce what a sandbox needs; the message says what to do."""


class SandboxFailed(KernelsError):
    """A sandbox could not be started or driven."""

    retryable = True


class NotListening(SandboxFailed):
    """Nobody listens on that socket of the sandbox: not yet, or not any more."""


class NotReached(SandboxFailed):
    """What leads to the sandbox does not answer: whether anybody listens there, or the sandbox runs, is not known."""


class SandboxGone(SandboxFailed):
    """The sandbox is not there any more."""


class LauncherRefused(KernelsError):
    """The launcher, which alone is privileged, does not do this: it is no request, or one past its bounds."""


class KernelDied(KernelsError):
    """The kernel ended while someone waited on it."""

    def __init__(self, death: Death) -> None:
        super().__init__(death.detail)
        self.death = death


class GuestRefused(KernelsError):
    """The guest answered a request with a refusal.

    `code` is a stable word (`not_found`, `is_a_directory`, `no_space`, `invalid_path`, ...), `status` its HTTP status.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class InvalidManifest(KernelsError):
    """What was given as the manifest of a notebook is none, or one of another version."""


class InvalidNotebook(KernelsError):
    """A file is no notebook, or one that cannot be run; the message says what is wrong, and with which cell."""


class DeadlineExceeded(KernelsError):
    """A wait ran out before its answer came."""

    retryable = True
