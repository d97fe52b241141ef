"""jupyter_client's package, complete only when somebody asks for it: a kernel has no use for its clients and managers.

They are a tenth of a kernel's start. Loaded by `kernel_main.py` from its directory, before ipykernel. Needs the
standard library and nothing of Sandcell's.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from importlib.machinery import SourceFileLoader
from typing import Any

PACKAGE = "jupyter_client"
TAKEN_BY_KERNELS = ("find_connection_file", "write_connection_file")
"""What ipykernel takes from the package itself; the module `connect` has it."""


def defer() -> None:
    """Put a package in place of the real one that has the same modules, and runs the real one's `__init__` late."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or PACKAGE in sys.modules or not isinstance(spec.loader, SourceFileLoader):
        return
    package: Any = importlib.util.module_from_spec(spec)
    rest = Rest(package, spec.loader)
    package.__getattr__ = rest.find
    package.__dir__ = rest.list_names
    sys.modules[PACKAGE] = package


class Rest:
    """What the package's `__init__` defines."""

    def __init__(self, package: Any, loader: SourceFileLoader) -> None:
        self._package = package
        self._loader = loader
        self._lock = threading.RLock()
        self._under_way = False

    def find(self, name: str) -> Any:
        """Called by Python for an attribute that the package does not have yet."""
        if name in TAKEN_BY_KERNELS:
            return getattr(importlib.import_module(f"{PACKAGE}.connect"), name)
        self._complete()
        try:
            return vars(self._package)[name]
        except KeyError:
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}") from None

    def list_names(self) -> list[str]:
        """Called by Python for `dir`."""
        self._complete()
        return sorted(vars(self._package))

    def _complete(self) -> None:
        names = vars(self._package)
        with self._lock:  # another thread may be at it
            if self._under_way or "__getattr__" not in names:
                return
            self._under_way = True
            try:
                self._loader.exec_module(self._package)
                del names["__getattr__"], names["__dir__"]
            finally:
                self._under_way = False
