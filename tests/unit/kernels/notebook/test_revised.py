"""A revised cell is whole as any tool saves it, and not after anybody has changed, added or removed an update."""

from __future__ import annotations

import copy
from typing import Any

import nbformat
import pytest

from kernels.notebook import chain
from kernels.notebook.chain import Link
from kernels.notebook.revised import Revision, digest_content, find_written_outputs, revise, revisers

SESSION, ENVIRONMENT = "6f4d6e0e-0000-4000-8000-000000000001", "python"
BEFORE = {"output_type": "display_data", "data": {"text/plain": "0 %"}, "metadata": {}}
AFTER = {"data": {"text/plain": "one\ntwo", "application/json": [1.0]}, "metadata": {"width": 2.0}}


def code(name: str, outputs: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    metadata = {"sandcell": {"execution_id": name, **about}}
    cell = {"id": name, "cell_type": "code", "source": name, "execution_count": 1, "outputs": outputs}
    return {**cell, "metadata": metadata}


def recorded() -> tuple[dict[str, Any], chain.Manifest]:
    """A cell with two displays, and one that updates the second of them."""
    update = {"execution_id": "first", "output": 1, "sha256": digest_content(AFTER)}
    cells = [code("first", [BEFORE, BEFORE]), code("second", [], updates=[update]), code("third", [])]
    previous = chain.genesis(SESSION, ENVIRONMENT)
    for cell in cells:
        cell["metadata"]["sandcell"]["previous"] = previous
        previous = cell["metadata"]["sandcell"]["hash"] = chain.link(cell, previous)
    links = [Link(cell["id"], cell["metadata"]["sandcell"]["hash"]) for cell in cells]
    cells[0] = revise(cells[0], [Revision(1, "second", AFTER)])
    about = {"session_id": SESSION, "environment": ENVIRONMENT}
    notebook = {"cells": cells, "metadata": {"sandcell": about}, "nbformat": 4, "nbformat_minor": 5}
    return copy.deepcopy(notebook), chain.manifest(SESSION, ENVIRONMENT, links)


def record_of(notebook: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return dict(notebook["cells"][index])["metadata"]["sandcell"]  # type: ignore[no-any-return]


def test_a_cell_shows_the_update_and_keeps_what_it_showed() -> None:
    notebook, manifest = recorded()
    cell = notebook["cells"][0]
    assert cell["outputs"] == [BEFORE, {**BEFORE, **AFTER}]
    assert (find_written_outputs(cell), revisers(cell)) == ([BEFORE, BEFORE], {"second"})
    assert chain.verify(notebook, manifest) == chain.Verified(whole=True, cells=3)
    assert revise(cell, [Revision(7, "second", AFTER)]) == cell


def test_it_is_whole_as_nbformat_saves_it() -> None:
    notebook, manifest = recorded()
    saved = nbformat.writes(nbformat.from_dict(notebook))  # type: ignore[no-untyped-call]
    assert chain.verify(nbformat.reads(saved, 4), manifest).whole  # type: ignore[no-untyped-call]


def back(notebook: dict[str, Any]) -> None:
    notebook["cells"][0]["outputs"][1] = record_of(notebook).pop("revised")[0]["original"]


def another(notebook: dict[str, Any]) -> None:
    """A revision of an output that no cell has updated."""
    kept = {"output": 0, "by": "second", "original": BEFORE}
    record_of(notebook)["revised"].append(kept)
    notebook["cells"][0]["outputs"][0] = {**BEFORE, **AFTER}


NOT_IT = "its output 2 is not what a later cell made of it"
CHANGES = {
    "the output": (lambda n: n["cells"][0]["outputs"][1]["data"].update({"text/plain": "three"}), 0, NOT_IT),
    "its metadata": (lambda n: n["cells"][0]["outputs"][1]["metadata"].update(width=3), 0, NOT_IT),
    "its kind": (lambda n: n["cells"][0]["outputs"][1].update(output_type="execute_result"), 0, NOT_IT),
    "back": (back, 0, NOT_IT),
    "another": (another, 0, "its output 1 was changed after it was recorded: no cell of the notebook updates it"),
    "original": (
        lambda n: record_of(n)["revised"][0].update(original=AFTER),
        0,
        "it was changed after it was recorded",
    ),
    "junk": (lambda n: record_of(n, 2).update(revised=[7]), 2, "what it says of updates of its outputs"),
    "nothing": (lambda n: record_of(n, 2).update(revised=None), 2, "what it says of updates of its outputs"),
    "doubled": (lambda n: record_of(n)["revised"].append(record_of(n)["revised"][0]), 0, "it was changed after"),
    "the digest": (lambda n: record_of(n, 1)["updates"][0].update(sha256="0"), 1, "it was changed after it was"),
    "no updater": (lambda n: n["cells"].pop(1), 1, "a cell before it is missing or was put in its place"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_found(name: str) -> None:
    notebook, manifest = recorded()
    change, index, why = CHANGES[name]
    change(notebook)  # type: ignore[operator]
    for against in (None, manifest):
        found = chain.verify(notebook, against)
        assert found.first_bad is not None
        assert found.first_bad.index == index
        assert name == "no updater" or found.first_bad.why.startswith(why), found.first_bad
