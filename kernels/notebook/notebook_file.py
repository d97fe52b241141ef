"""Any notebook file, ours or a stranger's, to cells that can be run and compared. Pure.

Formats 3 and 4 are read and become 4.5: texts joined, ids made where there are none. What cannot be meant raises
`InvalidNotebook`, with a sentence that names the cell: by its place among all the cells, counted from 1, and its id.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import msgspec

from kernels.errors import InvalidNotebook
from kernels.execution.outputs import Output
from kernels.notebook.notebook_json import NOTEBOOK_BYTES, read_object

_CELL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PYTHON: Final = re.compile(r"i?python[0-9.]*", re.IGNORECASE)
_CELL_TYPES: Final = ("code", "markdown", "raw")


class CodeCell(msgspec.Struct, frozen=True):
    """A cell to run. `index` is its place among all the cells of the notebook, from 0; `about` its `metadata.sandcell`.

    `outputs` are nbformat outputs, each text one string.
    """

    index: int
    id: str
    source: str
    outputs: list[Output] = msgspec.field(default_factory=list)
    execution_count: int | None = None
    about: dict[str, Any] = msgspec.field(default_factory=dict)


class NotebookFile(msgspec.Struct, frozen=True):
    """A notebook as read. `cells` are those that run; `document` is all of it in the shape of 4.5.

    `language` is that of cells which name none, in small letters.
    """

    cells: list[CodeCell]
    language: str
    kernel: str
    document: dict[str, Any]


def read(data: bytes, most_bytes: int = NOTEBOOK_BYTES) -> NotebookFile:
    """The notebook that these bytes are; raises `InvalidNotebook`."""
    document = read_document(data, most_bytes)
    kernel, language = _kernel(document["metadata"])
    cells = [_code_cell(index, cell) for index, cell in enumerate(document["cells"]) if cell["cell_type"] == "code"]
    return NotebookFile(cells, language, kernel, document)


def read_document(data: bytes, most_bytes: int = NOTEBOOK_BYTES) -> dict[str, Any]:
    """The notebook, of whatever language, in the shape of nbformat 4.5; raises `InvalidNotebook`."""
    made = read_object(data, most_bytes)
    version = made.get("nbformat")
    if type(version) is not int:
        raise InvalidNotebook("this is no notebook: it does not say its format (`nbformat`, a whole number)")
    if version == 3:
        made = _upgrade(made)
    elif version != 4:
        raise InvalidNotebook(f"the notebook's format is {version}; 3 and 4 are read: save it again with Jupyter")
    cells, metadata = made.get("cells"), made.get("metadata", {})
    if not isinstance(cells, list):
        raise InvalidNotebook("the notebook has no list of cells (`cells`)")
    if not isinstance(metadata, dict):
        raise InvalidNotebook("the notebook's `metadata` is no object")
    checked = [_check(index, cell) for index, cell in enumerate(cells)]
    _give_ids(checked)
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": checked}


def read_outputs(outputs: list[Any]) -> list[Output]:
    """The outputs of a cell as `read` gives them; raises `InvalidNotebook`."""
    return [_output(each, f"output {number}") for number, each in enumerate(outputs, 1)]


def _upgrade(made: dict[str, Any]) -> dict[str, Any]:
    """A notebook of format 3 as format 4; its worksheets (nearly always one) one after another."""
    sheets = made.get("worksheets")
    if not isinstance(sheets, list):
        raise InvalidNotebook("the notebook, of format 3, has no list of worksheets (`worksheets`)")
    cells: list[Any] = []
    for sheet in sheets:
        inner = sheet.get("cells") if isinstance(sheet, dict) else None
        if not isinstance(inner, list):
            raise InvalidNotebook("the notebook, of format 3, has a worksheet without a list of cells")
        cells.extend(inner)
    return {**made, "cells": [_upgrade_cell(index, cell) for index, cell in enumerate(cells)]}


def _upgrade_cell(index: int, cell: Any) -> dict[str, Any]:
    import nbformat  # noqa: PLC0415 - a second to import, for notebooks of before 2015
    from nbformat.v4.convert import upgrade_cell  # noqa: PLC0415

    where = _where(index, cell)
    if not isinstance(cell, dict):
        raise InvalidNotebook(f"{where} is no object")
    texts = {name: _text(cell[name], f"{where}: its `{name}`") for name in ("source", "input") if name in cell}
    try:
        upgraded: dict[str, Any] = upgrade_cell(nbformat.from_dict({"outputs": [], **cell, **texts}))
    except Exception as error:  # whatever a hostile file makes of the conversion
        raise InvalidNotebook(
            f"{where} is none of format 3 ({type(error).__name__}); save the notebook again"
        ) from None
    return {**upgraded, "id": ""}


def _check(index: int, cell: Any) -> dict[str, Any]:
    where = _where(index, cell)
    if not isinstance(cell, dict):
        raise InvalidNotebook(f"{where} is no object")
    kind = cell.get("cell_type")
    if kind not in _CELL_TYPES:
        raise InvalidNotebook(
            f"{where}: its `cell_type` is {_quote(kind)}, and must be one of {', '.join(_CELL_TYPES)}"
        )
    if not isinstance(cell.get("id", ""), str):
        raise InvalidNotebook(f"{where}: its `id` is no text")
    made = {
        "id": cell.get("id", ""),
        "cell_type": kind,
        "metadata": _object(cell, "metadata", where),
        "source": _text(cell.get("source"), f"{where}: its `source`"),
    }
    if kind != "code":
        return made | ({"attachments": attached} if (attached := _object(cell, "attachments", where)) else {})
    outputs = cell.get("outputs") or []
    if not isinstance(outputs, list):
        raise InvalidNotebook(f"{where}: its `outputs` are no list")
    made["outputs"] = [_output(each, f"{where}: output {number}") for number, each in enumerate(outputs, 1)]
    return made | {"execution_count": _count(cell, where)}


def _output(output: Any, where: str) -> Output:
    if not isinstance(output, dict):
        raise InvalidNotebook(f"{where} is no object")
    kind = output.get("output_type")
    read_kind = _OUTPUTS.get(kind) if isinstance(kind, str) else None
    if read_kind is None:
        raise InvalidNotebook(f"{where}: its `output_type` is {_quote(kind)}, and must be one of {', '.join(_OUTPUTS)}")
    return {"output_type": kind, **read_kind(output, where)}


def _stream(output: Output, where: str) -> Output:
    name = output.get("name", "stdout")
    if not isinstance(name, str):
        raise InvalidNotebook(f"{where}: its `name` is no text")
    return {"name": name, "text": _text(output.get("text"), f"{where}: its `text`")}


def _error(output: Output, where: str) -> Output:
    lines = output.get("traceback", [])
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InvalidNotebook(f"{where}: its `traceback` is no list of texts")
    named = {name: _text(output.get(name), f"{where}: its `{name}`") for name in ("ename", "evalue")}
    return {**named, "traceback": lines}


def _display(output: Output, where: str) -> Output:
    data = {
        media_type: value if media_type.endswith("json") else _text(value, f"{where}: its {_quote(media_type)}")
        for media_type, value in _object(output, "data", where).items()
    }
    return {"data": data, "metadata": _object(output, "metadata", where)}


def _result(output: Output, where: str) -> Output:
    return {**_display(output, where), "execution_count": _count(output, where)}


_OUTPUTS: Final[dict[str, Callable[[Output, str], Output]]] = {
    "stream": _stream,
    "display_data": _display,
    "execute_result": _result,
    "error": _error,
}


def _text(value: Any, what: str) -> str:
    """A text, which the format also allows to be a list of lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    raise InvalidNotebook(f"{what} is {'missing' if value is None else 'no text'}")


