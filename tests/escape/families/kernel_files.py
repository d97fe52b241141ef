"""Attempts of the family kernel_files."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family("kernel_files", "/proc, /sys, cgroup files, release_agent, core_pattern, sysrq, kcore", ())
