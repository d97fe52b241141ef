"""The docs say what the code does: tables are those of the code, links lead somewhere, commands exist."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import kernel_gateway
from kernel_gateway import environments_file, settings
from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.agent_engine.table import TABLE as AGENT_ENGINE_TABLE
from kernel_gateway.faces.agentcore import operations as agentcore
from kernel_gateway.faces.e2b import routes as e2b
from kernel_gateway.faces.jupyter import routes as jupyter
from kernel_gateway.faces.librechat import routes as librechat
from kernel_gateway.faces.rest import table as routes
from scripts import docs

REPOSITORY = Path(__file__).parent.parent.parent
README = REPOSITORY / "README.md"
PAGES = [*docs.documents(), *sorted((REPOSITORY / "examples").glob("**/*.md"))]
FENCE = re.compile(r"^ *```(\w*)[^\n`]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(page.read_text()) if found == language]


@pytest.mark.parametrize("table", docs.TABLES)
def test_every_table_is_on_one_page(table: str) -> None:
    assert len([page for page in docs.documents() if docs.FROM.format(table) in page.read_text()]) == 1
    assert len([page for page in docs.documents() if docs.UNTIL.format(table) in page.read_text()]) == 1


def test_the_readme_is_read_in_one_go_and_holds_no_generated_table() -> None:
    assert len(README.read_text().splitlines()) <= 200
    assert "made by scripts/docs.py" not in README.read_text()


def test_every_page_has_its_place_in_the_navigation() -> None:
    placed = re.findall(
        r"^ +- .*: (\S+\.md)$|^  - \w+: (\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE
    )
    pages = {str(page.relative_to(REPOSITORY / "docs")) for page in (REPOSITORY / "docs").glob("**/*.md")}
    assert {one or other for one, other in placed} == pages


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs").glob("**/*.md")), ids=name)
def test_a_page_of_the_docs_is_read_in_one_go(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= 250, "one page, one question: move a part of it to a page of its own"
    headings = re.findall(r"^# .+$", FENCE.sub("", page.read_text()), re.MULTILINE)
    assert len(headings) == 1


def test_pages_name_no_internal_bounds() -> None:
    inner = {bound.rpartition(".")[2] for bound in docs.bound_words() if "." in bound}
    inner = {bound for bound in inner if bound.isupper() and "_" in bound}
    for page in docs.documents():
        assert not inner & set(re.findall(r"`(?:\w+\.)+(\w+)`", page.read_text())), page


@pytest.mark.parametrize("page", docs.documents(), ids=name)
def test_tables_are_those_of_the_code(page: Path) -> None:
    text = page.read_text()
    assert docs.filled(text) == text, "a table is behind the code; run .venv/bin/python scripts/docs.py"


def test_every_error_code_is_in_the_table() -> None:
    for module in pkgutil.walk_packages(kernel_gateway.__path__, "kernel_gateway."):
        elsewhere = "migrations" in module.name or ".dataset_profile." in module.name  # which is at home in a sandbox
        old = module.name == "kernel_gateway.client"  # which warns of being imported
        if not elsewhere and not old and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    listed = {error.code for error in docs.errors()}
    assert {error.code for error in all_below(GatewayError)} <= listed


def all_below(one: type[GatewayError]) -> Iterator[type[GatewayError]]:
    for child in one.__subclasses__():
        if child.__module__.startswith("kernel_gateway."):
            yield child
            yield from all_below(child)


def test_every_bound_is_explained_and_every_explanation_has_its_bound() -> None:
    found, said, others = set(docs.bounds()), set(docs.bound_words()), docs.not_bounds()
    assert not found - said - others, "say in docs/bounds.toml what these bound and what happens at them"
    assert not (said | others) - found, "docs/bounds.toml names what the code does not have"
    assert not said & others
    assert docs.met_by_clients() <= {what for what, _ in docs.bound_words().values()}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_internal_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        # Of a picture it says in which of the site's two palettes it shows.
        known = (
            {"only-light", "only-dark"}
            if place.suffix == ".png"
            else anchors(place)
            if anchor and place.exists()
            else ()
        )
        if not place.exists() or (anchor and anchor not in known):
            broken.append(target)
    assert broken == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_variables_exist(page: Path) -> None:
    known = {row.variable for row in settings.table()} | {settings.CONFIG_VARIABLE, *settings.CLIENT_VARIABLES}
    assert set(re.findall(r"\bSANDCELL_[A-Z_]*[A-Z]\b", page.read_text())) <= known


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_settings_in_examples_are_taken(page: Path, tmp_path: Path) -> None:
    for text in blocks(page, "toml"):
        if all(isinstance(value, dict | list) for value in tomllib.loads(text).values()):
            given = settings.Settings(data_dir=str(tmp_path))
            assert environments_file.parse(text, given) or environments_file.parse_roles(text)
            continue
        file = tmp_path / "settings.toml"
        file.write_text(text)
        assert set(tomllib.loads(text)) <= {row.name for row in settings.table()}
        settings.load(environ={}, config=str(file))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_addresses_exist(page: Path) -> None:
    tables = (*jupyter.list_routes(), *e2b.list_routes(), *librechat.list_routes())
    ours = [*(path for _, path, _ in routes.list_routes()), *(path for _, path, _, _ in tables)]
    known = [re.sub(r"\{\w+\}", "X", path) for path in ours]
    elsewhere = [operation.path for operation in (*agentcore.TABLE, *AGENT_ENGINE_TABLE)]
    others = [re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in elsewhere]
    named = re.findall(r"(?:GET|PUT|POST|DELETE) (/[\w/{}.-]+)|`(/v1/[\w/{}.-]+)`", page.read_text())
    for address in {re.sub(r"\{\w+\}", "X", one or other) for one, other in named}:
        assert any(path == address or path.startswith(address + "/") for path in known) or any(
            path.fullmatch(address) for path in others
        ), address


def commands(page: Path) -> Iterator[list[str]]:
    """Every line with a command of the project: those typed in examples, and those in running text."""
    typed = [line[2:] for text in blocks(page, "console") for line in text.splitlines() if line.startswith("$ ")]
    written = [line for kind in ("sh", "ini") for text in blocks(page, kind) for line in text.splitlines()]
    for line in [*typed, *written]:
        words = split(line.partition("=")[2] if line.startswith("ExecStart=") else line)
        if words and Path(words[0]).name in {"make", "sandcell"}:
            yield [Path(words[0]).name, *words[1:]]
    for text in CODE.findall(FENCE.sub("", page.read_text())):
        words = split(text)
        if words and words[0] in {"make", "sandcell"}:
            yield words


def split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for command, *words in commands(page):
        if command == "make":
            assert {word for word in words if "=" not in word} <= targets, words
        else:
            check_sandcell(words)


def check_sandcell(words: list[str]) -> None:
    """The subcommand is there, and takes the flags."""
    from sandcell.cli.main import sandcell

    command: click.Command = sandcell
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        child = command.get_command(click.Context(command), words[0])
        assert child is not None, f"sandcell has no {words[0]}"
        command, words = child, words[1:]
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
    assert used <= flags | {"--help"}, f"{command.name} takes no {used - flags}"


def test_the_test_command_is_named() -> None:
    assert "`make test`" in README.read_text()
