"""Several real gateways of one database and one store, and a plain proxy that asks them in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.doubles.nginx import nginx
from tests.doubles.server_process import free_port
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
SECRETS_KEY = "5" * 64


class Gateways:
    """Starts gateways of one database and one store."""

    def __init__(self, make_service: MakeService, url: str, store: Path, **settings: Any) -> None:
        self._make = make_service
        self._settings = {"database": url, "store": f"file://{store}", "secrets_key": SECRETS_KEY, **settings}

    @property
    def database(self) -> str:
        return str(self._settings["database"])

    def start(self, at: str = "127.0.0.1", **settings: Any) -> RunningService:
        port = free_port()
        address = f"http://{at}:{port}"
        return self._make(port=port, gateway_address=address, **{**self._settings, **settings})

    def start_two(self) -> tuple[RunningService, RunningService]:
        """At once: one of them makes the tables."""
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(lambda _: self.start(), range(2))
        return first, second


@contextlib.contextmanager
def in_turn(services: Sequence[RunningService], directory: Path) -> Iterator[str]:
    """The address of an nginx that asks one after the other."""
    with nginx([urlsplit(each.url).port or 0 for each in services], directory) as url:
        yield url
