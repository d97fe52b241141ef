"""A script runs under plain Python and does what the cells did; nothing in a cell gets out of its comment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from IPython.utils.text import DollarFormatter

from kernel_gateway.views.script import render_script
from tests.unit.kernel_gateway.views.notebooks import code, error, markdown, written


def ran(tmp_path: Path, *cells: dict[str, Any]) -> str:
    """What the script prints, under a Python without our packages."""
    file = tmp_path / "script.py"
    file.write_bytes(render_script(written(*cells)))
    done = subprocess.run([sys.executable, "-I", "-S", file], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cells_run_in_order_and_the_same_notebook_makes_the_same_bytes(tmp_path: Path) -> None:
    cells = (markdown("# Note\nimport nothing"), code("x = 41"), code("\n"), code("print(x + 1)"))
    assert render_script(written(*cells)) == render_script(written(*cells))
    assert ran(tmp_path, *cells) == "42\n"
    assert "# # Note\n# import nothing\n" in render_script(written(*cells)).decode()


def test_commands_are_subprocesses_and_their_failure_ends_nothing(tmp_path: Path) -> None:
    shell = code("%%bash\nprintf '%s\\n' \"a\" 'b'\nexit 3", status="error")
    assert ran(
        tmp_path, shell, code("!echo hi \"there\"\nprint('on', flush=True)"), code("a = !echo 1; echo 2\nprint(a)")
    ) == ("a\nb\nhi there\non\n['1', '2']\n")
    assert ran(tmp_path, code("if True:\n    !echo a \\\n      b\n    !!echo c")) == "a b\nc\n"


VALUES = {"x": 41, "name": "a b", "rows": ["p", "q", "r"]}
LINES = (
    *("echo {x}", "echo $x and $rows", "echo {x + 1} {rows[1:]}", "echo {name!r}", "echo {x:.2f}", "echo {{x}}"),
    *("echo '$x' {x}", 'echo "$x"', "echo $$x.", "echo {missing} {x}", "echo $HOME {x}", "awk 'BEGIN {print 5}'"),
    *("echo ${name}", "for i in 1 2; do echo $i {x}; done", "echo {", "echo ${{x}}", "echo {}"),
)


def test_values_are_put_into_commands_as_ipython_does(tmp_path: Path) -> None:
    expected = []
    for line in LINES:
        try:
            command = DollarFormatter().vformat(line, args=[], kwargs=VALUES)
        except Exception:  # IPython runs what it cannot format as it stands
            command = line
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        expected.append(done.stdout)
    cells = [code(f"{name} = {value!r}") for name, value in VALUES.items()]
    assert ran(tmp_path, *cells, *(code(f"!{line}") for line in LINES)) == "".join(expected)
    within = code("def show(x):\n    lines = !echo {x} $name\n    print(lines)\nshow(5)")
    assert ran(tmp_path, *cells, within) == "['5 a b']\n"


def test_magics_become_what_plain_python_has_a_word_for(tmp_path: Path) -> None:
    cells = (
        code("%matplotlib inline\nprint?\n?print\nfor i in range(1):\n    %time print(i)\n    %magic"),
        code("%%time\nprint('timed')"),
        code("%cd /\nimport os\nprint(os.getcwd())"),
        code('text = """\n%not magic\n!nor this\n"""\nprint(text.split())'),
        code(f"%%writefile {tmp_path}/x.txt\nhello"),
        code("%%unknown\nhello"),
    )
    assert ran(tmp_path, *cells) == "0\ntimed\n/\n['%not', 'magic', '!nor', 'this']\n"
    assert (tmp_path / "x.txt").read_text() == "hello\n"


def test_top_level_await_runs_on_one_loop(tmp_path: Path) -> None:
    first = code(
        "import asyncio\nqueue = asyncio.Queue()\nawait queue.put(5)\ntask = asyncio.ensure_future(queue.get())"
    )
    assert ran(tmp_path, first, code("print(await task)")) == "5\n"


def test_a_failed_cell_fails_again_without_ending_the_script(tmp_path: Path) -> None:
    failed = code("y = 1\nraise ValueError('x')", error("ValueError", "x"), status="error")
    assert (
        ran(tmp_path, failed, code("print(y)"), code("not python at all", status="error"), code("print(2)")) == "1\n2\n"
    )


@pytest.mark.parametrize("status", ["timeout", "interrupted", "died", "rejected"])
def test_what_was_stopped_does_not_run(tmp_path: Path, status: str) -> None:
    assert ran(tmp_path, code("while True: pass", status=status), code("print(1)")) == "1\n"


def test_other_languages_are_comments(tmp_path: Path) -> None:
    assert ran(tmp_path, code("const x = 1", language="javascript"), code("print(1)")) == "1\n"


def test_future_imports_stand_at_the_top(tmp_path: Path) -> None:
    cells = (
        code("def f(x: Missing): ..."),
        code("from __future__ import annotations\nprint('in')\ndef g(x: Missing): ..."),
    )
    with pytest.raises(AssertionError, match="NameError"):
        ran(tmp_path, cells[0])
    assert ran(tmp_path, *cells) == "in\n"


def test_cells_that_are_no_file_together_run_apart(tmp_path: Path) -> None:
    assert ran(tmp_path, code("x = 1"), code("global x\nprint(x)")) == "1\n"


def test_display_is_there(tmp_path: Path) -> None:
    assert ran(tmp_path, code("display(5)")) == "5\n"


HOSTILE = ["\r", "\n", "\r\n", "\x0c", "\x00", "\x0b", "\u2028", "\x85", "\ud800", "'''", '"""', "\\", "#", "print(1)"]
HOSTILE += ["import os", "\n%%bash\n", "%", "!", "?", "(", ")", "x", " ", "\t", "# -*- coding: utf-7 -*-", "+AAo-", "é"]


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of the cells, as in the session
@settings(max_examples=200)
@example(["'''\\\x0c'''"], False)
@given(st.lists(st.lists(st.sampled_from(HOSTILE), max_size=8).map("".join), min_size=1, max_size=4), st.booleans())
def test_any_notebook_makes_a_script_that_compiles_and_says_the_rest_in_comments(
    texts: list[str], stopped: bool
) -> None:
    cells = [markdown(text) for text in texts]
    if stopped:
        cells += [code(text, status="timeout") for text in texts]
    made = render_script(written(*cells))
    assert compile(made, "script", "exec").co_consts[0] is None  # comments alone
    compile(render_script(written(*(code(text) for text in texts))), "script", "exec")
