"""A workspace with files of data in it, made by a session of a real service; the reader of data in that session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.dataset_profile import packing
from sandcell import Client, Session
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def client(service: RunningService) -> Iterator[Client]:
    with service.client() as made:
        yield made


class Reader:
    """The program that describes files, as a module in a session's kernel."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.upload("profile.pyz", packing.build_archive())
        self.run("import sys; sys.path.insert(0, 'profile.pyz')")
        self.run("import argparse, json, numpy as np, pandas as pd, pyarrow as pa, pyarrow.parquet as pq")
        self.run("from pathlib import Path; from dataset_profile.main import answer")

    def run(self, code: str) -> str:
        result = self._session.run(code)
        assert result.error is None, result.error
        return result.stdout

    def answer(self, path: str, **asked: Any) -> dict[str, Any]:
        """What the program would print of a file, through JSON as strict as its own."""
        given = {"path": path, "name": path, "format": "", "encoding": "", "size": None, "seconds": 60.0, **asked}
        said = self.run(f"print(json.dumps(answer(argparse.Namespace(**{given!r})), allow_nan=False))")
        found: dict[str, Any] = json.loads(said)
        return found

    def profile(self, path: str, **asked: Any) -> dict[str, Any]:
        found = self.answer(path, **asked)
        assert "profile" in found, found
        profile: dict[str, Any] = found["profile"]
        return profile


@pytest.fixture(scope="module")
def reader(client: Client) -> Iterator[Reader]:
    with client.session() as session:
        yield Reader(session)


@pytest.fixture
def sandcell(service: RunningService, tmp_path: Path) -> Shell:
    return Shell(service, tmp_path)
