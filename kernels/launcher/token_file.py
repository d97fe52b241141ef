"""The first token, saved for the user who started the service: into a file that only the launcher has open."""

from __future__ import annotations

import json
import os

from kernels.errors import LauncherRefused
from kernels.launcher.plan import TokenPlan


class TokenFile:
    """One file for the launcher's whole life. It takes one token; a service that begins again may repeat it."""

    def __init__(self, plan: TokenPlan) -> None:
        self._plan = plan
        self._saved: str | None = None

    def save(self, token: str) -> None:
        """Write it; raises `LauncherRefused` for a second one, and `OSError`."""
        if self._saved not in (None, token):
            raise LauncherRefused("another token is saved already")
        plan, self._saved = self._plan, token
        if plan.descriptor < 0:
            raise OSError(0, plan.error)
        os.ftruncate(plan.descriptor, 0)
        os.pwrite(plan.descriptor, f"{plan.before}{json.dumps(token)}{plan.after}".encode(), 0)
