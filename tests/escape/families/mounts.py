"""Attempts of the family mounts."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("mounts", "mount, unshare, setns, pivot_root, chroot", ())
