"""A notebook as an HTML page, rendered by nbconvert with a template and a style of our own; it loads nothing."""

# mypy: allow-untyped-calls

from __future__ import annotations

import hashlib
import re
from html import escape
from pathlib import Path
from typing import Any, Final

from kernel_gateway.views.contents import render_contents
from kernel_gateway.views.facts import collect_facts, describe_full_outputs, make_heading, name_language
from kernel_gateway.views.folding import fold
from kernel_gateway.views.sanitising import clean, clean_page
from kernel_gateway.views.shown_outputs import describe_left_out, show_output
from kernel_gateway.views.terminal_colours import colour_text
from kernels.notebook.notebook_file import read_document
from kernels.notebook.notebook_json import NOTEBOOK_BYTES

POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser lets the page do; it is in the page too, for when it is opened as a file."""
MOST_HIGHLIGHTED_BYTES: Final = 200_000
"""Code of one cell that is coloured; finding out what is what takes a second for every megabyte."""

_HERE: Final = Path(__file__).parent
_MAGICS: Final = {"%%bash": "bash", "%%sh": "bash", "%%javascript": "javascript", "%%html": "html"}
_LANGUAGE: Final = re.compile(r"[a-z][a-z0-9+]{0,20}")


def render_page(notebook: bytes, most_bytes: int = NOTEBOOK_BYTES) -> bytes:
    """The page, UTF-8, complete and self-contained; raises `InvalidNotebook`."""
    document = read_document(notebook, most_bytes)
    body = _render_body(document, hashlib.sha256(notebook).hexdigest())
    title, subtitle = make_heading(document)
    parts = {
        "policy": escape(POLICY),
        "title": escape(title),
        "subtitle": escape(subtitle),
        "style": (_HERE / "page.css").read_text("utf-8"),
        "body": body,
    }
    frame = (_HERE / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], frame).encode("utf-8", "replace")


def _render_body(document: dict[str, Any], key: str) -> str:
    """The body, cleaned as a whole; `key` is what the notebook's author could not know."""
    # The service asks this module for its policy and renders nothing; both take a second to import.
    import nbformat  # noqa: PLC0415

    from kernel_gateway.views.exporter import PageExporter  # noqa: PLC0415
    from kernel_gateway.views.formulas import Formulas  # noqa: PLC0415
    from kernel_gateway.views.tracebacks import colour_traceback  # noqa: PLC0415

    formulas = Formulas(key)
    exporter = PageExporter(
        formulas,
        template_name="sandcell",
        extra_template_basedirs=[str(_HERE / "templates")],
        exclude_anchor_links=True,
    )
    filters = {"ansi2html": colour_text, "clean": clean, "colour_traceback": colour_traceback, "fold": fold}
    for name, function in filters.items():
        exporter.register_filter(name, function)
    rendered = str(exporter.from_notebook_node(nbformat.from_dict(_prepare(document)))[0])
    return formulas.insert(clean_page(render_contents(document["cells"]) + rendered))


def _prepare(document: dict[str, Any]) -> dict[str, Any]:
    """The notebook reduced to what is shown of it: nothing else of a stranger's metadata meets the template."""
    info = document["metadata"].get("language_info")
    language = (_find_language(info.get("name")) if isinstance(info, dict) else None) or "python"
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"language_info": {"name": language}},
        "cells": [_prepare_cell(cell, language) for cell in document["cells"]],
    }


def _prepare_cell(cell: dict[str, Any], language: str) -> dict[str, Any]:
    about: dict[str, Any] = {"facts": collect_facts(cell), "kind": "note" if _is_note(cell) else cell["cell_type"]}
    made = {"id": cell["id"], "cell_type": cell["cell_type"], "source": cell["source"], "metadata": {"view": about}}
    if cell["cell_type"] == "markdown":
        return made | {"attachments": _select_pictures(cell.get("attachments", {}))}
    if cell["cell_type"] != "code":
        return made
    first_line = cell["source"].partition("\n")[0].strip()
    language = _MAGICS.get(first_line) or _find_language(cell["metadata"].get("language")) or language
    about["language"] = name_language(language)
    lexer = "ipython3" if language == "python" else language
    about["lexer"] = "text" if len(cell["source"]) > MOST_HIGHLIGHTED_BYTES else lexer
    outputs = [show_output(output) for output in cell["outputs"]]
    omitted = dict.fromkeys(said for each in cell["outputs"] if (said := describe_left_out(each)))
    about["left_out"] = [*omitted, *describe_full_outputs(cell)]
    return made | {"outputs": outputs, "execution_count": cell["execution_count"]}


def _is_note(cell: dict[str, Any]) -> bool:
    return cell["cell_type"] == "markdown" and isinstance(cell["metadata"].get("sandcell"), dict)


def _find_language(name: Any) -> str | None:
    return name.lower() if isinstance(name, str) and _LANGUAGE.fullmatch(name.lower()) else None


def _select_pictures(attachments: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The attachments that are pictures in base64; a Markdown text refers to them by name."""
    return {
        name: {media_type: data for media_type, data in bundle.items() if isinstance(data, str)}
        for name, bundle in attachments.items()
        if isinstance(bundle, dict)
    }
