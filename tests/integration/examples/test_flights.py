"""The flights example against a real service: its numbers, its notebook, its plots, its files."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import struct
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from examples.flights import run as example
from sandcell import Client
from tests.integration.examples import by_hand
from tests.running_service import RunningService

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Done:
    """What one run of the example said and left."""

    said: str
    output: Path


@pytest.fixture(scope="module")
def done(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Done:
    return carry_out(service, tmp_path_factory.mktemp("flights"))


def carry_out(service: RunningService, output: Path) -> Done:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        example.main(["--url", service.url, "--token", service.token, "--output", str(output)])
    return Done(said.getvalue(), output)


@pytest.fixture(scope="module")
def expected() -> by_hand.Numbers:
    return by_hand.numbers(example.DATA)


def test_the_model_is_the_one_computed_by_hand(done: Done, expected: by_hand.Numbers) -> None:
    with (done.output / "model.csv").open(newline="") as file:
        found = {row["feature"]: float(row["minutes"]) for row in csv.DictReader(file)}
    assert found == pytest.approx(expected.coefficients, abs=1e-8)
    assert found["rain or snow (yes)"] == pytest.approx(11.862, abs=0.001)


def test_the_summary_has_the_numbers_computed_by_hand(done: Done, expected: by_hand.Numbers) -> None:
    found = json.loads((done.output / "summary.json").read_text())
    assert (found["scheduled"], found["cancelled"]) == (expected.scheduled, expected.cancelled) == (111_279, 1_863)
    assert found["mean_delay"] == pytest.approx(expected.mean_delay, rel=1e-12)
    assert found["r_squared"] == pytest.approx(expected.r_squared, abs=1e-9)
    assert found["mean_error"] == pytest.approx(expected.mean_error, abs=1e-9)
    assert (found["latest_airline"], found["worst_day"]) == ("Endeavor Air Inc.", "2013-07-10")


def test_every_unseen_hour_is_predicted(done: Done) -> None:
    with (done.output / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    errors = [abs(float(row["actual"]) - float(row["predicted"])) for row in rows]
    assert len(rows) == 1_696
    assert sum(errors) / len(errors) == pytest.approx(
        json.loads((done.output / "summary.json").read_text())["mean_error"]
    )


def test_the_notebook_holds_every_call_with_its_images(done: Done) -> None:
    notebook: nbformat.NotebookNode = nbformat.read(done.output / "history.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    calls = example.cells()
    assert [cell.source.strip() for cell in code[: len(calls)]] == [call.code.strip() for call in calls]
    assert [cell.execution_count for cell in code[: len(calls)]] == list(range(1, len(calls) + 1))
    images = [
        base64.b64decode(output.data["image/png"])
        for cell in code
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert images == [path.read_bytes() for path in plots(done)]
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]


def test_the_plots_are_images_of_a_size_to_look_at(done: Done) -> None:
    assert [path.stem for path in plots(done)] == ["1-pivot", "2-plot", "3-days", "4-evaluate"]
    for path in plots(done):
        content = path.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        assert content.startswith(PNG)
        assert width > 600
        assert height > 250


def plots(done: Done) -> list[Path]:
    return sorted(done.output.glob("*.png"))


def test_the_account_names_the_steps_and_the_paths(done: Done) -> None:
    for step in ("1. Load", "2. Clean", "11. Read back", "12. Shell", "What you saw"):
        assert f"\n{step}" in done.said
    for path in [*plots(done), done.output / "history.ipynb", done.output / "summary.json"]:
        assert f"  {path}\n" in done.said
    assert "late on average" in done.said


def test_a_second_run_finds_the_same_and_leaves_a_workspace_each(done: Done, service: RunningService) -> None:
    before = {path.name: path.read_bytes() for path in done.output.glob("*.csv")}
    again = carry_out(service, done.output)
    assert {path.name: path.read_bytes() for path in again.output.glob("*.csv")} == before
    with Client(service.url, service.token) as client:
        sessions = [one for one in client.list_sessions().items if one.name == "flights"]
        assert len(sessions) >= 2
        for session in sessions[:2]:
            kept = {entry.path: entry.size for entry in client.workspace_files(session.workspace_id)}
            assert session.status == "TERMINATED"
            assert kept["results/model.csv"] == len(before["model.csv"])
            assert client.workspace_download(session.workspace_id, "results/model.csv") == before["model.csv"]
