"""Attempts of the family resources."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("resources", "resource attacks", ())
