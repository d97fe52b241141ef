"""Any file is read as a notebook or refused with a sentence that names the cell, in bounded time and memory."""

from __future__ import annotations

import copy
import gzip
import json
import re
import tracemalloc
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.errors import InvalidNotebook
from kernels.notebook.notebook_file import CodeCell, NotebookFile, read
from kernels.notebook.transcript import Cell, Note, notebook
from tests.unit.kernels.execution.test_outputs import ANY_JSON

CODE = {"cell_type": "code", "id": "one", "metadata": {}, "source": "1", "outputs": [], "execution_count": 1}
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}


def document(*cells: Any, **others: Any) -> dict[str, Any]:
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": PYTHON, "cells": list(cells), **others}


def written(*cells: Any, **others: Any) -> bytes:
    return json.dumps(document(*cells, **others)).encode()


def code(**changes: Any) -> dict[str, Any]:
    return {**CODE, **changes}


def refusal(data: bytes) -> str:
    with pytest.raises(InvalidNotebook) as raised:
        read(data)
    return str(raised.value)


def test_our_own_notebook_is_read_as_it_was_recorded() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "a\nb\n"}
    made = notebook([Note("started", "hi"), Cell("e1", "print(1)", "ok", 7, [output])], session_id="s", environment="e")
    read_back = read(nbformat.writes(made).encode())
    assert read_back.cells == [CodeCell(1, "e1", "print(1)", [output], 7, dict(made.cells[1].metadata.sandcell))]
    assert (read_back.kernel, read_back.language) == ("python3", "python")
    assert read_back.document == made


def test_texts_in_lines_are_joined() -> None:
    data = {"text/plain": ["a\n", "b"], "application/x+json": ["a", "b"]}
    output = {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1}
    (cell,) = read(written(code(source=["x = 1\n", "x"], outputs=[output]))).cells
    assert cell.source == "x = 1\nx"
    assert cell.outputs[0]["data"] == {"text/plain": "a\nb", "application/x+json": ["a", "b"]}


@pytest.mark.parametrize("minor", [0, 1, 2, 3, 4, 5, 6])
def test_every_notebook_of_format_4_is_read(minor: int) -> None:
    cell = {name: value for name, value in CODE.items() if name != "id" or minor >= 5}
    assert [each.source for each in read(written(cell, nbformat_minor=minor)).cells] == ["1"]


def test_format_3_is_upgraded_and_its_cells_get_the_same_ids_each_time() -> None:
    error = {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": ["E: v"]}
    result = {"output_type": "pyout", "text": ["2"], "png": "aGk=", "prompt_number": 1, "metadata": {}}
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": "old"},
        "worksheets": [
            {
                "metadata": {},
                "cells": [
                    {"cell_type": "heading", "level": 1, "source": ["Title"], "metadata": {}},
                    {
                        "cell_type": "code",
                        "input": ["1 +\\\n", "1"],
                        "language": "python",
                        "outputs": [result, error],
                        "prompt_number": 1,
                        "collapsed": False,
                        "metadata": {},
                    },
                ],
            }
        ],
    }
    first, second = (read(json.dumps(old).encode()) for _ in range(2))
    assert first == second
    nbformat.validate(nbformat.from_dict(first.document))
    (cell,) = first.cells
    assert (cell.index, cell.id, cell.source) == (1, "cell-2", "1 +\\\n1")
    assert [each["output_type"] for each in cell.outputs] == ["execute_result", "error"]
    assert cell.outputs[0]["data"] == {"text/plain": "2", "image/png": "aGk="}


OLD_AND_BROKEN = [
    {},
    {"worksheets": 5},
    {"worksheets": [5]},
    {"worksheets": [{"cells": {}}]},
    {"worksheets": [{"cells": [5]}]},
    {"worksheets": [{"cells": [{"cell_type": "code", "input": 5}]}]},
    {"worksheets": [{"cells": [{"cell_type": 5}]}]},
    {"worksheets": [{"cells": [{"cell_type": "heading", "level": "x", "source": []}]}]},
    {"worksheets": [{"cells": [{"cell_type": "code", "input": "1", "outputs": [{"output_type": 5}]}]}]},
    {"worksheets": [{"cells": [{"cell_type": "code", "input": "1", "outputs": [5]}]}]},
    {"worksheets": [{"cells": [{"cell_type": "code", "input": "1", "outputs": 5}]}]},
    {"worksheets": [], "metadata": 5},
]


@pytest.mark.parametrize("broken", OLD_AND_BROKEN)
def test_a_broken_notebook_of_format_3_is_refused(broken: dict[str, Any]) -> None:
    assert "notebook" in (said := refusal(json.dumps({"nbformat": 3, **broken}).encode())) or "cell 1" in said


