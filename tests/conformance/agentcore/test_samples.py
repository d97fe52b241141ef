"""Programs written after AWS's samples get every result, the SDK unmodified: they read it when the session is over."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.agentcore.accounts import Account
from tests.conformance.agentcore.client_environments import CLIENTS, ClientEnvironment

SCRIPT = CLIENTS / "scripts" / "as_aws_samples.py"
SHAPES = 2
Run = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def run(client_environment: Callable[[str], ClientEnvironment], account: Account, tmp_path: Path) -> Run:
    """What the tools of the samples return, each code run so often in each shape."""

    def run(rounds: int, *codes: str) -> list[tuple[str, str]]:
        python = client_environment("bedrock_agentcore").place / "bin" / "python"
        done = subprocess.run(
            [python, SCRIPT, str(rounds), *codes],
            env={**account.variables, "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [(name, returned) for name, returned in json.loads(done.stdout)]

    return run


def require_all(returned: list[tuple[str, str]], number: int) -> None:
    lost = [each for each in returned if not each[1].startswith("{") or not says_done(json.loads(each[1]))]
    assert not lost
    assert len(returned) == number


def says_done(result: dict[str, object]) -> bool:
    return result["isError"] is False and {"type": "text", "text": "done"} in result["content"]


def test_no_result_is_lost(run: Run) -> None:
    require_all(run(1, "print", "plot"), SHAPES * 2)


@pytest.mark.long  # the image `data`
@pytest.mark.timeout(900)
def test_no_result_of_the_samples_libraries_is_lost(run: Run) -> None:
    codes = ("scipy", "seaborn", "sklearn")
    require_all(run(2, *codes), 2 * SHAPES * len(codes))


@pytest.mark.long  # twenty times half a minute, in two shapes
@pytest.mark.timeout(1800)
def test_no_result_is_lost_of_many(run: Run) -> None:
    codes = ("print", "pandas", "plot", "sleep 2", "sleep 30")
    require_all(run(20, *codes), 20 * SHAPES * len(codes))
