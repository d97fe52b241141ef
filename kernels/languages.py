"""The languages that code is written in, and what runs each of them. Pure.

A *runtime* is `python` (the session's IPython kernel), `deno` (a second kernel, which keeps state as well) or `nodejs`
(a process of its own for each execution, without state).
"""

from __future__ import annotations

from typing import Final

RUNTIMES: Final[dict[str, tuple[str, ...]]] = {
    "python": ("python",),
    "javascript": ("deno", "nodejs"),
    "typescript": ("deno", "nodejs"),
}
"""By language, the default first."""


def runtime_of(language: str, asked: str | None) -> str:
    """The runtime for code in a language; raises ValueError with a sentence when there is no such pair."""
    runtimes = RUNTIMES.get(language)
    if runtimes is None:
        raise ValueError(f"no language {language[:40]!r}; there are: {', '.join(RUNTIMES)}")
    if asked is None:
        return runtimes[0]
    if asked not in runtimes:
        raise ValueError(f"{language} runs on {' or '.join(runtimes)}, not on {asked[:40]!r}")
    return asked