FILES = {
    b"": "empty",
    b" \n\t": "empty",
    b"[]": "a JSON object",
    b"5": "a JSON object",
    b"null": "a JSON object",
    b"{}": "its format",
    b'{"nbformat": "4"}': "its format",
    b'{"nbformat": true}': "its format",
    b'{"nbformat": 5}': "format is 5",
    b'{"nbformat": 2}': "format is 2",
    b'{"nbformat": 4}': "no list of cells",
    b'{"nbformat": 4, "cells": {}}': "no list of cells",
    b'{"nbformat": 4, "cells": [], "metadata": []}': "`metadata` is no object",
    b'{"nbformat": 4, "cells": [], "metadata": {"kernelspec": []}}': "`kernelspec` is no object",
    b'{"nbformat": 4, "cells": [': "is not JSON",
    b"print('hello')": "is not JSON",
    b'{"nbformat": 4, "cells": []}}': "is not JSON",
    b'{"nbformat": ' + b"9" * 5000 + b"}": "its format",
    b'{"nbformat": 4, "x": "\xff"}': "is not UTF-8",
    b"\xff\xfe{\0}\0": "UTF-16",
    b"<!DOCTYPE html><html>": "HTML",
    gzip.compress(b"{}", mtime=0): "gzipped",
    b"PK\x03\x04 and so on": "zip archive",
    b"\x00\x01\x02\x03": "is not JSON",
    b'{"nbformat": 4, "cells": [], "x": ' + b"[" * 101 + b"]" * 101 + b"}": "nested",
    b'{"x":' * 100_000: "nested",
    b"[" * 1_000_000: "nested",
}


@pytest.mark.parametrize(("data", "why"), FILES.items(), ids=[repr(data[:20]) for data in FILES])
def test_what_is_no_notebook_is_refused_with_the_reason(data: bytes, why: str) -> None:
    assert why in refusal(data)


CELLS: list[tuple[Any, str]] = [
    (5, "cell 2 is no object"),
    (None, "cell 2 is no object"),
    ({}, "cell 2: its `cell_type` is missing"),
    (code(cell_type=[]), "cell 2 ('one'): its `cell_type` is a list"),
    (code(cell_type="sql"), "cell 2 ('one'): its `cell_type` is 'sql'"),
    (code(id=5), "cell 2: its `id` is no text"),
    (code(metadata=[]), "cell 2 ('one'): its `metadata` is no object"),
    (code(source=None), "cell 2 ('one'): its `source` is missing"),
    (code(source=5), "cell 2 ('one'): its `source` is no text"),
    (code(source=["a", 5]), "cell 2 ('one'): its `source` is no text"),
    (code(outputs={"a": 1}), "cell 2 ('one'): its `outputs` are no list"),
    (code(execution_count="1"), "cell 2 ('one'): its `execution_count` is no whole number"),
    (code(execution_count=True), "cell 2 ('one'): its `execution_count` is no whole number"),
    (code(cell_type="markdown", attachments=5), "cell 2 ('one'): its `attachments` is no object"),
]
OUTPUTS: list[tuple[Any, str]] = [
    (5, "is no object"),
    ({}, "its `output_type` is missing"),
    ({"output_type": {}}, "its `output_type` is an object"),
    ({"output_type": "pyout"}, "its `output_type` is 'pyout'"),
    ({"output_type": "stream", "name": 5, "text": ""}, "its `name` is no text"),
    ({"output_type": "stream", "name": "stdout"}, "its `text` is missing"),
    ({"output_type": "stream", "name": "stdout", "text": {"a": 1}}, "its `text` is no text"),
    ({"output_type": "display_data", "data": 5}, "its `data` is no object"),
    ({"output_type": "display_data", "data": {"text/html": 5}}, "its 'text/html' is no text"),
    ({"output_type": "display_data", "data": {}, "metadata": "x"}, "its `metadata` is no object"),
    ({"output_type": "execute_result", "data": {}, "execution_count": -1}, "its `execution_count` is no whole number"),
    ({"output_type": "error", "ename": 5, "evalue": ""}, "its `ename` is no text"),
    ({"output_type": "error", "ename": "", "evalue": "", "traceback": "x"}, "its `traceback` is no list of texts"),
    ({"output_type": "error", "ename": "", "evalue": "", "traceback": [5]}, "its `traceback` is no list of texts"),
]


@pytest.mark.parametrize(("cell", "why"), CELLS, ids=[why for _, why in CELLS])
def test_a_wrong_cell_is_named(cell: Any, why: str) -> None:
    assert refusal(written(code(id="zero"), cell)).startswith(why)


@pytest.mark.parametrize(("output", "why"), OUTPUTS, ids=[why for _, why in OUTPUTS])
def test_a_wrong_output_is_named_with_its_cell(output: Any, why: str) -> None:
    fine = {"output_type": "stream", "name": "stdout", "text": ""}
    said = refusal(written(code(outputs=[fine, output])))
    assert said.startswith("cell 1 ('one'): output 2")
    assert why in said


def test_a_hostile_id_does_not_reach_the_message_as_it_is() -> None:
    said = refusal(written(code(id="\x1b[31m\n" + "x" * 10_000, source=5)))
    assert said.isprintable()
    assert len(said) < 200


