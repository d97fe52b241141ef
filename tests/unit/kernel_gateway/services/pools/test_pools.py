"""Which starts a pool serves."""

from __future__ import annotations

import pytest

from kernel_gateway.services.pools.pools import find_obstacle
from kernels.environment import Environment, PoolSize
from sandcell.models.sessions import StartSession

WARM = Environment("python", "/root", "sha256:0", pool=PoolSize(1, 1))
KEEPING = Environment("python", "/root", "sha256:0", pool=PoolSize(1, 1), keep_packages=True)
COLD = Environment("python", "/root", "sha256:0")


@pytest.mark.parametrize(
    "body",
    [
        StartSession(),
        StartSession(name="a", labels={"a": "b"}, agent="c", timeout_seconds=5, idle_timeout_seconds=5),
        StartSession(workspace_id="w"),
    ],
)
def test_what_is_the_sessions_and_not_its_sandboxs_may_be_anything(body: StartSession) -> None:
    assert find_obstacle(WARM, body, None) == ""


@pytest.mark.parametrize(
    ("environment", "body", "session_id", "why"),
    [
        (COLD, StartSession(), None, "has no pool"),
        (WARM, StartSession(), "an-id", "id was chosen"),
        (KEEPING, StartSession(workspace_id="w"), None, "packages"),
    ],
)
def test_what_a_sandbox_is_born_with_needs_one_of_its_own(
    environment: Environment, body: StartSession, session_id: str | None, why: str
) -> None:
    assert why in find_obstacle(environment, body, session_id)
    assert find_obstacle(KEEPING, StartSession(), None) == "", "an empty workspace has no packages to look for"
