"""An upload in parts without I/O: where it goes on after each failure, and when it gives up."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sandcell import Conflict, ConnectionFailed, NotFound, ServiceUnavailable
from sandcell.models.uploads import Upload
from sandcell.models.workspaces import FileEntry
from sandcell.operations import files as f
from sandcell.operations import uploads
from sandcell.steps import Answer, Ask, Digest, Operation, Pause, Piece, Read
from sandcell.transport import read_local

LOST = Answer(lost="the connection was lost")
ENTRY = FileEntry("f", "file", 10, "t")
WRITTEN = Answer(200, msgspec.json.encode(ENTRY))
TEN = b"0123456789"


def at(offset: int, part_bytes: int = 4) -> Answer:
    return Answer(200, msgspec.json.encode(Upload("u", "f", 10, offset, part_bytes, "t", "t")))


def error(status: int, code: str, **details: Any) -> Answer:
    body = {"error": {"code": code, "message": code, "retryable": status in (429, 503), **details}}
    return Answer(status, msgspec.json.encode(body))


def drive(
    operation: Operation[Any], answers: Sequence[Answer], asked: list[Ask] | None = None
) -> tuple[Any, list[Ask]]:
    """The result of an operation that is given these answers, and what it asked of the service."""
    asked = [] if asked is None else asked
    left = list(answers)
    answer = None
    try:
        while True:
            step = next(operation) if answer is None else operation.send(answer)
            if isinstance(step, Ask):
                asked.append(step)
                answer = left.pop(0)
            elif isinstance(step, Digest | Read):
                answer = read_local(step)
            else:
                assert isinstance(step, Pause)
                assert 0 < step.seconds <= 5
                answer = Answer()
    except StopIteration as end:
        assert left == []
        return end.value, asked


def parts(asked: Sequence[Ask]) -> list[tuple[str, object]]:
    """Where each part began, and what it was."""
    return [(ask.headers["Upload-Offset"], ask.content) for ask in asked if ask.method == "PATCH"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f, "MOST_AT_ONCE_BYTES", 5)


def test_parts_are_no_larger_than_the_service_takes() -> None:
    result, asked = drive(f.upload("s", "d/f", TEN), [at(0), at(4), at(8), at(10), WRITTEN])
    assert result == ENTRY
    assert parts(asked) == [("0", b"0123"), ("4", b"4567"), ("8", b"89")]
    assert asked[0].address == "/v1/sessions/s/uploads?path=d/f&size_bytes=10"
    assert asked[-1].path == "/v1/sessions/s/uploads/u/complete"
    assert asked[-1].json == read_digest(TEN)


def read_digest(content: bytes) -> dict[str, str]:
    return {"sha256": read_local(Digest(content)).content.decode()}


def test_it_goes_on_where_the_service_is() -> None:
    elsewhere = error(409, "wrong_offset", offset_bytes=6)
    superseded = error(409, "conflict", reason="superseded")
    answers = [at(2), LOST, at(5), elsewhere, at(6), superseded, at(6), error(503, "draining"), LOST, at(8), at(10)]
    _, asked = drive(f.upload("s", "f", TEN), [*answers, LOST, WRITTEN])
    assert [start for start, _ in parts(asked)] == ["2", "5", "6", "6", "8"]


def test_it_gives_up_when_nothing_goes_on() -> None:
    with pytest.raises(ConnectionFailed):
        drive(f.upload("s", "f", TEN), [at(0), LOST, at(0), LOST, at(0), LOST, at(0), LOST])
    with pytest.raises(Conflict) as caught:
        drive(f.upload("s", "f", TEN), [at(0), error(409, "quota_reached")])
    assert caught.value.code == "quota_reached"
    with pytest.raises(NotFound):  # the session has ended meanwhile
        drive(f.upload("s", "f", TEN), [at(0), LOST, error(404, "not_found")])


def test_a_local_file_is_known_again_until_it_changes(tmp_path: Path) -> None:
    source, answers = tmp_path / "f", [at(0), at(10), WRITTEN]

    def find_key(path: str) -> str:
        _, asked = drive(f.upload("s", path, source), answers)
        assert parts(asked) == [("0", Piece(source, 0, 4))]
        return asked[0].headers["Idempotency-Key"]

    source.write_bytes(TEN)
    keys = [find_key("f"), find_key("f"), find_key("g")]
    os.utime(source, ns=(0, 1))
    assert len({*keys, find_key("f")}) == 3
    assert keys[0] == keys[1]


def test_a_stream_is_sent_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "STREAM_PART_BYTES", 6)
    seen: list[tuple[int, int | None]] = []

    def note(done: int, size: int | None) -> None:
        seen.append((done, size))

    answers = [at(0, 100), LOST, at(2, 100), at(6, 100), at(10, 100), WRITTEN]
    _, asked = drive(f.workspace_upload("w", "f", io.BytesIO(TEN), if_none_match="*", on_progress=note), answers)
    assert parts(asked) == [("0", b"012345"), ("2", b"2345"), ("6", b"6789")]
    assert "Idempotency-Key" not in asked[0].headers
    assert (asked[-1].json, asked[-1].headers["If-None-Match"]) == (read_digest(TEN), "*")
    assert asked[1].on_progress is not None
    asked[3].on_progress(3, 4)  # type: ignore[misc]
    assert seen == [(5, None)]


def test_a_stream_that_cannot_be_sent_leaves_nothing() -> None:
    asked: list[Ask] = []
    with pytest.raises(ServiceUnavailable):
        drive(f.upload("s", "f", io.BytesIO(TEN)), [at(0), error(507, "no_space"), Answer(204)], asked)
    assert [ask.method for ask in asked] == ["POST", "PATCH", "DELETE"]
