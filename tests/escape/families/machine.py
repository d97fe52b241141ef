"""Attempts on the machine itself: another kernel, modules, the clock, the host's name."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

FAMILY = Family(
    "machine",
    "kexec, modules, clock, hostname",
    (
        Attempt("set the host name", "syscall('sethostname', b'taken', 5)", "EPERM"),
        Attempt(
            "set the host name with a program",
            "hostname taken",
            "exit 1: hostname: you must be root to change the host name",
            "shell",
        ),
    ),
)
