"""nbconvert's exporter for the page: as it comes, but for its last step and for formulas."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.templateexporter import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbformat import NotebookNode

from kernel_gateway.views.formulas import Formulas


class PageExporter(HTMLExporter):
    """Renders without reading the whole page again as a tree, which takes most of the time and of the memory."""

    def __init__(self, formulas: Formulas, **options: Any) -> None:
        super().__init__(**options)
        self._formulas = formulas
        self.register_filter("markdown2html", self._convert_markdown)
        self.register_filter("latex2html", formulas.place_output)

    @pass_context
    def _convert_markdown(self, context: Context, source: str) -> str:
        attachments = context.get("cell", {}).get("attachments", {})
        return str(MarkdownWithMath(renderer=_Renderer(self._formulas, attachments)).render(source))

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


class _Renderer(IPythonRenderer):
    """nbconvert's Markdown, with formulas that need no script."""

    def __init__(self, formulas: Formulas, attachments: dict[str, dict[str, str]]) -> None:
        super().__init__(escape=False, exclude_anchor_links=True, attachments=attachments)
        self._formulas = formulas

    def inline_math(self, body: str) -> str:
        return self._formulas.place(body, block=False)

    def block_math(self, body: str) -> str:
        return self._formulas.place(body, block=True)

    def latex_environment(self, name: str, body: str) -> str:
        return self._formulas.place(f"\\begin{{{name}}}{body}\\end{{{name}}}", block=True)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """A picture; of an attachment that is not there, its words."""
        name = url.removeprefix("attachment:")
        return super().image(text, url, title) if name == url or self.attachments.get(name) else text
