"""Notebooks are valid whatever went in, the same each time, and say what happened."""

from __future__ import annotations

import base64
import json
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.errors import Death
from kernels.execution.outputs import OutputCaps, OutputCollector, Truncated
from kernels.notebook import chain
from kernels.notebook.transcript import (
    BETWEEN,
    HEAD,
    Blob,
    Cell,
    Note,
    NotebookKernel,
    ending,
    notebook,
    render,
    seal,
    split_output,
    trim_output,
)
from tests.unit.kernels.execution.test_outputs import ANY_JSON, ANY_TEXT

OUTPUT = st.dictionaries(
    st.sampled_from(["output_type", "name", "text", "data", "metadata", "execution_count", "evalue", "traceback", "x"]),
    ANY_JSON | st.sampled_from(["stream", "display_data", "execute_result", "error"]),
    max_size=6,
)
STATUS = st.sampled_from(["queued", "running", "ok", "error", "timeout", "interrupted", "died", "rejected"])
CELL = st.builds(
    Cell,
    execution_id=ANY_TEXT,
    code=ANY_TEXT,
    status=STATUS,
    execution_count=st.none() | st.integers(0, 5),
    outputs=st.lists(OUTPUT, max_size=3),
    death=st.none() | st.builds(Death, ANY_TEXT, ANY_TEXT),
    author=st.none() | ANY_TEXT,
    kind=st.sampled_from(["code", "command"]),
    why=st.none() | ANY_TEXT,
    exit_code=st.none() | st.integers(-64, 255),
    provenance=st.none() | st.dictionaries(st.sampled_from(["cpu_seconds", "files"]), st.floats(0, 9) | st.just([])),
)


def made(*cells: Cell | Note) -> Any:
    return notebook(cells, session_id="s", environment="python")


@settings(max_examples=60)
@given(st.lists(CELL | st.builds(Note, ANY_TEXT, ANY_TEXT), max_size=5))
def test_every_notebook_is_valid_and_written_the_same_way_each_time(cells: list[Cell | Note]) -> None:
    first = made(*cells)
    nbformat.validate(first)
    text = nbformat.writes(first)
    assert text == nbformat.writes(made(*cells))
    text.encode()
    assert len({cell.id for cell in first.cells}) == len(first.cells)
    assert chain.verify(json.loads(text)) == chain.Verified(whole=True, cells=len(first.cells))


def test_a_cell_carries_its_execution() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "hi\n"}
    cell = Cell("0b7c", "print('hi')", "ok", 3, [output], 2, "t0", "t1", Truncated(stdout=5), author="ada")
    (node,) = made(cell).cells
    assert (node.id, node.source, node.execution_count, node.outputs) == ("0b7c", "print('hi')", 3, [output])
    first = chain.genesis("s", "python")
    about = dict(node.metadata.sandcell)
    assert (about.pop("previous"), about.pop("hash")) == (first, chain.link(node, first))
    assert about == {
        "execution_id": "0b7c",
        "kind": "code",
        "generation": 2,
        "status": "ok",
        "started_at": "t0",
        "ended_at": "t1",
        "author": "ada",
        "truncated": {"stdout": 5, "stderr": 0, "outputs": 0},
    }


def test_a_command_is_a_cell_for_bash() -> None:
    output = {"output_type": "stream", "name": "stderr", "text": "no\n"}
    (node,) = made(Cell("c", "ls nowhere", "error", outputs=[output], kind="command", exit_code=2)).cells
    assert (node.source, node.outputs, node.metadata.sandcell.exit_code) == ("%%bash\nls nowhere", [output], 2)


def test_written_cells_between_head_and_ending_are_the_notebook() -> None:
    entries = [Note("started", "hi", "t", number=7), Cell("a", "1", "ok", 1), Cell("b", "2", "ok", 2)]
    head, written = chain.genesis("s", "python"), []
    for cell in (cell for entry in entries for cell in render(entry)):
        sealed = seal(cell, head)
        written.append(sealed.data)
        head = sealed.hash
    text = HEAD + BETWEEN.join(written) + ending("s", "python", cells=3, head=head)
    node = nbformat.reads(text.decode(), as_version=4)
    nbformat.validate(node)
    assert node == made(*entries)
    assert [cell.id for cell in node.cells] == ["note-7", "a", "b"]


