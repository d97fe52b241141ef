"""Two package indexes of the operator's: one that the environment `indexed` installs from, and one it must not see."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.doubles.package_index import NAME, PASSWORD, PackageIndex, package_index
from tests.escape.position import Scene

SECRET = "secret-of-the-other-index"
_AUTHORIZATION = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
_ASKED = re.compile(r"/root/simple/[a-z0-9-]+/|/root/files/tiny/[A-Za-z0-9._-]+")
_open: dict[int, PackageIndex] = {}


@dataclass(frozen=True)
class Indexes:
    """The index of the environment `indexed`, and that of `beside`."""

    own: PackageIndex
    other: PackageIndex

    @property
    def environments(self) -> str:
        """Their tables in the environments file."""
        return "".join(
            f'\n[{name}]\nimage = "python"\nindex_url = "{index.url}"\n'
            for name, index in (("indexed", self.own), ("beside", self.other))
        )

    def known(self) -> dict[str, Any]:
        """What an attacker knows."""
        return {"port": self.own.port, "other": self.other.port}


@contextmanager
def indexes() -> Iterator[Indexes]:
    """Both, listening."""
    with package_index() as own, package_index() as other:
        own.add("tiny", tiny="")
        other.add("secret-sample", sample=f"VALUE = {SECRET!r}")
        both = {own.port: own, other.port: other}
        _open.update(both)
        yield Indexes(own, other)
        for port in both:
            del _open[port]


def unharmed(scene: Scene) -> None:
    """The other index was never asked, its own for nothing but pages and files, and no password came in."""
    known = scene.position.known["index"]
    assert _open[known["other"]].visits == []
    assert [path for path in _open[known["port"]].visits if not _ASKED.fullmatch(path)] == []
    for secret in (SECRET, PASSWORD, _AUTHORIZATION):
        assert secret not in scene.told.stdout + scene.told.stderr + scene.told.outcome
