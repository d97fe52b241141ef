"""Bodies of requests, as Jupyter clients send them: members that we do not know are theirs, and ignored.

`env`, which JupyterLab fills with variables of the person's machine, is not read at all.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(max_length=200)]
Path = Annotated[str, msgspec.Meta(max_length=1_000)]


class StartKernel(msgspec.Struct):
    """Body of `POST /api/kernels`; one with an id is refused."""

    id: Name | None = None
    name: Name | None = None
    path: Path | None = None


class WantedKernel(msgspec.Struct):
    """The kernel of a Jupyter session: one that lives, by its id, or a new one, by a kernelspec's name."""

    id: Name | None = None
    name: Name | None = None


class PutSession(msgspec.Struct):
    """Body of `POST /api/sessions`, and of PATCH, where everything may be left out."""

    path: Path | None = None
    name: Path | None = None
    type: Name | None = None
    kernel: WantedKernel | None = None


class Nothing(msgspec.Struct):
    """A body that says nothing to us."""
