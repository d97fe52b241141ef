"""Attempts of the family devices."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("devices", "keyrings, devices, raw sockets", ())
