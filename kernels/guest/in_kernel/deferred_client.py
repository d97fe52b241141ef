"""jupyter_client's package, complete only when somebody imports it: a kernel has no use for its clients and managers.

They are a tenth of a kernel's start. Loaded by `kernel_main.py` from its directory, before ipykernel. Needs the
standard library and nothing of Sandcell's.

Of the package, ipykernel takes a few modules, which stay imported. The package itself is not in `sys.modules`, so that
the next import of it, or of a module that is not there yet, goes Python's usual way and runs the package's `__init__`
first, with Python's own locks. Only `importlib.reload` of one of those few modules asks for an import of the package.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

PACKAGE = "jupyter_client"
TAKEN_FROM = ("_version", "connect")
"""The package's modules that have what ipykernel, and its own other modules, take from the package itself."""


def defer() -> None:
    """Import what kernels take of the package, and leave the package to the next one who imports it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or PACKAGE in sys.modules or not isinstance(spec.loader, SourceFileLoader):
        return
    rest = Rest(spec)
    sys.modules[PACKAGE] = rest.package
    # Where another version takes more than is there yet, these imports end early. Those of kernel_main then find the
    # package like everybody else: complete.
    with suppress(ImportError, AttributeError):
        rest.import_taken()
    del sys.modules[PACKAGE]
    sys.meta_path.insert(0, rest)


class Rest(SourceFileLoader):
    """Finds the package for Python's `import`, and completes the module that ipykernel has."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name, str(spec.origin))
        self._spec = spec
        self._complete = False
        spec.loader = self
        self.package = ModuleType(PACKAGE)
        self.package = importlib.util.module_from_spec(spec)

    def import_taken(self) -> None:
        """Import the modules that kernels take, and those of ipykernel that keep the package or take from it."""
        for name in TAKEN_FROM:
            taken = vars(importlib.import_module(f"{PACKAGE}.{name}"))
            for each in taken.get("__all__") or [each for each in taken if "version" in each]:
                setattr(self.package, each, taken[each])
        importlib.import_module("ipykernel.kernelapp")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Called by Python for every module that is not imported yet."""
        return self._spec if name == PACKAGE and not self._complete else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Called by Python, which then puts it into `sys.modules`."""
        return self.package

    def exec_module(self, module: ModuleType) -> None:
        """Called by Python to run `__init__`; where that fails, again at the next import."""
        super().exec_module(module)
        self._complete = True  # this stays in `sys.meta_path`: another thread may be on its way through that list
