"""What asyncio and tornado import that the guest has no use for, a fifth of its start.

OpenSSL: it speaks over Unix sockets, and carries bytes; hashes are Python's own where it has them. Of tornado:
templates, languages, a server's processes, the colours of a log. Of `http.client`, and with it most of `email`, all but
the names of statuses. In the place of each is a module with the names that are taken from it, and nothing behind any
other.
"""

from __future__ import annotations

import http
import importlib
import importlib.util
import logging
import sys
import types
from typing import Any

_HASHES = ("_md5", "_sha1", "_sha3", "_blake2")


class Absent(Exception):
    """Whatever such a module would have: no object is an instance of it, and nothing raises it."""

    SERVER_AUTH = CLIENT_AUTH = None
    options = 0


class LeftOut(types.ModuleType):
    """In the place of a module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "OP_")):
            raise AttributeError(name)
        return Absent


def leave_out(*, tls: bool) -> None:
    """Have what is imported from now on do without these, and without OpenSSL unless `tls` is spoken."""
    _replace("http.client", responses={status: status.phrase for status in http.HTTPStatus})
    for name in ("tornado.locale", "tornado.process", "tornado.template"):
        _replace(name)
    loggers = {"access_log": "access", "app_log": "application", "gen_log": "general"}
    _replace("tornado.log", **{name: logging.getLogger(f"tornado.{logger}") for name, logger in loggers.items()})
    if tls:
        return
    _replace("ssl")
    if all(importlib.util.find_spec(name) for name in _HASHES):
        sys.modules["_hashlib"] = None  # type: ignore[assignment] # Python's way to say that there is none


def _replace(name: str, **there: object) -> None:
    module = sys.modules[name] = LeftOut(name)
    vars(module).update(there)
    package, _, own = name.rpartition(".")
    if package:  # as an import of the module has it
        setattr(importlib.import_module(package), own, module)
