"""Modules that a kernel's start imports for others and hardly uses: TLS, what tornado logs with, dates of any form.

They are a tenth of that start. Loaded by `kernel_main.py` from its directory, before asyncio. Needs the standard
library and nothing of Sandcell's.

While the kernel is imported something stands for each in `sys.modules`; then it is taken out, so that the next import
goes Python's usual way. Who has a stand-in finds in it what the module has: the first use imports that.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import types
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

TORNADO_LOGGERS = {"access_log": "access", "app_log": "application", "gen_log": "general"}


class StandIn(types.ModuleType):
    """Has what is put into it, and all else that the module itself has at that time."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by Python's import, of every module
            raise AttributeError(name)
        return _find(self.__name__, name)


def defer() -> Callable[[], None]:
    """Have stand-ins be imported until what is returned is called."""
    stand_ins = {name: _make(name, **there) for name, there in _list().items() if name not in sys.modules}
    sys.modules.update(stand_ins)

    def end() -> None:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            package, _, own = name.rpartition(".")
            if package in sys.modules:  # as an import of the module has it, for who names it without one
                vars(sys.modules[package]).setdefault(own, stand_in)

    return end


def _list() -> dict[str, dict[str, Any]]:
    """Names of the modules, with what is taken from each of them as it is imported."""
    loggers = {name: logging.getLogger(f"tornado.{logger}") for name, logger in TORNADO_LOGGERS.items()}
    tls: dict[str, dict[str, Any]] = {"ssl": {}, "asyncio.sslproto": {}} if importlib.util.find_spec("_ssl") else {}
    return {
        **tls,
        "tornado.log": loggers,
        "dateutil.parser": {"isoparse": _read_date, "parse": _read_date},
        "dateutil.tz": {"tzlocal": _make_local_zone},
    }


def _make(name: str, **there: Any) -> StandIn:
    made = StandIn(name)
    vars(made).update(there)
    return made


def _find(module: str, name: str) -> Any:
    if isinstance(sys.modules.get(module), StandIn):
        del sys.modules[module]
    return getattr(importlib.import_module(module), name)


def _make_local_zone() -> Any:
    return _find("dateutil.tz", "tzlocal")()


def _read_date(text: str) -> datetime:
    """A date of a message, which jupyter_client reads with dateutil; that is asked for one in another form."""
    try:
        return datetime.fromisoformat(text)  # knows `Z` from Python 3.11 on
    except ValueError:
        return cast("datetime", _find("dateutil.parser", "isoparse")(text))
