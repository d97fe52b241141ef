"""What the docs site has beside the pages in docs/: the REST interface, and every command with its options.

mkdocs calls the `on_` functions (mkdocs.yml names this file). The pages are made from the OpenAPI document and from
click's commands at each build, so they are never behind the code and in no commit.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
sys.path.insert(0, str(REPOSITORY))

import click  # noqa: E402
from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from mkdocs.structure.pages import Page  # noqa: E402
from mkdocs.utils import get_relative_url  # noqa: E402

from kernel_gateway.faces.rest.openapi import describe  # noqa: E402
from kernel_gateway.faces.rest.table import TABLE  # noqa: E402
from sandcell import AsyncClient, AsyncSession, Client, Session  # noqa: E402
from sandcell.cli.main import sandcell  # noqa: E402

CLIENT_PAGE = "reference/python-client.md"
REST_PAGE, CLI_PAGE, COMMANDS_PAGE = "reference/rest.md", "reference/cli.md", "reference/commands.md"
SHIM, SHIM_HERE = "https://unpkg.com/iframe-worker/shim", "iframe-worker.js"
ELSEWHERE = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]+(?:src|href)="(?:https?:)?//[^>]*>|class="mermaid"')
"""Diagrams by mermaid are drawn by a script that the theme fetches."""
Schema = dict[str, Any]


def on_config(config: MkDocsConfig) -> None:
    """The generated pages get their places in the navigation."""
    below = {
        REST_PAGE: [{tag.capitalize(): rest_address(tag)} for tag in (*by_tag(describe(TABLE)), "types")],
        CLI_PAGE: [{"Every option": COMMANDS_PAGE}],
    }
    for section in config.nav or []:
        for pages in section.values():
            for page in pages if isinstance(pages, list) else []:
                for title, address in list(page.items()):
                    if address in below:
                        page[title] = [address, *below[address]]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The generated pages join those of docs/."""
    document = describe(TABLE)
    common = common_errors(document)
    pages = {rest_address(tag): rest_page(tag, operations, common) for tag, operations in by_tag(document).items()}
    pages[rest_address("types")] = types_page(document["components"]["schemas"])
    pages[COMMANDS_PAGE] = commands_page()
    for address, text in pages.items():
        files.append(File.generated(config, address, content=text))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The one script that the theme would fetch from elsewhere is in docs/; nothing else may come from there."""
    output = output.replace(SHIM, get_relative_url(SHIM_HERE, page.file.url))
    if found := ELSEWHERE.search(output):
        raise PluginError(
            f"{page.file.src_uri} loads from another host, and is to be read without a network: {found[0]}"
        )
    if page.file.src_uri == CLIENT_PAGE and (missing := missing_methods(output)):
        raise PluginError(f"{CLIENT_PAGE} lacks {', '.join(missing)}")
    return output


def missing_methods(html: str) -> list[str]:
    """Public methods of the client's classes that a page does not describe, inherited ones among them."""
    classes = (Client, Session, AsyncClient, AsyncSession)
    names = [
        f"sandcell.{of.__name__}.{name}"
        for of in classes
        for name, _ in inspect.getmembers(of, callable)
        if not name.startswith("_")
    ]
    return [name for name in names if f'id="{name}"' not in html]


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same on the page of the theme's own, which is at the top."""
    return output_content.replace(SHIM, SHIM_HERE)


def rest_address(tag: str) -> str:
    """Where the page of a group of operations is."""
    return f"reference/rest/{tag}.md"


def by_tag(document: Schema) -> dict[str, list[tuple[str, str, Schema]]]:
    """Method, path and operation, by their first tag, in the document's order."""
    found: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return found


def rest_page(tag: str, operations: list[tuple[str, str, Schema]], common: set[str]) -> str:
    """The operations of one group."""
    everywhere = ", ".join(f"`{code}`" for code in sorted(common))
    words = f"# REST: {tag}\n\nAny request may be answered with {everywhere}: see the [errors](../errors.md).\n"
    return words + "".join(_operation(*each, common) for each in operations)


