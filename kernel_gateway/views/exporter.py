"""nbconvert's exporter for the page: as it comes, but for its last step."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.templateexporter import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbformat import NotebookNode


class PageExporter(HTMLExporter):
    """Renders without reading the whole page again as a tree, which takes most of the time and of the memory."""

    def from_notebook_node(  # type: ignore[override]
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        """The page's body."""
        made = self._init_resources(resources)
        lexer = nb.metadata.language_info.name
        self.register_filter("highlight_code", Highlight2HTML(pygments_lexer=lexer, parent=self))
        data_types = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=made)
        self.register_filter("filter_data_type", data_types)
        page: tuple[str, dict[str, Any]] = TemplateExporter.from_notebook_node(self, nb, made, **kw)
        return page
