"""Attempts of the family workspace."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("workspace", "links, hard links, renames, races, sockets, FIFOs and device nodes in the workspace", ())
