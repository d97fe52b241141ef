"""Attempts of the family guest."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("guest", "the guest: kill, ptrace, its socket, its memory, its binary through /proc/self/exe", ())
