"""The console's built files are those that its source was built into, as far as a second can tell."""

from __future__ import annotations

from kernel_gateway.faces.console.pages import list_names, read_document
from scripts import console


def test_neither_source_nor_built_files_were_changed_alone() -> None:
    assert console.describe() == console.read_record(), "run `make console`, and commit what it writes"


def test_the_first_load_is_small() -> None:
    """What the page itself names; the editor comes when it is needed, what draws PDFs and figures with one of them."""
    page = read_document("index.html").content.decode()
    first = [name for name in list_names() if name == "index.html" or name.rpartition("/")[2] in page]
    assert len(first) == 3
    assert sum(len(read_document(name).compressed) for name in first) < 100_000
    frames = {"pdf.html", "plotly.html", "vega.html", "prose.html", "parquet.html"}
    assert sum(len(read_document(name).compressed) for name in list_names() - frames) < 350_000
    assert sum(len(read_document(name).compressed) for name in frames) < 1_500_000
