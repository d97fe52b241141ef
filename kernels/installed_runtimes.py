"""The sandbox runtimes that are installed: entry points of the group `sandcell.runtimes`, ours among them.

An entry point's name is what the setting `runtime` and the environments file call the runtime. It refers to an
`OciProgram` or to a function that opens a `SandboxRuntime`; `docs/how-to/own-runtime.md` says how to write one. Only
what is asked for is imported: as root, by the launcher. So its code is trusted like this installation itself.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, Final

from kernels.errors import RuntimeUnusable

GROUP: Final = "sandcell.runtimes"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
"""Names go to the launcher and into journals; an entry point with another kind of name is passed over."""


def names() -> tuple[str, ...]:
    """Names of every runtime that is installed, sorted; nothing is imported."""
    return tuple(sorted({each.name for each in _entries(tuple(sys.path)) if _NAME.fullmatch(each.name)}))


def find(name: str) -> Any:
    """What the entry point of this name refers to. Raises `RuntimeUnusable` when there is none, or more than one."""
    found = tuple(_entries(tuple(sys.path)).select(name=name)) if _NAME.fullmatch(name) else ()
    if not found:
        raise RuntimeUnusable(f"unknown sandbox runtime {name!r}; installed are: {', '.join(names()) or '(none)'}")
    if len({each.value for each in found}) > 1:  # which of them is imported would depend on the order of the path
        owners = ", ".join(sorted({each.dist.name if each.dist else "?" for each in found}))
        raise RuntimeUnusable(f"several distributions bring a runtime {name!r} ({owners}); uninstall all but one")
    try:
        return found[0].load()
    except Exception as error:  # another distribution's module may raise anything while it is imported
        raise RuntimeUnusable(f"the runtime {name!r} ({found[0].value}) cannot be loaded: {error}") from error


@cache
def _entries(_path: tuple[str, ...]) -> EntryPoints:
    """All that are on this path (`sys.path`), found by reading what is installed, which takes a moment."""
    return entry_points(group=GROUP)
