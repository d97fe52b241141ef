"""Verbs that other distributions add: found by their entry points, loaded when called, named when they cannot be."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sandcell.cli import verbs
from sandcell.cli.main import VERBS, sandcell
from sandcell.cli.verbs import Verbs


@click.command("greet")
def greet() -> None:
    """Say hello."""
    click.echo("hello")


def added(*rows: tuple[str, str]) -> tuple[EntryPoint, ...]:
    return tuple(EntryPoint(name, value, verbs.GROUP) for name, value in rows)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Verbs:
    """A group with a verb at the top, one in a group below, and one whose module is not there."""
    ours = f"{__name__}:greet"
    entries = added(("greet", ours), ("people.greet", ours), ("lost", "nowhere_at_all:verb"), ("odd", f"{__name__}:no"))
    monkeypatch.setattr(verbs, "_entries", lambda: entries)
    top = Verbs("top")
    top.add_command(Verbs("people", path="people"))
    return top


def test_added_verbs_run_at_the_top_and_in_a_group(group: Verbs) -> None:
    assert CliRunner().invoke(group, ["greet"]).output == "hello\n"
    assert CliRunner().invoke(group, ["people", "greet"]).output == "hello\n"
    assert group.list_commands(click.Context(group)) == ["people", "greet", "lost", "odd"]


@pytest.mark.parametrize("name", ["lost", "odd"])
def test_one_that_cannot_be_imported_says_so_and_spoils_no_other(group: Verbs, name: str) -> None:
    said = CliRunner().invoke(group, [name, "--any", "argument"])
    assert said.exit_code == 7
    assert "cannot be imported" in said.output
    shown = CliRunner().invoke(group, ["--help"])
    assert shown.exit_code == 0
    assert "Say hello." in shown.output


@pytest.mark.parametrize(
    ("files", "is_other"),
    [(["gatewayapp.py"], True), (["gatewayapp.py", "errors.py"], True), (["errors.py"], False)],
    ids=["the other", "both in one", "ours"],
)
def test_the_package_of_the_same_name_is_known(
    files: list[str], is_other: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a_namesake"
    place.mkdir()
    for file in ["__init__.py", *files]:
        (place / file).touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(verbs, "SERVICE", "a_namesake")
    assert verbs.find_namesake() == (place if is_other else None)


def test_every_verb_of_the_client_is_where_the_table_says() -> None:
    context = click.Context(sandcell)
    for name in VERBS:
        command = sandcell.get_command(context, name)
        assert command is not None
        assert command.name == name
