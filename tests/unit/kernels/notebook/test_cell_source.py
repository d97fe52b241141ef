"""A cell is classified as IPython's own transformer classifies it."""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import HelpEnd, TransformerManager

from kernels.notebook.cell_source import CellMagic, Command, cell_magic, read_cell


def as_ipython_writes(source: str) -> str:
    """The cell as IPython would have it after transforming it, by what our parser found."""
    if (magic := cell_magic(source)) is not None:
        body = magic.body if magic.body.endswith("\n") or not magic.body else magic.body + "\n"
        return f"get_ipython().run_cell_magic({magic.name!r}, {magic.arguments!r}, {body!r})\n"
    return "".join((one if isinstance(one, str) else written(one)) + "\n" for one in read_cell(source))


def written(command: Command) -> str:
    name, _, arguments = command.text.partition(" ")
    if command.escape in ("?", "??"):
        return command.before + helped(command)
    calls = {
        "!!": f"get_ipython().getoutput({command.text!r})",
        "!": f"get_ipython().{'getoutput' if command.assigned else 'system'}({command.text!r})",
        "%": f"get_ipython().run_line_magic({name!r}, {arguments!r})",
        ",": '{}("{}")'.format(name, '", "'.join(arguments.split())),
        ";": f'{name}("{arguments}")',
        "/": f"{name}({', '.join(arguments.split())})",
    }
    return command.before + calls[command.escape]


def helped(command: Command) -> str:
    if not command.text:
        return "get_ipython().show_usage()"
    magic = "pinfo2" if command.escape == "??" else "psearch" if "*" in command.text else "pinfo"
    return f"get_ipython().run_line_magic({magic!r}, {command.text!r})"


class HelpInOneLine(HelpEnd):  # type: ignore[misc]
    """IPython's, but for statements of several lines, which it puts help in place of as a whole and ours does not."""

    def transform(self, lines: list[str]) -> list[str]:
        if self.start_line != self.q_line:
            raise SyntaxError
        return list(super().transform(lines))


def as_ipython_does(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manager = TransformerManager()
        manager.token_transformers[-1:] = [HelpInOneLine]
        try:
            return str(manager.transform_cell(source))
        except SyntaxError:  # its tokenizer's
            return "(nothing that runs"


LINES = st.sampled_from(
    [
        *("x = 1", "if x:", "    y = 2", "for i in y: pass", "# a note?", "# %no", "", "   ", "def f(a=1, *b): ..."),
        *("%matplotlib inline", "    %time f(x)", "%%time", "%timeit -n 1 x", "%", "%ls?", "%%ls??", "% ls", "\t%cd /"),
        *("!ls -l", "!!ls", "    !echo {x} $y", "!echo 'a  b'  ", "!", "!a \\", "  -b \\", "%time \\", "!echo hi # x"),
        *(
            "files = !ls *.csv",
            "a, b = !ls",
            "d['!'] = !ls",
            "x =!ls",
            "x = %time y",
            "x = % ls",
            "x = %",
            "z: int = !ls",
        ),
        *("x == !ls", "x += !ls", "f(a=1).x = !ls", "a = b = !ls", "x = '!ls'", "= !ls", "x = 5 % y", "x = y != z"),
        *(
            "x?",
            "x??",
            "x.y[0].z?",
            "?x",
            "??x",
            "?",
            "?? x",
            "x = y?",
            "x*?",
            "f()?",
            "x???",
            "1x?",
            "'x?'",
            "x?  ",
            "-x?",
        ),
        *(",f a b", ";f a b", "/f a b", "/", "/ f", "//x", "!=x", "%=x", "/=x", "x, !y", "    ;f a", "  ,f  a  b"),
        *("s = '''", "'''", "%no '''", '"""', 't = """a"""', "s = ''' \\", "'''; x = 1", "'''?", "f'''{x}?'''"),
        *(
            "(",
            ")",
            "x = [",
            "]",
            "x = (1,",
            "!in",
            "%in",
            "y = !in)",
            "x = 1 + \\",
            "{'a': 1, # (",
            "}",
            "f(')')",
            "f('(')",
        ),
        *(
            "print('%x', \"!y\")",
            "r'\\'",
            "'\\''",
            "x = '#'  # '",
            "async def g(): await x",
            "lambda: !x",
            "@a",
            "a; !b",
        ),
    ]
)


STATEMENTS = st.sampled_from(
    [
        *("x = 1", "%cd a b", "!ls 'a'", "a, b = !ls *", "x = %time y", "x?", "?x.y", "pass"),
        *(
            "s = '''\n%no\n!no\n'''",
            't = """\nx?\n\\"""\n"""',
            "f(1,\n  2)",
            "x = 1 + \\\n  2",
            "if x:\n    !ls \\\n -a\n    y = !b",
        ),
        *(
            "for i in x:\n\t%time i\n\t?i\n\ti?",
            "# (",
            "x = '('  # [",
            "def f():\n    # {\n    return 1",
            "d = {\n 'a': '}',\n}",
        ),
        *(
            ",f a",
            "/f a",
            ";f a b",
            "try:\n    x = !a\nfinally:\n    %b",
            "x = (1,  # )\n  2)",
            "s = '''a''' + '(' ",
            "await x",
        ),
    ]
)


def compiles(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        except (SyntaxError, ValueError):
            return False
    return True


@settings(max_examples=500)
@given(
    st.lists(STATEMENTS, min_size=1, max_size=8).map("\n".join)
    | st.lists(LINES, min_size=1, max_size=5).map("\n".join)
    | st.lists(STATEMENTS | LINES, min_size=1, max_size=8).map("\n".join)
)
@example("    %ls\n    x = !pwd\n")
@example("\n\n%%bash -x\necho\n\nhi")
@example("%%bash?\nx")
@example("!a \\\n")
@example("x\n!a b\\\n\n")
@example("if x:\n    !a \\\n  b \\\nc\n!d")
def test_a_cell_is_told_apart_as_ipython_does(source: str) -> None:
    """Every cell that runs under IPython, and every one that ours would make Python of; of others nothing is asked."""
    ours, theirs = as_ipython_writes(source), as_ipython_does(source)
    if compiles(ours) or compiles(theirs):
        assert ours.rstrip("\n") == theirs.rstrip("\n")


def test_commands_and_magics_are_values() -> None:
    assert list(read_cell("x = 1\n  !a \\\n b\nfiles = !ls\ny?")) == [
        "x = 1",
        Command("  ", "!", "a   b", lines=2),
        Command("files = ", "!", "ls"),
        Command("", "?", "y"),
    ]
    assert cell_magic("%%time -x\ny\nz") == CellMagic("time", "-x", "y\nz")
    assert [one.assigned for one in read_cell("  !a\nx = !b") if isinstance(one, Command)] == [False, True]


HOSTILE = {
    "brackets": "(" * 150_000,
    "quotes": "'" * 150_001 + "\n" + '"""' * 50_001,
    "strings that stay open": ("'" + "\\" * 101) * 1_500,
    "equals": "a = " * 40_000 + "!x",
    "marks": "a?" * 75_000,
    "names": ("a" * 999 + " ?\n") * 150,
    "names in names": ("a." * 499 + "-?\n") * 150,
    "continued": "!a \\\n" * 30_000,
    "long strings": ('"""' + "\\" * 99 + "\n") * 1_500,
    "blank": " " * 150_000 + "%x",
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_cells_take_linear_time(name: str) -> None:
    list(read_cell(HOSTILE[name]))
    cell_magic(HOSTILE[name])
