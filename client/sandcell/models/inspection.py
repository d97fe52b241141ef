"""What can be seen inside a kernel: the names that code has defined."""

from __future__ import annotations

import msgspec

from sandcell.models.model import Model


class Variable(Model, omit_defaults=True):
    """One name of the session's Python code and its value's type; the rest as far as it is known without running code.

    `length` is what `len` says, `shape` that of an array or a table, `size_bytes` the value's own without what it
    refers to (of an array with its data). `preview` is 200 characters at most.
    """

    name: str
    type: str
    shape: list[int] | None = None
    length: int | None = None
    size_bytes: int | None = None
    preview: str | None = None


class Variables(Model):
    """The names that were defined last come first; `omitted` counts, about, those for which there was no room."""

    generation: int
    variables: list[Variable] = msgspec.field(default_factory=list)
    omitted: int = 0
