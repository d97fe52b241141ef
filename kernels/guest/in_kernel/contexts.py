"""Where code runs, and with what: namespaces of their own, a working directory, environment variables.

Loaded by `kernel_main.py` from its directory at the first request, and called in its control thread while no code runs.
Contexts share the process, so imported modules are one; names, `__main__` and what `_` is are each context's own.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DEFAULT = ""


class Contexts:
    """The namespaces of one kernel's shell; the one that it began with is the default.

    Names are kept for the next kernel from the default one alone, wherever code ran last.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._default = shell.user_module, shell.user_ns, shell.user_ns_hidden
        self._current = DEFAULT
        self._kept: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {}
        self._entered: set[str] = set()
        self._directories: dict[str, str] = {}
        self._replaced: dict[str, str | None] = {}

    def handle(self, content: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the service's: forget what it names, then enter its context."""
        for name in content.get("forget", []):
            self._forget(str(name))
        if "context" in content:
            self._enter(str(content["context"]), str(content["directory"]), content["variables"])
        return {"status": "ok"}

    @contextmanager
    def open_default(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The default context's names and what of them is hidden, while its module is `__main__`, as pickle has it."""
        module, names, hidden = self._default
        sys.modules["__main__"] = module
        try:
            yield names, hidden
        finally:
            sys.modules["__main__"] = self._shell.user_module

    def _enter(self, name: str, directory: str, variables: dict[str, str]) -> None:
        """Make a context the one that code runs in, made when it is new, with these variables and no earlier ones."""
        self._set_variables(variables)
        if name != self._current:
            shell = self._shell
            if self._current in self._entered:
                self._directories[self._current] = _find_directory()
            self._kept[self._current] = shell.user_module, shell.user_ns, shell.user_ns_hidden
            self._current = name
            if name in self._kept:
                self._install(*self._kept.pop(name))
            else:
                self._install_new()
            _change_directory(self._directories.pop(name, directory))
        elif name not in self._entered:
            _change_directory(directory)
        self._entered.add(name)

    def _forget(self, name: str) -> None:
        """Let go of a context's names; entered once more it is blank."""
        if name == self._current:
            self._install_new()
        self._kept.pop(name, None)
        self._directories.pop(name, None)
        self._entered.discard(name)

    def _install_new(self) -> None:
        module = types.ModuleType("__main__", "Namespace of one context")
        module.__dict__["__builtins__"] = sys.modules["builtins"]
        self._install(module, module.__dict__, {})
        self._shell.init_user_ns()

    def _install(self, module: Any, names: dict[str, Any], hidden: dict[str, Any]) -> None:
        shell = self._shell
        shell.user_module, shell.user_ns, shell.user_ns_hidden = module, names, hidden
        sys.modules["__main__"] = module
        shell.set_completer_frame()

    def _set_variables(self, variables: dict[str, str]) -> None:
        """What was set before and is not among them gets the value that it had."""
        for name in [each for each in self._replaced if each not in variables]:
            before = self._replaced.pop(name)
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before
        for name, value in variables.items():
            self._replaced.setdefault(name, os.environ.get(name))
            os.environ[name] = value


def _find_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _change_directory(directory: str) -> None:
    if directory:
        os.chdir(directory)
