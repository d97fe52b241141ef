"""Attempts of the family host."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("host", "host files and environment", ())
