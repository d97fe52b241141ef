"""An attempt to get out of a session, and the families they come in. Plain values.

An attempt is a small program that runs as user code in a real session, with the exact answer that is expected of the
sandbox. The answer (the *outcome*) is one line of text:

    EPERM                     an OSError, by the name of its number (by its class when it has none: TimeoutError)
    ValueError: no such key   another exception
    SIGSYS                    the signal that ended the process
    exit 1: Permission denied what a shell's exit status was, and the last line of its stderr
    said: []                  it ended by itself, having printed this
    done                      it ended by itself and printed nothing: never an expected answer
    timeout                   it was still running when its time was up
    died: signal SIGKILL      it took the session's kernel with it (the cause, as the session says it)

A program sees what `prelude.py` defines: `syscall("mount", ...)`, `libc`, `MARK`, `host`, `neighbour`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.escape.position import Scene

RUNTIMES = ("runc", "runsc")


@dataclass(frozen=True)
class Attempt:
    """One attempt; `name` says what is tried.

    `expect` is the outcome, or one per runtime where they differ (gVisor is a kernel of its own and has other words).
    `newer` is what a build of gVisor's of 2024 says where it has other words than that of 2022.
    `where`: a `process` of its own in Python, a `shell`, or the session's `kernel` itself. `check` runs on the host
    afterwards, and asserts. `seek` is a program that runs in the position of a predecessor who made the same attempt,
    whose mark it knows as `PREDECESSOR`; it must print nothing and raise nothing.
    """

    name: str
    program: str
    expect: str | Mapping[str, str]
    where: Literal["process", "shell", "kernel"] = "process"
    check: Callable[[Scene], None] | None = None
    seek: str = ""
    seconds: float = 120
    newer: str = ""

    def __post_init__(self) -> None:
        outcomes = [self.expect] if isinstance(self.expect, str) else list(self.expect.values())
        outcomes += [self.newer] if self.newer else []
        if "done" in outcomes or not all(outcomes):
            raise ValueError(f"{self.name}: an attempt that ends in peace is no refusal")
        if not isinstance(self.expect, str) and set(self.expect) != set(RUNTIMES):
            raise ValueError(f"{self.name}: say what is expected under each of {RUNTIMES}")

    def expected(self, runtime: str) -> str:
        """The outcome under this runtime."""
        return self.expect if isinstance(self.expect, str) else self.expect[runtime]

    def refusals(self, runtime: str) -> set[str]:
        """The outcomes of which one is expected, whichever build of the runtime there is."""
        return {self.expected(runtime), *([self.newer] if self.newer and runtime == "runsc" else [])}

    @property
    def slug(self) -> str:
        """The name in letters and hyphens, for marks and test ids."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True)
class Family:
    """Attempts of one kind; they share a session. `issue` is what the family is about; `session` how it is started."""

    name: str
    issue: str
    attempts: tuple[Attempt, ...]
    session: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        slugs = [attempt.slug for attempt in self.attempts]
        if len(set(slugs)) != len(slugs):
            raise ValueError(f"{self.name}: {sorted({slug for slug in slugs if slugs.count(slug) > 1})} come twice")
