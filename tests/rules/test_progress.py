"""A run with `--progress` names what fails as it happens, and its last line counts what became of its tests."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.progress import Estimate, describe_end, describe_progress

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parent.parent.parent

HOOKS = """
import pytest
from tests import progress, sampling

progress.EVERY_SECONDS = 0

def pytest_addoption(parser):
    sampling.add_option(parser)
    progress.add_option(parser)

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    progress.register(config)

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    print("the check after the tests")
"""

FIRST = """
import pytest

def test_good(): pass
def test_bad(): assert 6 * 7 == 41, "not the answer\\nmore of it"
def test_skipped(): pytest.skip("nothing to see")
"""

SECOND = """
import pytest

@pytest.fixture
def broken(): raise OSError("no disk")

def test_good(): pass
def test_around(broken): pass
"""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makeini("[pytest]\naddopts = -ra --import-mode=importlib\n")
    pytester.makeconftest(HOOKS)
    for name, text in (("first", FIRST), ("second", SECOND)):
        (pytester.path / name).mkdir()
        (pytester.path / name / f"test_{name}.py").write_text(text)
    return pytester.path


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_fails_is_named_and_the_last_line_counts(pytester: pytest.Pytester, folder: Path, workers: str) -> None:
    done = pytester.runpytest_subprocess("--progress", "--sample=7", "-n", workers)
    lines = done.outlines
    assert "failed: first/test_first.py::test_bad: AssertionError: not the answer" in lines
    assert "error in its setup: second/test_second.py::test_around: OSError: no disk" in lines
    shown = [line for line in lines if "5 of 5" in line]
    assert len(shown) == 1
    assert shown[0].split("  ")[1:4] == ["5 of 5", "100 %", "2 failed"]
    assert shown[0].split("  ")[0] in {"first", "second"}
    assert lines.index("the check after the tests") < len(lines) - 1
    assert lines[-1].startswith("2 passed, 1 failed, 1 skipped, 1 with errors around them in ")
    assert lines[-1].endswith(" s; sample drawn by seed 7")
    assert any(line.startswith("FAILED first/test_first.py::test_bad") for line in lines), "the summary has its words"
    assert not [line for line in lines if line.startswith(("..", ".F", "first/test_first.py ."))]


def test_a_terminal_has_one_line_that_is_kept_up_to_date(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pytest", "--progress", "-p", "no:cacheprovider", "second/test_second.py"]
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = ""
        while piece := _read(ours):
            text += piece.decode()
        assert process.wait(300) == 1
    os.close(ours)
    lines = text.strip().splitlines()
    assert any(
        line.endswith("error in its setup: second/test_second.py::test_around: OSError: no disk") for line in lines
    )
    assert lines[-1].startswith("1 passed, 0 failed, 0 skipped, 1 with errors around them in ")
    assert lines[-1].endswith("; every case of the matrices")


def _read(terminal: int) -> bytes:
    """Linux says that nobody has the other end open any more by EIO."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_without_the_option_the_display_is_that_of_pytest(pytester: pytest.Pytester, folder: Path) -> None:
    lines = pytester.runpytest_inprocess("first", "-p", "no:cacheprovider").outlines
    assert any(line.startswith("first/test_first.py .Fs") for line in lines)
    assert lines[-1].startswith("=")


def test_the_next_run_knows_what_the_modules_of_this_one_took(pytester: pytest.Pytester, folder: Path) -> None:
    pytester.runpytest_subprocess("--progress", "first")
    pytester.runpytest_subprocess("--progress", "second", "-n", "1")
    measured = json.loads((folder / ".pytest_cache/v/sandcell/seconds_of_modules").read_text())
    assert {module: tests for module, (tests, _) in measured.items()} == {
        "first/test_first.py": 3,
        "second/test_second.py": 2,
    }


def test_the_time_left_is_that_of_the_tests_left_at_the_pace_of_the_run() -> None:
    measured = {"slow.py": (10, 100.0), "quick.py": (1000, 10.0)}
    estimate = Estimate(["slow.py"] * 20 + ["quick.py"] * 1000, measured, workers=2)
    assert estimate.seconds_left(0) == pytest.approx(105)  # 210 seconds of work, shared by two
    for _ in range(20):
        estimate.finish("slow.py")
    expected_pace = (400 + 60 / 2) / (200 + 60)  # the machine is four times slower, which the run has learned
    assert estimate.seconds_left(400) == pytest.approx(10 * expected_pace)
    for _ in range(1001):
        estimate.finish("quick.py")
    assert estimate.seconds_left(500) == 0


def test_without_a_run_before_unit_tests_are_thought_quick() -> None:
    units = Estimate(["tests/unit/test_a.py"] * 100, {}, workers=1)
    others = Estimate(["tests/integration/test_a.py"] * 100, {}, workers=1)
    assert 0 < units.seconds_left(0) < others.seconds_left(0)


def test_the_lines_are_for_people() -> None:
    assert (
        describe_progress("tests/integration/kernel_gateway/cli", 2310, 8368, 1, 350)
        == "tests/integration/kernel_gateway/cli  2,310 of 8,368  27 %  1 failed  about 6 min left"
    )
    assert describe_progress("tests/unit", 8367, 8368, 0, 2) == "tests/unit  8,367 of 8,368  99 %  about 1 min left"
    counts = {"passed": 8368, "skipped": 3, "": 16000, "warnings": 1}
    assert describe_end(counts, 540.2, 0, None) == (
        "8,368 passed, 0 failed, 3 skipped in 540 s; every case of the matrices"
    )
    assert describe_end(counts, 540.2, 1, "0f") == (
        "8,368 passed, 0 failed, 3 skipped in 540 s, and yet the run did not pass (exit status 1): see above;"
        " sample drawn by seed 0f"
    )
