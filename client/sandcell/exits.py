"""What the exit status of `sandcell` says, and which error means which."""

from __future__ import annotations

from sandcell import ConnectionFailed, InvalidRequest, SandcellError, StillRunning, Unauthorized

OK = 0
CODE_FAILED = 1
USAGE = 2
NO_SERVICE = 3
TIMED_OUT = 4
INTERRUPTED = 5
DIED = 6
REFUSED = 7

MEANINGS = {
    OK: "done",
    CODE_FAILED: "the code raised an exception, the command failed, or a notebook or the audit log is not as it was",
    USAGE: "wrong usage",
    NO_SERVICE: "the service cannot be reached, or refuses the token",
    TIMED_OUT: "the execution's time was up",
    INTERRUPTED: "interrupted",
    DIED: "the kernel died: out of memory, a signal, an exit",
    REFUSED: "the service refused the request, or cannot start; the message says why",
}

OF_STATUS = {
    "ok": OK,
    "error": CODE_FAILED,
    "timeout": TIMED_OUT,
    "interrupted": INTERRUPTED,
    "died": DIED,
    "rejected": REFUSED,
}


def of_error(error: SandcellError) -> int:
    """The exit status for an error of the client."""
    if isinstance(error, ConnectionFailed | Unauthorized):
        return NO_SERVICE
    if isinstance(error, InvalidRequest) and error.code == "invalid_url":
        return USAGE
    return TIMED_OUT if isinstance(error, StillRunning) else REFUSED


def explain() -> str:
    """The table, for `--help`."""
    return "\n".join(["\b", "Exit status:", *(f"  {status}  {meaning}" for status, meaning in MEANINGS.items())])
