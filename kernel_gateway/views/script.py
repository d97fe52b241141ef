"""A notebook as a plain Python script that runs without Jupyter: the same notebook, the same bytes.

Cells are marked with `# %%`, which editors know. Notes, text and cells of other languages are comments; commands are
subprocesses. A cell that failed runs and may fail again, as it did in the session, without ending the script; one that
was stopped or killed its kernel is a comment.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from kernel_gateway.views.facts import collect_facts, make_heading
from kernel_gateway.views.plain_python import (
    awaits,
    compiles,
    find_shell_script,
    is_one_file,
    make_literal,
    make_plain,
    make_shell_call,
)
from kernels.notebook.cell_source import split_lines
from kernels.notebook.notebook_file import read_document
from kernels.notebook.notebook_json import NOTEBOOK_BYTES

_STOPPED: Final = ("timeout", "interrupted", "died", "rejected", "queued", "running")

_RUN: Final = '''\
def _run_cell(source: str, may_fail: bool = False) -> None:
    """Run a cell that awaits, or that failed when it was recorded."""
    try:
        made = eval(compile(source, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), globals())
        if inspect.iscoroutine(made):
            _loop.run_until_complete(made)
    except Exception:
        if not may_fail:
            raise
        traceback.print_exc()


_loop = asyncio.new_event_loop()
'''
_EXPANDED: Final = r'''
def _expanded(command: str, names: dict) -> str:
    """A command line with the values of `{expression}` and `$name`; as it stands when one of them has none."""
    import re
    import string

    pieces = []
    try:
        for text, expression, rest, conversion in string.Formatter().parse(command):
            end = 0
            for match in re.finditer(r"(.*?)\$(\$?[\w.]+)(?=([^']*'[^']*')*[^']*$)", text):  # but in single quotes
                name, end = match[2], match.end()
                pieces += [match[1], name if name.startswith("$") else str(eval(name, names))]
            pieces.append(text[end:])
            if expression is not None:
                value = eval(f"{expression}:{rest}" if rest else expression, names)  # a slice has a colon
                pieces.append(str(string.Formatter().convert_field(value, conversion)))
    except Exception:
        return command
    return "".join(pieces)
'''.lstrip()
_DISPLAY: Final = """\
try:
    from IPython.display import display
except ImportError:
    display = print
"""
_NAMES: Final = ("ast", "asyncio", "inspect", "os", "pathlib", "subprocess", "traceback")


def render_script(notebook: bytes, most_bytes: int = NOTEBOOK_BYTES) -> bytes:
    """The script, UTF-8; raises `InvalidNotebook`."""
    document = read_document(notebook, most_bytes)
    futures, cells = _split_futures(document["cells"])
    made = _put_together(document, futures, cells, apart=False)
    if not is_one_file(made):
        made = _put_together(document, futures, cells, apart=True)
    return made.encode("utf-8", "replace")


def _put_together(document: dict[str, Any], futures: list[str], cells: list[dict[str, Any]], *, apart: bool) -> str:
    body = "\n\n".join(_render_cell(cell, apart=apart) for cell in cells)
    prelude = [_RUN] if re.search(r"^_run_cell\(", body, re.MULTILINE) else []
    if "_expanded(" in body:
        prelude.append(_EXPANDED)
    if re.search(r"\bdisplay\(", body):
        prelude.append(_DISPLAY)
    used = "\n".join([*prelude, body])
    imports = [f"import {name}" for name in _NAMES if re.search(rf"\b{name}\.", used)]
    head = [
        "#!/usr/bin/env python3",
        "# -*- coding: utf-8 -*-",
        *(_make_comment(text)[0] for text in make_heading(document)),
    ]
    if futures:
        head += ["", f"from __future__ import {', '.join(futures)}"]
    parts = ["\n".join(head), "\n".join(imports), *(each.rstrip("\n") for each in prelude), body]
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_cell(cell: dict[str, Any], *, apart: bool) -> str:
    said = ", ".join(fact["text"] for fact in collect_facts(cell) if fact["kind"] != "time")
    if cell["cell_type"] != "code":
        return "\n".join(["# %% [markdown]", *_make_comment(cell["source"])])
    number = cell["execution_count"]
    mark = _make_comment(f"%% [{' ' if number is None else number}] {said}".rstrip())[0]
    return "\n".join([mark, *_render_code(cell, apart=apart)])


def _render_code(cell: dict[str, Any], *, apart: bool) -> list[str]:
    status, source = _find_status(cell), cell["source"]
    why = None
    if cell["metadata"].get("language", "python") != "python":
        why = "Not Python:"
    elif status in _STOPPED:
        why = f"This cell ended as `{status}`, and does not run here:"
    elif (command := find_shell_script(source)) is not None:
        return [make_shell_call(command)]
    elif (made := make_plain(source)) is None:
        why = "This cell has no plain Python for what it says:"
    elif source.strip() and (status == "error" or apart or awaits(made)):
        return [f"_run_cell({make_literal(made)}{', may_fail=True' if status == 'error' else ''})"]
    else:
        return split_lines(made.rstrip())
    return [f"# {why}", *_make_comment(source)]


def _find_status(cell: dict[str, Any]) -> str:
    """How the cell ended; a notebook that does not say so has errors among its outputs."""
    record = cell["metadata"].get("sandcell")
    status = record.get("status") if isinstance(record, dict) else None
    failed = any(output["output_type"] == "error" for output in cell["outputs"])
    return status if isinstance(status, str) and status != "ok" else "error" if failed else "ok"


def _split_futures(cells: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """`from __future__ import` may only stand at the top of a script: the names, and the cells without these lines."""
    names: set[str] = set()
    made = []
    for cell in cells:
        source = cell["source"]
        if cell["cell_type"] == "code" and "__future__" in source and compiles(source):
            lines = split_lines(source)
            for statement in ast.parse(source).body:
                if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                    names.update(alias.name for alias in statement.names if alias.asname is None)
                    for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
                        lines[number] = f"# {lines[number]}"
            if compiles(moved := "\n".join(lines)):
                cell = {**cell, "source": moved}  # noqa: PLW2901 - the same cell, with other text
        made.append(cell)
    return sorted(names & {"annotations"}), made


def _make_comment(text: str) -> list[str]:
    """Comment lines; nothing in them ends the comment early."""
    lines = split_lines(text.encode("utf-8", "replace").decode())
    return [("# " + re.sub(r"[\x00\x0b\x0c]", " ", line)).rstrip() for line in lines]
