"""Attempts of the family observation."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("observation", "ptrace, process_vm_readv, bpf, perf, io_uring, userfaultfd", ())