def _object(holder: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidNotebook(f"{where}: its `{name}` is no object")
    return value


def _count(holder: dict[str, Any], where: str) -> int | None:
    value = holder.get("execution_count")
    if value is not None and (type(value) is not int or value < 0):
        raise InvalidNotebook(f"{where}: its `execution_count` is no whole number")
    return value


def _give_ids(cells: list[dict[str, Any]]) -> None:
    """Make every id legal and one of its kind, the same each time; of two cells with one id the first keeps it."""
    wanted = {cell["id"] for cell in cells}
    taken: set[str] = set()
    for number, cell in enumerate(cells, 1):
        if not _CELL_ID.fullmatch(cell["id"]) or cell["id"] in taken:
            candidates = (f"cell-{number}" + (f"-{again}" if again else "") for again in count())
            cell["id"] = next(each for each in candidates if each not in wanted and each not in taken)
        taken.add(cell["id"])


def _kernel(metadata: dict[str, Any]) -> tuple[str, str]:
    """Name of the kernel and its language; a notebook that names neither is taken for one in Python."""
    spec, info = (_object(metadata, name, "the notebook's `metadata`") for name in ("kernelspec", "language_info"))
    kernel = spec.get("name")
    if not isinstance(kernel, str):
        kernel = "python3"
    names = (each for each in (info.get("name"), spec.get("language"), kernel) if isinstance(each, str) and each)
    language = next(names, kernel)
    return kernel, "python" if _PYTHON.fullmatch(language) else language.lower()


def _code_cell(index: int, cell: dict[str, Any]) -> CodeCell:
    about = cell["metadata"].get("sandcell")
    return CodeCell(
        index=index,
        id=cell["id"],
        source=cell["source"],
        outputs=cell["outputs"],
        execution_count=cell["execution_count"],
        about=about if isinstance(about, dict) else {},
    )


def _where(index: int, cell: Any) -> str:
    id = cell.get("id") if isinstance(cell, dict) else None  # noqa: A001 - the notebook's own word
    return f"cell {index + 1}" + (f" ({_quote(id)})" if isinstance(id, str) and id else "")


def _quote(value: Any) -> str:
    """A hostile value in a sentence: short, and printable."""
    if value is None:
        return "missing"
    if isinstance(value, str):
        return ascii(value[:40]) + ("…" if len(value) > 40 else "")
    return {dict: "an object", list: "a list", bool: "true or false"}.get(type(value), "a number")
