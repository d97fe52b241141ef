"""A test that fails prints what its services logged since it began, and what its sessions ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running_service import RunningService

pytest_plugins = ["pytester"]

HOOKS = """
from tests.conftest import pytest_runtest_makereport, pytest_runtest_setup
"""

TESTS = """
import pytest
from tests.running_service import RunningService

service = next(one for one in RunningService.every if one.url == {url!r})

def test_before():
    with service.client() as client, client.session(name="earlier") as session:
        session.run("'of the test before'")

def test_bad():
    with service.client() as client, client.session() as session:
        session.run("print('so far')\\n1 / 0")
        client.list_environments()
        assert session.name == "another"

@pytest.fixture
def broken():
    with service.client() as client:
        client.list_agents()
    raise OSError("no disk")

def test_around(broken): pass

def test_good():
    with service.client() as client:
        client.list_agents()
"""


def test_a_failing_test_shows_the_log_and_the_sessions_of_its_services(
    pytester: pytest.Pytester, service: RunningService
) -> None:
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(TESTS.format(url=service.url))
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    done.assert_outcomes(passed=2, failed=1, errors=1)
    text = "\n".join(done.outlines)
    around, _, bad = text.partition("= FAILURES =")
    assert f"- log of the service {service.url} since the test began -" in bad
    assert "/v1/environments" in bad
    assert f"- sessions of the service {service.url} since the test began -" in bad
    assert "  execution " in bad
    assert "    stdout: 'so far\\n'" in bad
    assert "ZeroDivisionError" in bad
    assert "of the test before" not in text
    assert "/v1/agents" in around
    assert "/v1/environments" not in around


def test_a_report_without_an_answer_says_so_and_has_the_end_of_the_log(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    class Deaf(RunningService):
        """One that has gone away behind its address, and has said much before."""

        running = True

    deaf = Deaf(tmp_path, {})
    deaf.url = "http://127.0.0.1:9"
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(
        f"""
        from tests.running_service import RunningService

        def test_bad():
            deaf = next(one for one in RunningService.every if one.url == {deaf.url!r})
            deaf.output += [f"line {{n}}, {{'x' * (10_000 if n == 150 else 1)}}\\n" for n in range(1, 151)]
            assert deaf.url == ""
        """
    )
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    done.assert_outcomes(failed=1)
    lines = done.outlines
    assert "(50 lines before these)" in lines
    assert "line 50, x" not in lines
    assert "line 51, x" in lines
    assert any(line.startswith("line 150, xxx") and len(line) < 600 for line in lines)
    assert any(line.startswith("(they could not be asked for: ConnectError") for line in lines)
