"""The set of labelled histories is whole: enough of it, both labels, and no label that its own outputs refute."""

import json
from collections import Counter

from tests.replay_histories import DATA, LABELS, RUNS, History, load, pack, unpack

HISTORIES = load()


def test_there_are_enough_histories_and_names_are_used_once() -> None:
    names = Counter((history.family, history.name) for history in HISTORIES)
    assert len(HISTORIES) >= 150
    assert [name for name, times in names.items() if times > 1] == []


def test_every_family_but_the_ordinary_one_has_both_labels() -> None:
    labels: dict[str, set[str]] = {}
    for history in HISTORIES:
        labels.setdefault(history.family, set()).update(cell.label for cell in history.cells)
    one_sided = {family for family, found in labels.items() if not {"same", "different"} <= found}
    assert one_sided <= {"ordinary_sessions"}
    assert set().union(*labels.values()) == set(LABELS)


def test_what_is_labelled_different_shows_something_else_in_both_runs_of_the_replay() -> None:
    assert [where for where, shown in _cells("different") if shown[0] in shown[1:]] == []


def test_what_shows_the_same_in_every_run_is_labelled_so() -> None:
    alike = [
        where for label in ("different", "undecidable") for where, shown in _cells(label) if shown == shown[:1] * 3
    ]
    assert alike == []


def test_histories_without_changed_files_are_never_labelled_different() -> None:
    unchanged = [history for history in HISTORIES if not history.changed_files]
    assert [_name(history) for history in unchanged if any(cell.label == "different" for cell in history.cells)] == []
    assert sum(history.family == "ordinary_sessions" for history in unchanged) >= 60


def test_the_set_stays_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 3_000_000


def test_texts_come_out_of_the_files_as_they_went_in() -> None:
    text = "a\r\rb\n\n\nc\x0bd\n" + "e\n" * 3
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": text},
        {"output_type": "display_data", "metadata": {}, "data": {"text/plain": text, "application/json": [text]}},
        {"output_type": "error", "ename": "E", "evalue": text, "traceback": [text]},
    ]
    assert unpack(pack(outputs)) == outputs


def _cells(label: str) -> list[tuple[str, list[str]]]:
    """Of each cell with `label` its history and its outputs in each run, as JSON: the order of keys counts."""
    found = [(_name(history), cell) for history in HISTORIES for cell in history.cells if cell.label == label]
    return [(name, [json.dumps(cell.runs[run].outputs) for run in RUNS]) for name, cell in found]


def _name(history: History) -> str:
    return f"{history.family}/{history.name}"