@pytest.mark.parametrize(
    ("metadata", "kernel", "language"),
    [
        ({}, "python3", "python"),
        ({"kernelspec": {"name": "conda-env-x-py", "language": "python"}}, "conda-env-x-py", "python"),
        ({"kernelspec": {"name": "python310"}}, "python310", "python"),
        ({"kernelspec": {"name": 5}, "language_info": {"name": []}}, "python3", "python"),
        ({"kernelspec": {"name": "x"}, "language_info": {"name": "Python"}}, "x", "python"),
        ({"language_info": {"name": "ipython"}}, "python3", "python"),
        ({"kernelspec": {"name": "ir", "language": "R"}, "language_info": {"name": "R"}}, "ir", "r"),
        ({"kernelspec": {"name": "julia-1.11"}}, "julia-1.11", "julia-1.11"),
        ({"language_info": {"name": "javascript"}, "kernelspec": {"name": "python3"}}, "python3", "javascript"),
    ],
)
def test_a_notebooks_kernel_and_language_are_known(metadata: dict[str, Any], kernel: str, language: str) -> None:
    made = read(written(CODE, metadata=metadata))
    assert (made.kernel, made.language) == (kernel, language)


def test_cells_without_ids_get_some_and_no_two_have_the_same() -> None:
    bare = {name: value for name, value in CODE.items() if name != "id"}
    cells = [bare, code(id="cell-1"), code(id="cell-1"), code(id="not legal"), code(id="x" * 65), code(id=""), bare]
    first, second = ([each.id for each in read(written(*cells)).cells] for _ in range(2))
    assert first == second
    assert first[1] == "cell-1"
    assert len(set(first)) == len(cells)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in first)


def test_a_notebook_without_the_optional_parts_of_a_cell_is_read() -> None:
    (cell,) = read(written({"cell_type": "code", "source": "1"})).cells
    assert (cell.outputs, cell.execution_count, cell.about) == ([], None, {})


def test_what_python_writes_and_json_does_not_know_is_read_as_nothing() -> None:
    values = b'NaN, Infinity, -Infinity, 1e999, 1.5, 7, 99999999999999999999, "\\ud800x"'
    data = b'{"nbformat": 4, "cells": [], "metadata": {"a": [' + values + b"]}}"
    made = read(data)
    assert made.document["metadata"]["a"] == [None, None, None, None, 1.5, 7, 1e20, "?x"]
    json.dumps(made.document, allow_nan=False, ensure_ascii=False).encode()


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read(b"\xef\xbb\xbf" + written(CODE)).cells[0].source == "1"


def test_the_record_of_a_cell_is_an_object_or_nothing() -> None:
    cells = read(written(code(metadata={"sandcell": {"a": 1}}), code(metadata={"sandcell": 5}))).cells
    assert [each.about for each in cells] == [{"a": 1}, {}]


def test_a_file_beyond_the_bound_is_refused_before_it_is_looked_at() -> None:
    data = bytes(200_000_000)  # pages that are never touched
    assert refusal(data) == "the notebook has 200,000,000 bytes, and at most 100,000,000 are read"
    assert read(written(CODE), most_bytes=len(written(CODE))).cells
    with pytest.raises(InvalidNotebook, match="at most 10 are read"):
        read(written(CODE), most_bytes=10)


@pytest.mark.parametrize("piece", [b"{},", b"0,", b"[],"])
def test_many_small_values_are_refused_without_being_made(piece: bytes) -> None:
    data = b'{"nbformat": 4, "cells": [' + piece * 6_000_000 + b"0]}"
    tracemalloc.start()
    try:
        assert "more than 5,000,000 JSON values" in refusal(data)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_large_notebook_of_large_outputs_is_read() -> None:
    text = "a,b:c[d]{e}\n" * 500_000
    output = {"output_type": "stream", "name": "stdout", "text": text}
    assert read(written(code(outputs=[output] * 3))).cells[0].outputs[2]["text"] == text


SOUND = document(
    CODE,
    {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "# x"},
    code(
        id="two",
        metadata={"sandcell": {"status": "ok"}},
        outputs=[
            {"output_type": "stream", "name": "stdout", "text": "x"},
            {"output_type": "display_data", "data": {"text/plain": "x"}, "metadata": {}},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["x"]},
        ],
    ),
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, child in children for place in places(child, (*way, key)))]


def put(whole: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    whole = copy.deepcopy(whole)
    holder = whole
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    return whole


@settings(max_examples=300)
@given(st.sampled_from(places(SOUND)), ANY_JSON | st.sampled_from([[], {}, "", 0, True, None, "code", "stream"]))
def test_any_value_at_any_place_is_read_or_refused_with_a_sentence(way: tuple[Any, ...], value: Any) -> None:
    data = json.dumps(put(SOUND, way, value)).encode()
    try:
        made = read(data)
    except InvalidNotebook as error:
        said = str(error)
    else:
        assert isinstance(made, NotebookFile)
        assert read(json.dumps(made.document).encode()) == made
        return
    assert said.isprintable()
    assert len(said) < 400
