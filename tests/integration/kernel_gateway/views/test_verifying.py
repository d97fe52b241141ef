"""`sandcell notebook verify`: whole after any tool has saved it again, and not after anybody has changed it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner, Result

from sandcell.cli.main import sandcell
from tests.running_service import RunningService

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def written(service: RunningService, ended: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook, and beside it its manifest."""
    place = tmp_path_factory.mktemp("notebooks") / "history.ipynb"
    manifest = place.with_suffix(".json")
    connection = ("--url", service.url, "--token", service.token)
    done = CliRunner().invoke(
        sandcell, ["notebook", "get", ended, "-o", str(place), "--manifest", str(manifest), *connection]
    )
    assert done.exit_code == 0, done.output
    return place


def verified(file: Path, manifest: Path | None = None) -> Result:
    return CliRunner().invoke(
        sandcell, ["notebook", "verify", str(file), *(["--manifest", str(manifest)] if manifest else [])]
    )


def changed(written: Path, tmp_path: Path, change: Change) -> Path:
    """A copy of the notebook, without a manifest beside it, after a change."""
    document = json.loads(written.read_bytes())
    change(document)
    copy = tmp_path / "copy.ipynb"
    copy.write_text(json.dumps(document))
    return copy


def test_a_notebook_as_it_was_written_is_whole(written: Path, tmp_path: Path) -> None:
    cells = len(nbformat.read(written, 4).cells)
    for file, by in ((written, "by "), (changed(written, tmp_path, lambda _: None), "in itself")):
        done = verified(file)
        assert done.exit_code == 0, done.output
        assert f"is whole: {cells} cells, {by}" in done.stderr


def save_with_nbformat(document: dict[str, Any]) -> str:
    return str(nbformat.writes(nbformat.from_dict(document)))


def save_with_nbconvert(document: dict[str, Any]) -> str:
    from nbconvert.exporters import NotebookExporter  # it takes long, in each process that collects tests

    return str(NotebookExporter().from_notebook_node(nbformat.from_dict(document))[0])


def save_like_jupyterlab(document: dict[str, Any]) -> str:
    """Lines split, keys in its order, whole numbers without a fraction, its own metadata in each cell."""
    for cell in document["cells"]:
        cell["metadata"] |= {"tags": ["seen"], "collapsed": True, "jupyter": {"outputs_hidden": False}, "trusted": True}
        cell["source"] = cell["source"].splitlines(keepends=True)
    document["metadata"] |= {"toc": {"base_numbering": 1}, "widgets": {}}
    document["metadata"]["language_info"] |= {
        "version": "3.11.7",
        "file_extension": ".py",
        "pygments_lexer": "ipython3",
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True)
    return re.sub(r"(?<=[0-9])\.0(?=[,\n}\]])", "", text) + "\n"


def save_like_papermill(document: dict[str, Any]) -> str:
    for cell in document["cells"]:
        cell["metadata"] |= {
            "papermill": {"duration": 0.5, "status": "completed"},
            "execution": {"iopub.status.idle": "t"},
        }
    document["metadata"]["papermill"] = {"parameters": {}, "version": "2.6"}
    return json.dumps(document, indent=1)


def save_with_preprocessors(document: dict[str, Any]) -> str:
    """nbconvert, removing what it is not asked to keep."""
    from nbconvert.preprocessors import ClearMetadataPreprocessor, TagRemovePreprocessor

    node = nbformat.from_dict(document)
    node, _ = TagRemovePreprocessor(remove_cell_tags=["gone"]).preprocess(node, {})
    keep = {("kernelspec",), ("language_info",), ("sandcell",)}
    cleaned, _ = ClearMetadataPreprocessor(
        preserve_nb_metadata_mask=keep, preserve_cell_metadata_mask={("sandcell",)}
    ).preprocess(node, {})
    return str(nbformat.writes(cleaned))


SAVERS = [save_with_nbformat, save_with_nbconvert, save_like_jupyterlab, save_like_papermill, save_with_preprocessors]


@pytest.mark.parametrize("save", SAVERS)
def test_saving_it_again_keeps_it_whole(written: Path, tmp_path: Path, save: Callable[[dict[str, Any]], str]) -> None:
    copy = tmp_path / "copy.ipynb"
    copy.write_text(save(json.loads(written.read_bytes())))
    assert copy.read_bytes() != written.read_bytes()
    done = verified(copy, written.with_suffix(".json"))
    assert done.exit_code == 0, done.output


def swap(cells: list[Any], one: int, other: int) -> None:
    cells[one], cells[other] = cells[other], cells[one]


CHANGES: list[tuple[Change, int]] = [
    (lambda d: d["cells"][1].update(source="x = 42"), 2),
    (lambda d: d["cells"][1]["outputs"][0].update(text="43\n"), 2),
    (lambda d: d["cells"][1]["outputs"].clear(), 2),
    (lambda d: d["cells"][1].update(execution_count=9), 2),
    (lambda d: d["cells"][1]["metadata"]["sandcell"].update(author="somebody else"), 2),
    (lambda d: d["cells"][2]["metadata"].pop("sandcell"), 3),
    (lambda d: d["cells"][2].update(id="other"), 3),
    (lambda d: d["cells"].pop(2), 3),
    (lambda d: swap(d["cells"], 2, 3), 3),
    (lambda d: d["cells"].insert(2, {**d["cells"][1]}), 3),
    (lambda d: d["cells"].pop(0), 1),
]


@pytest.mark.parametrize(("change", "first"), CHANGES)
def test_a_change_is_named_by_the_first_cell_that_it_shows_in(
    written: Path, tmp_path: Path, change: Change, first: int
) -> None:
    done = verified(changed(written, tmp_path, change))
    assert done.exit_code == 1
    assert f"is not whole: cell {first} " in done.stderr


def test_a_cut_off_end_shows_by_the_manifest(written: Path, tmp_path: Path) -> None:
    copy = changed(written, tmp_path, lambda d: d["cells"].pop())
    done = verified(copy, written.with_suffix(".json"))
    assert done.exit_code == 1
    assert "cut off" in done.stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "empty"), (b"{", "not JSON"), (b"[]", "JSON object"), (b'{"cells": []}', "no record"), (b"{}", "no cells")],
)
def test_what_is_no_notebook_of_a_session_is_not_whole(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "broken.ipynb"
    file.write_bytes(content)
    done = verified(file)
    assert done.exit_code == 1
    assert why in done.stderr


def test_a_broken_manifest_is_wrong_usage(written: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    assert verified(written, broken).exit_code == 2


@pytest.mark.parametrize(
    ("name", "beginning"), [("a.html", b"<!DOCTYPE"), ("a.py", b"#!"), ("a.ipynb", b"{"), ("a", b"{")]
)
def test_the_name_of_the_file_says_the_form(
    service: RunningService, ended: str, tmp_path: Path, name: str, beginning: bytes
) -> None:
    connection = ("--url", service.url, "--token", service.token)
    done = CliRunner().invoke(sandcell, ["notebook", ended, "-o", str(tmp_path / name), *connection])
    assert done.exit_code == 0, done.output
    assert (tmp_path / name).read_bytes().startswith(beginning)
