"""The languages that code is written in, and what runs each of them. Pure.

A *runtime* is `python` (the session's IPython kernel), `deno` (a second kernel, which keeps state as well), `nodejs`
(a process of its own for each execution, without state), or the name of a kernel that the image declares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kernels.kernelspec import Kernelspec

PYTHON: Final = "python"
RUNTIMES: Final[dict[str, tuple[str, ...]]] = {
    PYTHON: (PYTHON,),
    "javascript": ("deno", "nodejs"),
    "typescript": ("deno", "nodejs"),
}
"""By language, the default first; whatever the image."""
BUILT_IN: Final = frozenset(each for runtimes in RUNTIMES.values() for each in runtimes)


def list_runtimes(declared: Iterable[Kernelspec]) -> dict[str, tuple[str, ...]]:
    """By language what runs it, the default first, where an image declares these kernels."""
    found = dict(RUNTIMES)
    for each in declared:
        if each.name not in BUILT_IN:
            found[each.language] = (*found.get(each.language, ()), each.name)
    return found


def runtime_of(language: str, asked: str | None, declared: Iterable[Kernelspec] = ()) -> str:
    """The runtime for code in a language; raises ValueError with a sentence when there is no such pair."""
    there = list_runtimes(declared)
    runtimes = there.get(language)
    if runtimes is None:
        raise ValueError(f"no language {language[:40]!r}; there are: {', '.join(there)}")
    if asked is None:
        return runtimes[0]
    if asked not in runtimes:
        raise ValueError(f"{language} runs on {' or '.join(runtimes)}, not on {asked[:40]!r}")
    return asked
