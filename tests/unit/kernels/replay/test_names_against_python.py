"""Hidden names against what Python itself says when the cells run: every NameError is foretold, and no other name."""

from __future__ import annotations

import ast
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernels.replay import find_hidden_names, missing_name
from tests.unit.kernels.replay.shown import error

NAME = st.sampled_from(["a", "b", "c", "d"])
SIMPLE = st.builds(
    str.format,
    st.sampled_from(
        [
            *(
                "{0} = 1",
                "{0} = [{1}]",
                "{0} = {1} = {2}",
                "{0} += {1}",
                "{0}: {1} = {2}",
                "import os as {0}",
                "del {0}",
            ),
            *(
                "[{0} for {0} in [{1}] if {2}]",
                "{0} = [({0}, {1}) for {0} in [{2}]]",
                "[({0} := {1}) for {1} in [{2}]]",
            ),
            *("{0} = lambda {1}={2}: {0}", "f'{{{0}}} {{{1}}}'", "print({0}, {1}.__class__)", "{0} = {{{1}: {2}}}"),
        ]
    ),
    NAME,
    NAME,
    NAME,
)
BLOCK = st.builds(
    str.format,
    st.sampled_from(
        [
            "for {0} in [{1}]:\n    {2} = {0}\n    {3}",
            "def {0}({1}={2}):\n    {3} = {1}\n    return {3}, {0}",
            "def {0}():\n    return {1}, {2}\n{0}()",
            "def {0}():\n    global {1}\n    {1} = {2}\n{0}()",
            "def {0}():\n    {1} = 1\n    def {2}():\n        nonlocal {1}\n        {1} = {3}\n    return {2}()\n{0}()",
            "class {0}:\n    {1} = {2}\n    {3} = {1}\n    def {2}(self): return {1}",
            "class {0}:\n    {1} = 1\n    def {2}(self): return {1}\n{0}().{2}()",
            "with open('/dev/null') as {0}:\n    {1}\n    {2} = {3}",
            "match {0}:\n    case {1}:\n        {2} = {1}\n        {3}",
            "try:\n    raise ValueError\nexcept ValueError as {0}:\n    {1} = {0}\n    {2}",
            "if True:\n    {0}\n    {1} = {2}",
            "while True:\n    {0}\n    {1} = {2}\n    break",
        ]
    ),
    NAME,
    NAME,
    NAME,
    NAME,
)
CELL = st.lists(SIMPLE | BLOCK, min_size=1, max_size=3).map("\n".join)


def run(cell: str, names: dict[str, Any]) -> NameError | None:
    """Run a cell as a kernel would; what is not about names is nobody's concern here."""
    try:
        exec(compile(cell, "cell", "exec", dont_inherit=True), names)
    except UnboundLocalError:
        assume(False)
    except NameError as problem:
        assume("free variable" not in str(problem))
        return problem
    except Exception:
        assume(False)
    return None


@settings(max_examples=300, derandomize=True)
@given(st.lists(CELL, min_size=1, max_size=4))
def test_what_python_misses_is_foretold(cells: list[str]) -> None:
    for cell in cells:
        try:
            compile(ast.parse(cell), "cell", "exec", dont_inherit=True)
        except SyntaxError:
            assume(False)
    names: dict[str, Any] = {"print": lambda *_: None}
    accused = find_hidden_names(cells)
    for index, cell in enumerate(cells):
        problem = run(cell, names)
        if problem is not None:
            name = str(problem.name)
            assert missing_name([error("NameError", str(problem))], cells, index) == name
            return
        branches = any(word in cell for word in ("except", "if True", "match"))
        deferred = "def " in cell or "lambda" in cell
        assert not accused.get(index) or branches or deferred, (cell, accused)