def _operation(method: str, path: str, operation: Schema, common: set[str]) -> str:
    lines = [f"\n## {operation['summary']}\n", f"`{method} {path}`\n"]
    if parameters := operation.get("parameters"):
        lines += ["| parameter | in | type | what |", "|---|---|---|---|"]
        for each in parameters:
            what = each.get("description") or each["schema"].get("description", "")
            name = f"`{each['name']}`" + (" (required)" if each.get("required") and each["in"] != "path" else "")
            lines.append(f"| {name} | {each['in']} | {_type(each['schema'])} | {_cell(what)} |")
        lines.append("")
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"Body: {_type(content.get('schema', {}))}, as `{media_type}`.\n")
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            said = [f"{_type(each.get('schema', {}))}, as `{kind}`" for kind, each in answer.get("content", {}).items()]
            lines.append(f"Answer: {status}" + (f" with {'; or '.join(said)}" if said else "") + ".\n")
    if own := [(status, code) for status, code in _errors(operation) if code not in common]:
        words = ", ".join(f"`{code}` ({status})" for status, code in own)
        lines.append(f"Errors: {words}.\n")
    return "\n".join(lines) + "\n"


def _errors(operation: Schema) -> list[tuple[str, str]]:
    """Status and code of each error."""
    answers = ((status, answer) for status, answer in operation["responses"].items() if status[0] in "45")
    return [(status, code) for status, answer in answers for code in re.findall(r"`(\w+)`", answer["description"])]


def common_errors(document: Schema) -> set[str]:
    """The codes that all operations but a few public ones may answer with."""
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    counts = Counter(code for operation in operations for _, code in _errors(operation))
    return {code for code, count in counts.items() if count >= 0.9 * len(operations)}


def types_page(schemas: Schema) -> str:
    """Every type of a body or an answer."""
    parts = ["# REST: types\n\nWhat has no default is required in a body, and always there in an answer.\n"]
    for name, schema in sorted(schemas.items()):
        parts.append(f"\n## {name}\n\n{_paragraph(schema.get('description', ''))}\n")
        if properties := schema.get("properties"):
            required = schema.get("required", [])
            parts.append("\n| field | type | default |\n|---|---|---|\n")
            for field, value in properties.items():
                default = "" if field in required or "default" not in value else f"`{_json(value['default'])}`"
                parts.append(f"| `{field}` | {_type(value)} | {default} |\n")
        elif "enum" in schema:
            parts.append(f"\n{_type(schema)}\n")
    return "".join(parts)


def _type(schema: Schema) -> str:
    """A schema in a few words."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        anchor = re.sub(r"[^\w-]", "", name.lower())
        return f"[{name}](types.md#{anchor})"
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else None):
        return ", ".join(f"`{_json(each)}`" for each in values)
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(each) for each in alternatives)) + _range(schema)
    return _plain_type(schema) + _range(schema)


def _plain_type(schema: Schema) -> str:
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), dict):
        return f"object of {_type(values)}"
    return "bytes" if schema.get("format") == "binary" else kind


def _range(schema: Schema) -> str:
    pairs = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))
    for low, high, unit in pairs:
        least, most = schema.get(low), schema.get(high)
        if most is not None:
            return f", at most {most:,}{unit}" if least is None else f", {least:,} to {most:,}{unit}"
    return ""


def _json(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _paragraph(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


def commands_page() -> str:
    """Every command with what it takes, as its `--help` says."""
    parts = ["# Every option\n\nWhat `--help` of each command prints.\n"]
    for words, command in commands(sandcell, ["sandcell"]):
        context = click.Context(command, info_name=" ".join(words), terminal_width=100, max_content_width=100)
        parts.append(f"\n## {' '.join(words)}\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts)


def commands(command: click.Command, words: list[str]) -> Iterator[tuple[list[str], click.Command]]:
    """Every command that does something, with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in dict.fromkeys([*command.commands, *command.list_commands(context)]):
            if (child := command.get_command(context, name)) is not None:
                yield from commands(child, [*words, name])
    else:
        yield words, command
