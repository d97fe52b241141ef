"""Many files in one stream, whatever pieces it comes in: all are written, and one that cannot be keeps no other out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import SandboxFailed
from kernels.guest.refusal import Refusal
from kernels.guest.workspace import batch
from kernels.guest.workspace.batch import Batch
from kernels.guest.workspace.files import Workspace
from kernels.guest_client import answers as guest_answers
from kernels.guest_client import file_stream
from kernels.guest_client.file_stream import Content


def streamed(files: Sequence[tuple[str, Content]]) -> list[bytes]:
    async def pieces() -> list[bytes]:
        return [piece async for piece in file_stream.stream(files)]

    return asyncio.run(pieces())


def written(root: Path, data: bytes, step: int) -> dict[str, Any]:
    made = Batch(Workspace(str(root)).upload)
    try:
        for start in range(0, len(data), step):
            made.write(data[start : start + step])
        return made.commit()
    finally:
        made.abort()


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


FILES: list[tuple[str, Content]] = [
    ("a.txt", "héllo\r\n"),
    ("empty", b""),
    ("deep/er/b.bin", bytes(range(256)) * 400),
    ("\udcff", b"name"),
    ("a.txt", "again"),
]


@pytest.mark.parametrize("step", [1, 11, 4096, 1_000_000])
def test_files_come_out_as_they_went_in(tmp_path: Path, step: int) -> None:
    answer = written(tmp_path, b"".join(streamed(FILES)), step)
    assert answer == {"written": 5, "refused": []}
    assert {path: (tmp_path / path).read_bytes() for path, _ in FILES} == {
        "a.txt": b"again",
        "empty": b"",
        "deep/er/b.bin": bytes(range(256)) * 400,
        "\udcff": b"name",
    }
    assert names(tmp_path) == sorted(["a.txt", "deep", "empty", "\udcff"])


def test_what_is_refused_is_named_and_the_rest_is_written(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    files = [("one", b"1"), ("taken", b"x" * 300_000), ("../out", b"x"), ("one/below", b"x"), ("two", b"2")]
    answer = written(tmp_path, b"".join(streamed(files)), 1000)
    assert answer["written"] == 2
    assert [(each["index"], each["code"]) for each in answer["refused"]] == [
        (1, "is_a_directory"),
        (2, "invalid_path"),
        (3, "not_a_directory"),
    ]
    assert names(tmp_path) == ["one", "taken", "two"]
    assert (tmp_path / "two").read_bytes() == b"2"
    refused = guest_answers.parse_refusals(answer, "written", len(files))
    assert [number for number, _ in refused] == [1, 2, 3]
    assert (refused[0][1].status, refused[0][1].code) == (409, "is_a_directory")


def test_a_stream_that_ends_within_a_file_leaves_no_trace_of_it(tmp_path: Path) -> None:
    data = b"".join(streamed([("whole", b"1"), ("broken", b"x" * 1000)]))
    with pytest.raises(Refusal, match="ends within a file"):
        written(tmp_path, data[:-1], 100)
    assert names(tmp_path) == ["whole"]


def test_a_path_without_end_and_files_without_number_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refusal, match="4096 bytes"):
        written(tmp_path, b"\xff" * 12, 12)
    monkeypatch.setattr(batch, "MAX_FILES", 2)
    with pytest.raises(Refusal, match="at most 2 files"):
        written(tmp_path, b"".join(streamed([("a", b""), ("b", b""), ("c", b"")])), 100)
    assert names(tmp_path) == ["a", "b"]


def test_a_large_text_goes_in_pieces_and_its_size_is_known_before() -> None:
    text = "aé😀" * 300_000
    assert file_stream.size_of(text) == len(text.encode())
    pieces = streamed([("t", text)])
    assert b"".join(pieces) == batch.head("t", len(text.encode())) + text.encode()
    assert max(map(len, pieces)) <= 5 * file_stream.PIECE_BYTES


@pytest.mark.parametrize(
    "answer",
    [
        {"written": 2, "refused": []},
        {"written": 0, "refused": [{"index": 3, "status": 409, "code": "x", "message": ""}]},
        {"written": 1, "refused": [{"index": 1, "status": 409, "code": "x", "message": ""}] * 2},
        {"written": 2, "refused": ["x"]},
        {"refused": []},
    ],
)
def test_an_answer_that_makes_no_sense_is_not_believed(answer: dict[str, Any]) -> None:
    with pytest.raises(SandboxFailed):
        guest_answers.parse_refusals(answer, "written", 3)


def test_many_are_removed_in_the_order_given(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("x")
    files = Workspace(str(tmp_path))
    answer = files.remove_all(["d/e/f", "d/e", "full", "../out", "none", "d"])
    assert [(number, error.code) for number, error in guest_answers.parse_refusals(answer, "removed", 6)] == [
        (2, "directory_not_empty"),
        (3, "invalid_path"),
        (4, "not_found"),
    ]
    assert names(tmp_path) == ["full"]
