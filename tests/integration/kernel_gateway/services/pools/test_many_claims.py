"""A thousand sessions from one pool, several at once: each has a sandbox of its own, and nothing of them is left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import MakeService
from tests.running_service import RunningService

SESSIONS = 1_000
AT_ONCE = 4
MOST = 8


def count_held(pid: int) -> dict[str, int]:
    """What grows with something that is left behind, of the launcher or the service."""
    mounted = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    return {
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "mounts": len(mounted),
    }


def use_one(service: RunningService) -> tuple[str, int]:
    """A session's life: it finds nothing of another's, leaves its mark, and ends."""
    with service.client() as client:
        session_id = client.start_session().id
        seen = client.run(session_id, "import os; print(os.listdir('/workspace'), 'mark' in globals())")
        assert seen.stdout == "[] False\n", seen
        found = client.run(session_id, "mark = 1; open('mark', 'w').close(); import random; random.getrandbits(64)")
        client.stop_session(session_id)
        return session_id, int(found.text)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_many_claims_leave_nothing(make_service: MakeService, tmp_path: Path) -> None:
    file = tmp_path / "environments.toml"
    file.write_text(f"[python]\nwarm = {{least = 2, most = {MOST}}}\n")
    service = make_service(environments_file=file, pool_starts_at_once=2, invocations_per_second=1000)
    for _ in range(AT_ONCE * 2):
        use_one(service)
    before = [count_held(pid) for pid in (service.pid, service.service_pid)]
    with ThreadPoolExecutor(AT_ONCE) as users:
        used = list(users.map(lambda _: use_one(service), range(SESSIONS)))
    assert len({session_id for session_id, _ in used}) == SESSIONS
    assert len({number for _, number in used}) == SESSIONS, "each draws its own random numbers"
    with service.client() as client:
        pool = client.get_environment("python").pool
    assert pool is not None
    assert pool.hits > MOST, "it was filled again and again"
    assert pool.hits + pool.misses == SESSIONS + AT_ONCE * 2
    assert pool.failures == 0
    after = [count_held(pid) for pid in (service.pid, service.service_pid)]
    for earlier, later in zip(before, after, strict=True):
        # The pool may be larger than it was by so many, each with its connections and mounts.
        assert all(later[name] <= earlier[name] + 16 * MOST for name in later), (before, after)
    assert service.stop() == 0
    assert list((service.data_dir / "sandboxes").iterdir()) == []
