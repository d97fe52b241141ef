"""Attempts of the family neighbours."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("neighbours", "other sessions' files, sockets, processes, memory, signals", ())
