"""Attempts of the family privileges."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("privileges", "setuid binaries, capabilities regained over exec, no_new_privs", ())
