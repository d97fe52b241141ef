"""`make retest` runs again what failed: it names what failed twice and what did once, and shows how that was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parent.parent.parent
HOOKS = """
from tests import failure_report

def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        failure_report.keep(session.config)
"""
TESTS = """
from pathlib import Path

def test_good(): pass
def test_broken(): assert 6 * 7 == 41
def test_busy():
    print("a line", "of its output")
    begun = Path(__file__).with_name("begun")
    if not begun.exists():
        begun.touch()
        raise OSError("no answer")
"""


@pytest.fixture
def again(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script in a folder of such tests."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makeini("[pytest]\naddopts = --import-mode=importlib\n")
    pytester.makeconftest(HOOKS)
    (pytester.path / "test_each.py").write_text(TESTS)
    (pytester.path / "scripts").mkdir()
    return Path(shutil.copy(REPOSITORY / "scripts/retest", pytester.path / "scripts/retest"))


def retest(script: Path) -> tuple[int, str]:
    done = subprocess.run((sys.executable, script), check=False, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


def test_what_failed_twice_is_named_apart(pytester: pytest.Pytester, again: Path) -> None:
    pytester.runpytest_subprocess("-n", "2")
    status, said = retest(again)
    assert status == 1
    first, _, verdicts = said.partition("retest: how test_each.py::test_broken ")[2].partition("retest: failed again:")
    assert "assert (6 * 7) == 41" in first
    assert "retest: how test_each.py::test_busy failed the first time:" in first
    assert "OSError: no answer" in first
    assert "a line of its output" in first
    broken, _, once = verdicts.partition("retest: failed once and passed alone; mend them, they are not steady:")
    assert broken.split() == ["test_each.py::test_broken"]
    assert once.split() == ["test_each.py::test_busy"]


def test_it_passes_when_all_of_them_pass_alone(pytester: pytest.Pytester, again: Path) -> None:
    pytester.runpytest_subprocess("-k", "busy")
    status, said = retest(again)
    assert status == 0
    assert "failed again" not in said
    assert said.split("not steady:")[1].split() == ["test_each.py::test_busy"]
