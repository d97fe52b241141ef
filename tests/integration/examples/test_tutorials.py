"""The tutorials do what they say: their files are written, their blocks run in order as a reader would type them."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tests.integration.examples.test_readme import ELSEWHERE, Reader, typed
from tests.running_service import RunningService

TUTORIALS = sorted((Path(__file__).parents[3] / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([\w.-]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(params=TUTORIALS, ids=lambda page: page.stem)
def tutorial(request: pytest.FixtureRequest) -> Path:
    page: Path = request.param
    return page


@pytest.fixture
def reader(service: RunningService, tmp_path: Path) -> Reader:
    return Reader(service, tmp_path)


def test_every_block_does_what_the_page_says(reader: Reader, tutorial: Path) -> None:
    checker = doctest.OutputChecker()
    for language, file, text in BLOCK.findall(tutorial.read_text()):
        if file:
            (reader.home / file).write_text(text)
        elif language == "python":
            assert reader.python(text).split("\n")[:-1] == re.findall(r"  # (.+)$", text, re.MULTILINE)
        elif language == "sh":
            reader.shell(text)
        elif language == "console":
            for command, expected in typed(text):
                if not f"{command} ".startswith(ELSEWHERE):
                    printed = reader.shell(command)
                    assert checker.check_output(expected, printed, doctest.ELLIPSIS), f"$ {command}\n{printed}"
        else:
            assert language == "text"


def test_what_goes_wrong_in_a_tutorial_is_what_it_says(reader: Reader) -> None:
    """Blocks of shell show no output: what these two print is said in words."""
    reader.shell("sandcell run 'table = [1, 2, 3]'")
    assert "exit status 1" in reader.shell("""sandcell run 'table["speed"]' || echo "exit status $?" """)
    assert reader.shell("sandcell run 'len(table)'").strip() == "3"
    reader.shell("sandcell session stop")