def test_a_notebook_names_the_kernel_that_ran_all_of_it() -> None:
    cells = [Cell("a", "mean(1:3)", "ok", 1, language="r", runtime="ir")]
    about = notebook(cells, session_id="s", environment="e", kernel=NotebookKernel("ir", "R", "R")).metadata
    assert about.kernelspec == {"name": "ir", "display_name": "R", "language": "R"}
    assert about.language_info == {"name": "R"}
    about = notebook(cells, session_id="s", environment="e").metadata
    assert (about.kernelspec.name, about.language_info.name) == ("python3", "python")


def test_a_cell_says_that_it_asked_for_a_blank_kernel() -> None:
    asked, other = made(Cell("a", "1", "ok", clear_context=True), Cell("b", "1", "ok")).cells
    assert (asked.metadata.sandcell.clear_context, "clear_context" in other.metadata.sandcell) == (True, False)


def test_a_death_is_told_after_its_cell() -> None:
    death = Death("oom", "all of its 2,048 MB", signal="SIGKILL", memory_limit_bytes=2 << 30)
    cell, told, note = made(Cell("a", "x", "died", death=death), Note("generation", "**Generation 2.**", "t")).cells
    assert cell.metadata.sandcell.death.memory_limit_bytes == 2 << 30
    assert (told.cell_type, told.source) == ("markdown", "**The kernel died (oom).** all of its 2,048 MB")
    assert (note.source, note.metadata.sandcell.kind) == ("**Generation 2.**", "generation")


@pytest.mark.parametrize("status", ["queued", "running", "rejected"])
def test_what_has_not_run_has_no_outputs(status: str) -> None:
    (cell,) = made(Cell("a", "x", status, 4, [{"output_type": "stream", "name": "stdout", "text": "x"}])).cells
    assert (cell.outputs, cell.execution_count) == ([], None)


def test_the_same_execution_twice_has_two_ids() -> None:
    first, second = made(Cell("a", "x", "ok"), Cell("a", "x", "ok")).cells
    assert first.id == "a" != second.id


def test_text_is_trimmed_and_html_is_not() -> None:
    data = {"text/plain": "x" * 100, "text/html": "<b>" * 100}
    trimmed, cut = trim_output({"output_type": "display_data", "data": data, "metadata": {}}, 40)
    assert cut == 60
    assert "60 bytes cut" in trimmed["data"]["text/plain"]
    assert trimmed["data"]["text/html"] == data["text/html"]
    trimmed, cut = trim_output({"output_type": "stream", "name": "stderr", "text": ["y" * 50, "z" * 50]}, 40)
    assert (trimmed["name"], cut) == ("stderr", 60)


def test_a_large_image_becomes_a_file_beside_the_notebook() -> None:
    pixels = bytes(range(256)) * 100
    image = {"image/png": base64.encodebytes(pixels).decode(), "text/plain": "<Figure>"}
    output = {"output_type": "display_data", "data": image, "metadata": {"m": 1}}
    placeholder, blobs = split_output(output, 1000)
    (blob,) = blobs
    assert blob.data == pixels
    assert blob.name.startswith("history_files/")
    assert blob.name.endswith(".png")
    assert placeholder["data"]["text/plain"].startswith("<Figure>\n[image/png, 25,600 bytes, in history_files/")
    assert placeholder["metadata"] == {"m": 1, "sandcell": {"files": {"image/png": blob.name}}}
    nbformat.validate(made(Cell("a", "x", "ok", 1, [placeholder])))
    assert split_output(output, 100_000) == (output, [])


@given(OUTPUT)
def test_any_output_can_be_split(output: dict[str, Any]) -> None:
    trimmed, _ = trim_output(output)
    placeholder, blobs = split_output(trimmed, 5)
    assert all(isinstance(blob, Blob) and "/" not in blob.name.removeprefix("history_files/") for blob in blobs)
    nbformat.validate(made(Cell("a", "x", "ok", 1, [placeholder])))


@pytest.mark.parametrize(("levels", "kept"), [(100, True), (101, False), (900, False)])
def test_an_output_nested_deep_is_kept_or_refused_and_never_breaks_a_notebook(levels: int, kept: bool) -> None:
    value: Any = 1
    for number in range(levels):
        value = [value] if number % 2 else {"": value}
    collector = OutputCollector(OutputCaps())
    collector.feed("display_data", {"data": {"application/json": value}, "metadata": {"deep": value}})
    outputs = collector.snapshot().outputs
    node = notebook([Cell("e", "1", "ok", outputs=outputs)], session_id="s", environment="python")
    assert nbformat.reads(nbformat.writes(node), 4).cells[0].outputs == outputs
    assert (outputs[0]["data"]["application/json"] == value) is kept
    assert kept or "100 levels" in outputs[0]["data"]["application/json"]
