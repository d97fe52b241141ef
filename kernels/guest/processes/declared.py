"""Kernels that the image declares: R's, Julia's, bash's, any that speaks Jupyter's protocol."""

from __future__ import annotations

import errno
import os
import string
from collections.abc import Callable

from ..options import Options
from .bridged import BridgedKernel
from .kernel import Event
from .reaper import Reaper


class DeclaredKernel(BridgedKernel):
    """One of them, by its name; `command` and `variables` are as its kernelspec has them."""

    name = "declared"
    file_prefix = "spec"

    def __init__(
        self, kernel: str, options: Options, reaper: Reaper, subscribers: set[Callable[[Event], None]]
    ) -> None:
        super().__init__(options, reaper, subscribers)
        self.labels = {"kernel": kernel}
        self.command: list[str] = []
        self.variables: dict[str, str] = {}

    def _prepare(self, generation: int, key: str) -> list[str]:
        file = self.write_connection(generation, key, self.labels["kernel"])
        program, *arguments = (each.replace("{connection_file}", file) for each in self.command)
        return [find_program(program, self._make_environment()["PATH"]), *arguments]

    def _make_environment(self) -> dict[str, str]:
        """What it sets may name what there is, as `${PATH}`."""
        there = super()._make_environment()
        return {**there, **{name: _fill_in(value, there) for name, value in self.variables.items()}}


def _fill_in(text: str, variables: dict[str, str]) -> str:
    return string.Template(text).safe_substitute(variables)


def find_program(name: str, path: str) -> str:
    """Where a program is; raises OSError (ENOENT) when it is nowhere on the path."""
    if "/" in name:
        return name
    for place in path.split(":"):
        program = f"{place}/{name}"
        if place.startswith("/") and os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise OSError(errno.ENOENT, f"there is no program {name}")
