"""The text of an execution as it is kept in full: what is taken, what is cleared, what is left behind when it ends."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, cast

import pytest

from kernel_gateway.redact_patterns import Patterns
from kernel_gateway.services.background import Background
from kernel_gateway.services.executions.outputs import _skip
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.results.kept_outputs import FullText, KeptOutputs
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.settings import Settings
from kernels.execution.execution import Event


@pytest.fixture
def kept(tmp_path: Path) -> KeptOutputs:
    (tmp_path / "state").mkdir()
    settings = Settings(data_dir=str(tmp_path), stored_text_bytes=1_024, full_output_bytes=5_000, disk_reserve_bytes=0)
    redaction = Redaction(Patterns.of_lines(""))
    return KeptOutputs(settings, cast("Mirrors", None), cast("Background", None), redaction)


def files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "state" / "outputs").glob("*/*"))


def fed(kept: KeptOutputs, *events: tuple[str, dict[str, Any]]) -> FullText:
    text = FullText(kept, "s")
    for kind, data in events:
        text.take(Event(kind, data))
    return text


def out(text: str, kind: str = "stream") -> tuple[str, dict[str, Any]]:
    return kind, {"name": "stdout", "text": text}


def test_short_texts_make_no_file(kept: KeptOutputs, tmp_path: Path) -> None:
    text = fed(kept, out("x" * 1_000))
    assert not text.large
    assert text.finish() == []
    assert files(tmp_path) == []


def test_a_character_is_not_cut_in_two(kept: KeptOutputs, tmp_path: Path) -> None:
    text = fed(
        kept, out("x" * 4_999), out("\u00e9" * 10), out("y", "beyond"), ("beyond", {"name": "stdout", "size": 7})
    )
    (about,) = text.finish()
    assert (about["size"], about["omitted_bytes"]) == (4_999, 28)
    assert about["sha256"] == hashlib.sha256(b"x" * 4_999).hexdigest()
    assert files(tmp_path) == [f"{about['sha256']}.txt"]


def test_what_is_cleared_is_not_kept_and_a_wait_is_for_what_comes_next(kept: KeptOutputs, tmp_path: Path) -> None:
    old = out("x" * 3_000)
    assert fed(kept, old, ("clear", {"wait": False})).finish() == []
    assert fed(kept, old, ("clear", {"wait": True})).finish() != []
    assert fed(kept, old, ("clear", {"wait": True}), ("display", {})).finish() == []
    assert fed(kept, old, ("beyond", {"clear": True, "wait": True}), out("y")).finish() == []
    assert files(tmp_path) == [hashlib.sha256(b"x" * 3_000).hexdigest() + ".txt"]


def test_what_is_beyond_is_for_nobody_else(kept: KeptOutputs) -> None:
    text = FullText(kept, "s")
    assert text.take(Event(*out("x")))
    assert text.take(Event("ended", {}))
    assert not text.take(Event(*out("x", "beyond")))


def test_an_execution_that_is_given_up_leaves_nothing(kept: KeptOutputs, tmp_path: Path) -> None:
    text = fed(kept, out("x" * 3_000))
    assert len(files(tmp_path)) == 1
    text.discard()
    assert files(tmp_path) == []


def test_what_cannot_be_sought_in_is_read_up_to_where_it_begins() -> None:
    read, write = os.pipe()
    os.write(write, b"0123456789")
    os.close(write)
    with os.fdopen(read, "rb") as source:
        _skip(source, 7)
        assert source.read() == b"789"
