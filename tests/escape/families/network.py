"""Attempts of the family network."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("network", "network", ())
