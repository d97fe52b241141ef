"""The chain shows every kind of tampering and no editor's ways of writing the same cell."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.errors import InvalidManifest
from kernels.notebook import chain
from kernels.notebook.chain import Link

SESSION, ENVIRONMENT = "6f4d6e0e-0000-4000-8000-000000000001", "python"


def chained(count: int = 5, session_id: str = SESSION) -> tuple[dict[str, Any], chain.Manifest]:
    previous = chain.genesis(session_id, ENVIRONMENT)
    cells: list[dict[str, Any]] = []
    for number in range(count):
        cell = {
            "id": f"cell-{number}",
            "cell_type": "code",
            "source": f"x = {number}\nx / 2",
            "execution_count": number + 1,
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": "one\ntwo\n"},
                {"output_type": "display_data", "data": {"text/plain": "a\nb", "application/json": [1.0, "x"]}},
            ],
            "metadata": {"sandcell": {"execution_id": f"cell-{number}", "cpu_seconds": 2.0, "previous": previous}},
        }
        previous = chain.link(cell, previous)
        cell["metadata"]["sandcell"]["hash"] = previous  # type: ignore[index]
        cells.append(cell)
    links = [Link(cell["id"], cell["metadata"]["sandcell"]["hash"]) for cell in cells]
    return _notebook(cells, session_id), chain.manifest(session_id, ENVIRONMENT, links)


def _notebook(cells: list[dict[str, Any]], session_id: str) -> dict[str, Any]:
    about = {"session_id": session_id, "environment": ENVIRONMENT}
    return {"cells": cells, "metadata": {"sandcell": about}, "nbformat": 4, "nbformat_minor": 5}


def bad(notebook: Any, against: chain.Manifest | None = None) -> tuple[int | None, str]:
    found = chain.verify(notebook, against)
    assert not found.whole
    assert found.first_bad is not None
    return found.first_bad.index, found.first_bad.why


@pytest.mark.parametrize("count", [0, 1, 5])
def test_an_untouched_notebook_is_whole(count: int) -> None:
    notebook, manifest = chained(count)

    assert chain.verify(notebook, manifest) == chain.Verified(whole=True, cells=count)
    assert chain.verify(notebook) == chain.Verified(whole=True, cells=count)


def test_what_editors_do_to_a_cell_does_not_count() -> None:
    notebook, manifest = chained()
    for cell in notebook["cells"]:
        cell["metadata"].update(trusted=True, jupyter={"outputs_hidden": True})
        cell["source"] = cell["source"].splitlines(keepends=True)
        cell["outputs"][0]["text"] = cell["outputs"][0]["text"].splitlines(keepends=True)
        cell["outputs"][1]["data"]["text/plain"] = ["a\n", "b"]
        cell["outputs"][1]["data"]["application/json"] = [1, "x"]
        cell["metadata"]["sandcell"]["cpu_seconds"] = 2
    assert chain.verify(json.loads(json.dumps(notebook)), manifest).whole


def test_what_nbformat_writes_and_reads_is_whole() -> None:
    notebook, manifest = chained()
    for cell in notebook["cells"]:
        cell["outputs"][1]["metadata"] = {}
    again, manifest = _chain_again(notebook["cells"])

    written = nbformat.writes(nbformat.from_dict(again))  # type: ignore[no-untyped-call]

    assert chain.verify(json.loads(written), manifest).whole
    assert chain.verify(nbformat.reads(written, as_version=4), manifest).whole  # type: ignore[no-untyped-call]


def _chain_again(cells: list[dict[str, Any]]) -> tuple[dict[str, Any], chain.Manifest]:
    previous = chain.genesis(SESSION, ENVIRONMENT)
    for cell in cells:
        cell["metadata"]["sandcell"]["previous"] = previous
        previous = cell["metadata"]["sandcell"]["hash"] = chain.link(cell, previous)
    links = [Link(cell["id"], cell["metadata"]["sandcell"]["hash"]) for cell in cells]
    return _notebook(cells, SESSION), chain.manifest(SESSION, ENVIRONMENT, links)


CHANGES = {
    "source": lambda cell: cell.update(source="x = 'forged'"),
    "kind": lambda cell: cell.update(cell_type="markdown"),
    "id": lambda cell: cell.update(id="other"),
    "number": lambda cell: cell.update(execution_count=9),
    "text": lambda cell: cell["outputs"][0].update(text="forged"),
    "stream": lambda cell: cell["outputs"][0].update(name="stderr"),
    "output gone": lambda cell: cell["outputs"].pop(),
    "output added": lambda cell: cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": "!"}),
    "record": lambda cell: cell["metadata"]["sandcell"].update(cpu_seconds=3.0),
    "record grown": lambda cell: cell["metadata"]["sandcell"].update(author="somebody"),
    "hash": lambda cell: cell["metadata"]["sandcell"].update(hash="0" * 64),
    "true for one": lambda cell: cell.update(execution_count=True),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_a_changed_cell_is_named(change: str) -> None:
    notebook, manifest = chained()
    at = 0 if change == "true for one" else 2
    CHANGES[change](notebook["cells"][at])

    assert bad(notebook) == (at, "it was changed after it was recorded")
    assert bad(notebook, manifest) == bad(notebook)


def test_a_missing_cell_is_noticed_at_the_next() -> None:
    notebook, manifest = chained()
    del notebook["cells"][2]

    assert bad(notebook) == bad(notebook, manifest)
    index, why = bad(notebook)
    assert index == 2
    assert "missing" in why


def test_an_added_cell_is_named() -> None:
    notebook, manifest = chained()
    notebook["cells"].insert(3, {"id": "x", "cell_type": "code", "source": "", "metadata": {}, "outputs": []})

    assert bad(notebook, manifest) == (3, "it has no record: it was added, or its metadata was removed")


@pytest.mark.parametrize(("origin", "to", "at"), [(1, 3, 1), (3, 1, 1), (0, 4, 0), (4, 0, 0)])
def test_a_moved_cell_is_noticed(origin: int, to: int, at: int) -> None:
    notebook, manifest = chained()
    notebook["cells"].insert(to, notebook["cells"].pop(origin))

    index, why = bad(notebook, manifest)
    assert index == at
    assert "moved" in why


def test_a_doubled_cell_is_noticed() -> None:
    notebook, _ = chained()
    notebook["cells"].insert(2, copy.deepcopy(notebook["cells"][1]))

    index, _ = bad(notebook)
    assert index in {1, 2}


def test_a_cut_tail_shows_against_the_manifest() -> None:
    notebook, manifest = chained()
    del notebook["cells"][3:]

    assert chain.verify(notebook).whole
    assert bad(notebook, manifest) == (3, "it is missing: 2 cells were cut off the end")


def test_a_cut_tail_shows_by_what_the_notebook_says_of_itself() -> None:
    notebook, manifest = chained()
    notebook["metadata"]["sandcell"].update(head=manifest.head, cells=5)
    assert chain.verify(notebook).whole
    del notebook["cells"][4]

    assert bad(notebook)[0] == 4


def test_a_chain_made_anew_shows_against_the_manifest() -> None:
    notebook, manifest = chained()
    notebook["cells"][2]["source"] = "forged"
    forged, _ = _chain_again(notebook["cells"])

    assert chain.verify(forged).whole
    index, why = bad(forged, manifest)
    assert index == 2
    assert "written again" in why


def test_a_cell_after_the_manifests_end_is_named() -> None:
    longer, _ = chained(6)
    _, manifest = chained(5)

    assert bad(longer, manifest) == (5, "it was added: the manifest ends before it")


def test_another_sessions_notebook_is_not_the_manifests() -> None:
    notebook, _ = chained()
    _, other = chained(session_id="6f4d6e0e-0000-4000-8000-000000000002")

    index, why = bad(notebook, other)
    assert index is None
    assert other.session_id in why


def test_a_renamed_session_breaks_the_first_link() -> None:
    notebook, _ = chained()
    notebook["metadata"]["sandcell"]["session_id"] = "another"

    assert bad(notebook)[0] == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(
    JSON, st.integers(0, 4), st.sampled_from(["id", "source", "outputs", "metadata", "cell_type", "execution_count"])
)
def test_nothing_in_a_notebook_raises(value: Any, at: int, field: str) -> None:
    notebook, manifest = chained()
    before = copy.deepcopy(notebook["cells"][at][field])
    notebook["cells"][at][field] = value

    found = chain.verify(notebook, manifest)

    if value != before:
        assert found.first_bad is not None
        assert found.first_bad.index == at
    assert not chain.verify(value, manifest).whole
    assert not chain.verify({"cells": [value], "metadata": value}, manifest).whole


def test_a_cell_nested_too_deep_is_bad_and_no_error() -> None:
    notebook, _ = chained()
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    notebook["cells"][1]["outputs"] = deep

    assert bad(notebook)[0] == 1
    while deep:  # taken apart from the outside: freeing it whole is as deep
        deep = deep[0]


def test_a_manifest_is_read_as_it_was_written() -> None:
    _, manifest = chained()
    assert chain.read_manifest(msgspec.json.encode(manifest)) == manifest


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"format": 1}', b"[" * 100_000])
def test_what_is_no_manifest_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(InvalidManifest, match="no manifest"):
        chain.read_manifest(data)


def test_a_manifest_of_a_later_format_is_refused() -> None:
    _, manifest = chained()
    with pytest.raises(InvalidManifest, match="format 2"):
        chain.read_manifest(msgspec.json.encode(msgspec.structs.replace(manifest, format=2)))


@pytest.mark.parametrize("field", ["head", "genesis", "session_id"])
def test_a_manifest_that_contradicts_itself_is_refused(field: str) -> None:
    _, manifest = chained()
    with pytest.raises(InvalidManifest, match="contradicts"):
        chain.read_manifest(msgspec.json.encode(msgspec.structs.replace(manifest, **{field: "other"})))
