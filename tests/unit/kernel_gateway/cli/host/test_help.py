"""The help of the verbs that the service adds: `serve` shows every setting, the others a few, and all take all."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kernel_gateway.cli.options import NAMED
from kernel_gateway.settings import table
from sandcell.cli.main import sandcell

BRIEF = [["doctor"], ["environments", "build"], ["kernelspec", "install"], ["audit", "verify"]]


def command(words: list[str]) -> click.Command:
    found: click.Command | None = sandcell
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    assert found is not None
    return found


@pytest.mark.parametrize("words", BRIEF, ids=" ".join)
def test_others_are_brief_and_take_every_setting(words: list[str]) -> None:
    shown = CliRunner().invoke(sandcell, [*words, "--help"]).output
    assert len(shown.splitlines()) < 60
    assert "All settings of `serve` are" in shown
    taken = {parameter.name for parameter in command(words).params}
    assert {row.name for row in table() if not row.secret} <= taken
    assert set(NAMED) <= taken


def test_serve_shows_every_setting() -> None:
    shown = CliRunner().invoke(sandcell, ["serve", "--help"]).output
    assert [row.flag for row in table() if not row.secret and row.flag not in shown] == []
