"""Which runtime runs which language, and what Deno's and Node's own ways are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import nbformat
import pytest

from kernels.errors import Death
from kernels.execution.dialect import Dialect
from kernels.execution.outputs import UserError
from kernels.kernelspec import Kernelspec
from kernels.languages import runtime_of
from kernels.notebook.transcript import Cell, Note, notebook
from kernels.sandboxed.declared_kernel import AnyDialect
from kernels.sandboxed.deno_dialect import DenoDialect

UNEXPLAINED: dict[str, Any] = {"status": "error", "ename": "Error", "evalue": "Execution failed", "traceback": []}
THROWN: dict[str, Any] = {**UNEXPLAINED, "traceback": ["Error", "at x"]}


@pytest.mark.parametrize(
    ("language", "asked", "runtime"),
    [
        ("python", None, "python"),
        ("python", "python", "python"),
        ("javascript", None, "deno"),
        ("typescript", None, "deno"),
        ("typescript", "deno", "deno"),
        ("javascript", "nodejs", "nodejs"),
    ],
)
def test_each_language_has_its_runtimes(language: str, asked: str | None, runtime: str) -> None:
    assert runtime_of(language, asked) == runtime


@pytest.mark.parametrize(
    ("language", "asked", "said"),
    [
        ("python", "deno", "python runs on python, not on 'deno'"),
        ("typescript", "python", "typescript runs on deno or nodejs, not on 'python'"),
        ("cobol", None, "no language 'cobol'; there are: python, javascript, typescript"),
    ],
)
def test_what_is_no_pair_is_refused_with_those_there_are(language: str, asked: str | None, said: str) -> None:
    with pytest.raises(ValueError, match="^" + said):
        runtime_of(language, asked)


R = Kernelspec("ir", "r", "R", ("R", "{connection_file}"))
OTHERS = (R, replace(R, name="loud", language="python"), replace(R, name="deno"), replace(R, name="zr"))


def test_kernels_that_an_image_declares_are_runtimes_of_their_languages() -> None:
    assert runtime_of("r", None, OTHERS) == "ir"
    assert runtime_of("r", "zr", OTHERS) == "zr"
    assert runtime_of("python", None, OTHERS) == "python"
    assert runtime_of("python", "loud", OTHERS) == "loud"
    with pytest.raises(ValueError, match=r"^no language 'cobol'; there are: python, javascript, typescript, r$"):
        runtime_of("cobol", None, OTHERS)
    with pytest.raises(ValueError, match=r"^r runs on ir or zr, not on 'deno'$"):
        runtime_of("r", "deno", OTHERS)


def test_however_code_ends_that_was_interrupted_it_is_taken_for_the_interrupt() -> None:
    assert AnyDialect().says_interrupted(UserError("ERROR", "", []))
    assert not AnyDialect().says_done({"status": "ok"}), "as kernels on MetaKernel say"


def closing(reply: dict[str, Any], *, interrupted: bool = False, code: str = "1 +") -> list[str | None]:
    """The arguments of the code that closes a run."""
    source = DenoDialect().closing(code, reply, interrupted=interrupted)
    assert source is not None
    return list(json.loads(f"[{source.partition('.close(')[2].removesuffix(')')}]"))


def test_a_run_ends_with_its_own_mark_alone() -> None:
    dialect = DenoDialect()
    source = dialect.closing("1", {"status": "ok"}, interrupted=False)
    assert source is not None
    marker = json.loads(f"[{source.partition('.close(')[2].removesuffix(')')}]")[0]
    data = {"data": {"application/vnd.sandcell.end": marker}}
    assert dialect.closes("display_data", data)
    assert not dialect.closes("stream", data)
    assert not DenoDialect().closes("display_data", data), "another run's"
    assert not dialect.closes("display_data", {"data": [marker]})
    assert Dialect().closing("1", {}, interrupted=False) is None


def test_only_code_that_never_ran_is_parsed_again() -> None:
    assert closing(UNEXPLAINED)[1] == "1 +"
    assert closing({"status": "ok"})[1] is None
    assert closing(THROWN)[1] is None
    assert closing(UNEXPLAINED, interrupted=True)[1] is None
    assert closing(UNEXPLAINED, code="x" * 2_000_000)[1] is None


def test_code_that_was_terminated_says_that_it_was_interrupted() -> None:
    dialect, bare = DenoDialect(), UserError("Error", "Execution failed", [])
    assert dialect.says_interrupted(bare)
    assert dialect.describe_error(bare).name == "Interrupted"
    thrown = UserError("TypeError", "Execution failed", ["TypeError", "at x"])
    assert not dialect.says_interrupted(thrown)
    assert dialect.describe_error(thrown) == thrown


def test_cells_say_their_language_and_the_notebook_stays_valid() -> None:
    cells: list[Cell | Note] = [
        Cell("a", "1", "ok", 1),
        Cell("b", "let x = 1", "ok", 1, language="javascript", runtime="deno"),
        Cell("c", "x", "died", 2, language="typescript", runtime="deno", death=Death("exit", "it left")),
        Note("deno", "gone"),
    ]
    made = notebook(cells, session_id="s", environment="python")
    nbformat.validate(made)
    plain, script = made.cells[:2]
    assert ("language" in plain.metadata, "runtime" in plain.metadata.sandcell) == (False, False)
    assert (script.metadata.language, script.metadata.vscode.languageId) == ("javascript", "javascript")
    assert script.metadata.sandcell.runtime == "deno"
