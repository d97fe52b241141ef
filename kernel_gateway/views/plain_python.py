"""The source of a cell, which is IPython's Python, to plain Python that stands in a script. Pure.

What plain Python has a word for is said with it (`!ls` is a subprocess); other magics become comments. The result is
always Python that compiles, or None: then the cell as a whole can only be a comment.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from typing import Final

_LINE: Final = re.compile(r"(?P<indent>[ \t]*)(?P<mark>%%?|!!?|\?\??)(?P<rest>.*)", re.DOTALL)
_CAPTURED: Final = re.compile(r"(?P<left>[ \t]*[\w.,\[\]'\" ]{1,200}=[ \t]*)(?P<mark>[%!])(?P<rest>.+)", re.DOTALL)
_HELP: Final = re.compile(r"(?P<indent>[ \t]*)%?[\w.*]+\?\??[ \t]*")
_MARKED: Final = re.compile(r"[%!?]")
_AROUND: Final = ("%%time", "%%timeit", "%%capture", "%%prun", "%%python", "%%python3")
"""Cell magics whose cells are Python that runs as it stands."""


def in_lines(text: str) -> list[str]:
    """The lines as Python's tokenizer tells them apart."""
    return re.split(r"\r\n|\r|\n", text)


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


def shell_script(source: str) -> str | None:
    """The script of a cell for the shell, or None."""
    first, _, rest = source.lstrip().partition("\n")
    return rest if first.split(" ")[0].strip() in ("%%bash", "%%sh", "%%script") and "\0" not in rest else None


def plain(source: str) -> str | None:
    """The cell's source as plain Python (with `await` where there was one), or None."""
    if compiles(source) or awaits(source):
        return source
    lines = in_lines(source.lstrip())
    name, _, argument = lines[0].partition(" ")
    if name == "%%writefile" and argument.strip():
        return f"pathlib.Path({literal(argument.strip())}).write_text({literal(chr(10).join([*lines[1:], '']))})"
    if name.startswith("%%"):
        if name not in _AROUND:
            return None
        lines[0] = f"# {lines[0]}"
    made = "\n".join(_line(line) for line in lines)
    return made if compiles(made) or awaits(made) else None


def shell(command: str, options: str = "", *, expand: bool = False) -> str:
    """A statement that runs a command line; `expand`: with the values of Python in it, as IPython runs it."""
    text = literal(command)
    if expand and ("{" in command or "$" in command):
        text = f"_expanded({text}, {{**globals(), **locals()}})"
    return f'subprocess.run(["bash", "-c", {text}]{options})'


def literal(text: str) -> str:
    """A string literal of it, over several lines when it has some."""
    text = text.encode("utf-8", "replace").decode()
    if "\n" in text and "\\" not in text and '"""' not in text and text.replace("\n", "").isprintable():
        return f'"""{text}"""' if not text.endswith('"') else repr(text)
    return repr(text)


def _line(line: str) -> str:
    """One line; what marks IPython's own and stands in a text or an expression is left, and found out by compiling."""
    if not _MARKED.search(line):
        return line
    if _HELP.fullmatch(line):
        return f"{_HELP.fullmatch(line)['indent']}pass  # {line.strip()}"  # type: ignore[index]
    if match := _LINE.fullmatch(line):
        if match["mark"] in ("!", "!!"):
            return match["indent"] + shell(match["rest"], expand=True)
        return f"{match['indent']}{_magic(match['mark'], match['rest'])}"
    if (match := _CAPTURED.fullmatch(line)) and match["mark"] == "!":
        run = shell(match["rest"], ", capture_output=True, text=True", expand=True)
        return f"{match['left']}{run}.stdout.splitlines()"
    return line


def _magic(mark: str, rest: str) -> str:
    name, _, argument = rest.partition(" ")
    argument = argument.strip()
    match mark + name:
        case "%pip" | "%uv":
            return shell(f"{'python3 -m ' if name == 'pip' else ''}{name} {argument}", expand=True)
        case "%cd" if argument and argument != "-":
            return f"os.chdir({literal(argument)})"
        case "%time" | "%timeit" if compiles(argument):
            return f"{argument}  # %{name}"
        case _:
            return f"pass  # {mark}{rest}"
