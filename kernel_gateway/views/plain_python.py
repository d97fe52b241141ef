"""The source of a cell, which is IPython's Python, to plain Python that stands in a script. Pure.

What plain Python can express is written in it (`!ls` is a subprocess); other magics become comments. The result is
always Python that compiles, or None: then the cell as a whole can only be a comment.
"""

from __future__ import annotations

import ast
import symtable
import warnings
from typing import Final

from kernels.notebook.cell_source import Command, cell_magic, read_cell

_AROUND: Final = ("time", "timeit", "capture", "prun", "python", "python3")
"""Cell magics whose cells are Python that runs as it stands."""


def compiles(source: str) -> bool:
    """Whether it is plain Python, also as part of a script: no `await` outside of a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "cell", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def is_one_file(source: str) -> bool:
    """Whether cells that compile one by one do so together; making code of all of them would take much longer."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(source, "cells", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def awaits(source: str) -> bool:
    """Whether it is Python but for its `await` outside of a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return not compiles(source)


def find_shell_script(source: str) -> str | None:
    """The script of a cell for the shell, or None."""
    magic = cell_magic(source)
    return magic.body if magic and magic.name in ("bash", "sh", "script") and "\0" not in magic.body else None


def make_plain(source: str) -> str | None:
    """The cell's source as plain Python (with `await` where there was one), or None."""
    if compiles(source) or awaits(source):
        return source
    head, body = [], source
    if (magic := cell_magic(source)) is not None:
        if magic.name == "writefile" and magic.arguments.strip():
            path, text = make_literal(magic.arguments.strip()), make_literal(magic.body + "\n")
            return f"pathlib.Path({path}).write_text({text})"
        if magic.name not in _AROUND:
            return None
        head, body = [f"# %%{magic.name} {magic.arguments}".rstrip()], magic.body
    made = "\n".join([*head, *(each if isinstance(each, str) else _make_line(each) for each in read_cell(body))])
    return made if compiles(made) or awaits(made) else None


def make_shell_call(command: str, options: str = "", *, expand: bool = False) -> str:
    """A statement that runs a command line; `expand`: with the values of Python in it, as IPython runs it."""
    text = make_literal(command)
    if expand and ("{" in command or "$" in command):
        text = f"_expanded({text}, {{**globals(), **locals()}})"
    return f'subprocess.run(["bash", "-c", {text}]{options})'


def make_literal(text: str) -> str:
    """A string literal of it, over several lines when it has some."""
    text = text.encode("utf-8", "replace").decode()
    if "\n" in text and "\\" not in text and '"""' not in text and text.replace("\n", "").isprintable():
        return f'"""{text}"""' if not text.endswith('"') else repr(text)
    return repr(text)


def _make_line(command: Command) -> str:
    """A statement in place of a command; where plain Python has none, what does not compile."""
    match command.escape:
        case "?" | "??":
            return f"{command.before}pass  # {command.text}{command.escape}"
        case "!" if command.assigned:
            run = make_shell_call(command.text, ", capture_output=True, text=True", expand=True)
            return f"{command.before}{run}.stdout.splitlines()"
        case "!" | "!!":
            return command.before + make_shell_call(command.text, expand=True)
        case "%" if not command.assigned:
            return command.before + _translate_magic(command.text)
    return f"{command.before}{command.escape}{command.text}"


def _translate_magic(text: str) -> str:
    name, _, argument = text.partition(" ")
    argument = argument.strip()
    match name:
        case "pip" | "uv":
            return make_shell_call(f"{'python3 -m ' if name == 'pip' else ''}{name} {argument}", expand=True)
        case "cd" if argument and argument != "-":
            return f"os.chdir({make_literal(argument)})"
        case "time" | "timeit" if compiles(argument):
            return f"{argument}  # %{name}"
        case _:
            return f"pass  # %{text}"
