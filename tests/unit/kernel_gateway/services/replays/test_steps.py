"""From a notebook's cells to what a replay does with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.services.replays.steps import (
    Step,
    count_generation,
    is_of_pause,
    is_unchanged_since,
    last_step,
    stands_after,
    steps_of,
)
from kernel_gateway.services.sessions.session_variables import _describe
from kernel_gateway.storage.executions import WrittenFiles
from kernel_gateway.storage.sessions import Undone
from kernels.notebook.notebook_file import CodeCell, NotebookFile
from sandcell.models.sessions import Restored
from workspace_sync.workspaces.file_info import FileInfo


def steps(
    *cells: tuple[str, dict[str, Any]],
    language: str | None = None,
    undone: Sequence[Undone] = (),
    notes: Sequence[tuple[int, str]] = (),
    notebook_language: str = "python",
) -> list[Step]:
    """Steps of cells, each a source and its `metadata.sandcell`; a markdown cell comes first, and then `notes`.

    Those are on variables of kernels of these generations.
    """
    made = [CodeCell(index, f"cell-{index}", source, about=about) for index, (source, about) in enumerate(cells, 1)]
    metadata = {} if language is None else {"language": language}
    document: dict[str, Any] = {"cells": [{"metadata": metadata} for _ in range(len(cells) + 1)]}
    for generation, text in notes:
        about = {"kind": "variables", "generation": generation}
        document["cells"].append({"metadata": {"sandcell": about}, "source": text})
    return steps_of(NotebookFile(made, notebook_language, "any", document), undone)


def ran(*generations: int) -> list[tuple[str, dict[str, Any]]]:
    """Cells that ran on these kernels, `cell-1` the first."""
    return [(f"x{number}", {"status": "ok", "generation": each}) for number, each in enumerate(generations, 1)]


def test_what_was_undone_is_not_run_and_the_kernel_after_it_counts_as_the_one_before() -> None:
    undone = [Undone("cell-1", "cell-2", 2), Undone("cell-3", "cell-5", 4)]
    first, second, third, fourth, fifth, sixth, seventh = steps(*ran(1, 1, 2, 2, 3, 4, 5), undone=undone)
    assert [bool(each.skipped) for each in (first, second, third, fourth, fifth, sixth, seventh)] == [
        *(False, True, False, True, True, False, False)
    ]
    assert second.skipped == "it was undone"
    assert (first.generation, third.generation, sixth.generation, seventh.generation) == (1, 1, 1, 2)
    assert third.together[: third.place] == ["x1", ""]
    assert sixth.together[: sixth.place] == ["x1", "", "x3", "", ""]
    assert seventh.together == ["x7"], "that kernel was a blank one"
    every = [first, second, third, fourth, fifth, sixth, seventh]
    assert [count_generation(each, every, undone) for each in (1, 2, 4, 5)] == [1, 1, 1, 2]


def test_where_all_was_undone_the_next_kernel_counts_as_the_first_one() -> None:
    undone = [Undone("", "cell-2", 3)]
    every = steps(*ran(2, 2, 3, 3), undone=undone)
    assert [bool(each.skipped) for each in every] == [True, True, False, False]
    assert [each.generation for each in every] == [2, 2, 2, 2]
    assert [count_generation(each, every, undone) for each in (2, 3, 4)] == [2, 2, 3]
    assert [stands_after(each, every, undone) for each in (3, 4)] == [True, False]


def test_a_kernel_with_the_variables_of_the_one_before_counts_as_that_and_a_blank_one_does_not() -> None:
    notes = [(each, _describe(Restored(each, "today", 0))) for each in (1, 2, 4)]
    notes.append((3, _describe(Restored(3, "today", 0, why="they were lost"))))
    every = steps(*ran(1, 2, 2, 3, 5), notes=notes)
    assert [each.generation for each in every] == [1, 1, 1, 2, 3], "the fifth was blank, the fourth ran nothing"
    assert [each.carried for each in every] == [False, True, False, False, False]
    assert every[0].together == ["x1", "x2", "x3"]
    assert [count_generation(each, every, ()) for each in (1, 2, 3, 5)] == [1, 1, 2, 3]


def test_after_a_cell_stands_what_its_kernel_had_and_no_later_blank_one() -> None:
    undone = [Undone("cell-2", "cell-3", 3)]
    every = steps(*ran(1, 2, 2, 3), undone=undone)
    assert [stands_after(each, every[:1], undone) for each in (1, 2)] == [True, False]
    assert [stands_after(each, every[:2], undone) for each in (1, 2, 3, 4)] == [False, True, True, False]
    assert [stands_after(each, every, undone) for each in (2, 3, 4)] == [True, True, False]
    assert stands_after(7, [], ())


def test_what_was_undone_in_cells_that_are_not_here_leaves_the_others_as_they_are() -> None:
    one, two = steps(*ran(1, 2), undone=[Undone("gone", "cell-2", 2)])
    assert (one.skipped, two.skipped, two.generation) == ("", "", 2)


def test_a_foreign_cell_is_code_and_numbered_among_all_cells() -> None:
    (step,) = steps(("x = 1", {}))
    assert (step.number, step.kind, step.source, step.language, step.runtime) == (
        2,
        "code",
        "x = 1",
        "python",
        "python",
    )
    assert step.recorded is None
    assert not step.skipped


def test_a_recorded_command_runs_as_a_command() -> None:
    command, task, magic = steps(
        ("%%bash\necho hi", {"kind": "command", "exit_code": 0, "status": "ok"}),
        ("%%bash\nsleep 9", {"kind": "command", "task": "t", "status": "ok"}),
        ("%%bash\necho magic", {"kind": "code", "status": "ok"}),
    )
    assert (command.kind, command.source, command.exit_code) == ("command", "echo hi", 0)
    assert (task.kind, task.source) == ("task", "sleep 9")
    assert (magic.kind, magic.source) == ("code", "%%bash\necho magic")


def test_a_recorded_cell_of_another_language_runs_in_it() -> None:
    (deno,) = steps(("let a: number = 1", {"runtime": "deno", "status": "ok"}), language="typescript")
    assert (deno.language, deno.runtime) == ("typescript", "deno")
    (node,) = steps(("console.log(1)", {"runtime": "nodejs", "status": "ok"}))
    assert (node.language, node.runtime) == ("javascript", "nodejs")
    (odd,) = steps(("1", {"runtime": "cobol", "status": "ok"}), language="cobol")
    assert (odd.language, odd.runtime) == ("cobol", "cobol"), "the session refuses it, or has such a kernel"
    (second,) = steps(("1", {"runtime": "xpython", "status": "ok"}))
    assert (second.language, second.runtime) == ("python", "xpython")


def test_a_cell_that_does_not_say_what_it_is_written_in_is_in_the_notebooks_language() -> None:
    mine = {"execution_id": "mine", "status": "ok"}
    foreign, python, own = steps(
        ("x <- 1", {}), ("x = 1", mine), ("y <- 1", {**mine, "runtime": "ir"}), notebook_language="r"
    )
    assert (foreign.language, foreign.runtime) == ("r", ""), "whatever the session has for it"
    assert (python.language, python.runtime) == ("python", "python"), "of a record of Python, which says nothing of it"
    assert own.runtime == "ir"


@pytest.mark.parametrize("status", ["rejected", "queued", "running"])
def test_what_never_ran_is_not_run(status: str) -> None:
    (step,) = steps(("x", {"status": status}))
    assert status in step.skipped
    assert step.recorded is None


def test_what_was_interrupted_before_it_ran_is_not_run() -> None:
    (step,) = steps(("x", {"status": "interrupted"}))
    assert "before it ran" in step.skipped


def test_what_was_stopped_is_stopped_after_as_long() -> None:
    about = {"started_at": "2026-01-01T00:00:00.000000Z", "ended_at": "2026-01-01T00:00:07.500000Z"}
    timed_out, interrupted, ended = steps(
        ("a", {**about, "status": "timeout"}),
        ("b", {"started_at": about["started_at"], "ended_at": "no time", "status": "interrupted"}),
        ("c", {**about, "status": "ok"}),
    )
    assert (timed_out.timeout_seconds, interrupted.timeout_seconds, ended.timeout_seconds) == (7.5, 1.0, None)


def test_names_of_another_kernel_are_not_at_hand() -> None:
    made = steps(
        ("x = 1", {"generation": 1, "status": "ok"}),
        ("y = 2", {"generation": 2, "status": "ok"}),
        ("z = 3", {"generation": 2, "status": "ok", "clear_context": True}),
        ("w", {"generation": 2, "status": "ok"}),
    )
    assert [(step.place, step.together) for step in made] == [
        (0, ["x = 1"]),
        (0, ["y = 2"]),
        (0, ["z = 3", "w"]),
        (1, ["z = 3", "w"]),
    ]


def test_a_cell_to_stop_at_goes_by_its_id_or_its_number() -> None:
    made = steps(("a", {}), ("b", {}), ("c", {}))
    assert last_step(made, None) == 3
    assert last_step(made, "cell-2") == 2
    assert last_step(made, 2) == 1
    assert last_step(made, "4") == 3


@pytest.mark.parametrize("until", [1, 0, -3, 99, "nothing", "", "9" * 30])
def test_a_cell_that_is_not_there_is_named_with_those_that_are(until: int | str) -> None:
    with pytest.raises(InvalidRequest, match="its code cells are 2, 3"):
        last_step(steps(("a", {}), ("b", {})), until)


LEFT = WrittenFiles(frozenset({"made"}), complete=True)


@pytest.mark.parametrize(
    ("path", "modified", "later", "unchanged"),
    [
        ("given", 9.0, LEFT, True),
        ("given", 9.998, LEFT, False),  # within a tick: it may be of either side
        ("given", 10.5, LEFT, False),
        ("made", 9.0, LEFT, False),  # as one that was unpacked with its old time
        ("made", 9.0, WrittenFiles(), True),  # nothing else is known of it
    ],
)
def test_a_file_is_as_it_was_by_its_time_unless_a_later_cell_is_known_to_have_left_it(
    path: str, modified: float, later: WrittenFiles, unchanged: bool
) -> None:
    assert is_unchanged_since(10.0, later, FileInfo(path, "file", 1, modified, 0o644)) is unchanged
    assert is_unchanged_since(None, later, FileInfo(path, "file", 1, modified, 0o644))


@pytest.mark.parametrize(
    ("path", "modified", "later", "stays"),
    [
        ("given", 9.0, LEFT, False),  # before the pause
        ("given", 15.0, LEFT, True),
        ("given", 19.999, LEFT, True),
        ("given", 20.1, LEFT, False),
        ("made", 19.98, LEFT, False),  # its first file, whose tick came late
        ("made", 15.0, LEFT, True),  # no tick is as late: it was there, and the cell found it changed
        ("made", 19.98, WrittenFiles(), True),
        ("made", 19.999, WrittenFiles(frozenset({"made"})), False),
    ],
)
def test_what_was_changed_from_outside_just_before_a_cell_is_told_from_its_first_files(
    path: str, modified: float, later: WrittenFiles, stays: bool
) -> None:
    assert is_of_pause((10.0, 20.0), later, FileInfo(path, "file", 1, modified, 0o644)) is stays
