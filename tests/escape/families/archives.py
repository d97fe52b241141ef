"""Attempts of the family archives."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("archives", "deep directories and zip bombs in the archive route", ())
