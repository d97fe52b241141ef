"""Attempts of the family call_tables."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("call_tables", "seccomp bypass by x32 and 32-bit calls", ())
