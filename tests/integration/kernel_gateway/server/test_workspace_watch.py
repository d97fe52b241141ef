"""The service, which is not root, has the kernel watch the workspaces of its sessions, and nothing is left of that."""

from __future__ import annotations

from pathlib import Path

from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

MAKE = "import os; os.makedirs('a/b'); open('a/b/f', 'w').write('x')"
"""Two directories beside the workspace's own."""


def watches(service: RunningService) -> set[str]:
    """What the service has watched, by inode and device."""
    found = set()
    for info in Path(f"/proc/{service.service_pid}/fdinfo").iterdir():
        try:
            lines = info.read_text().splitlines()
        except FileNotFoundError:
            continue
        found |= {" ".join(line.split()[2:4]) for line in lines if line.startswith("inotify wd:")}
    return found


def test_directories_are_watched_for_as_long_as_the_session_lives(service: RunningService, rest: Rest) -> None:
    before = watches(service)
    session = rest.session()
    made = session.run(MAKE, sync="before_return")
    assert made["sync"]["durable"]
    seen = watches(service) - before
    assert len(seen) == 3
    again = session.run("pass", sync="before_return")
    assert again["sync"]["durable"]
    assert rest.get(session.path)["sync"]["durable"]["execution_id"] == again["id"]
    assert watches(service) - before == seen
    session.stop()
    assert not watches(service) & seen
