"""Checks of the family guest: it goes on, starts what it is asked to, and imports and writes nothing of the user's."""

from __future__ import annotations

import time

from tests.escape.outside import restarted, routes
from tests.escape.position import Scene


def next_generation_works(scene: Scene) -> None:
    """Who killed the kernel has the next one."""
    assert scene.session.run("print(6 * 7)", timeout_seconds=30).stdout == "42\n"


def restarts(scene: Scene) -> None:
    """A new kernel starts whatever the old one left in its way."""
    before = scene.session.refresh().generation
    restarted(scene)
    assert scene.session.refresh().generation > before
    next_generation_works(scene)


def commands_end_in_time(scene: Scene) -> None:
    """A process that is stopped before it is the user's program is given up; later ones run."""
    with routes(scene) as asked:
        began = time.monotonic()
        for _ in range(2):
            answer = asked.ask("POST", "commands", json={"command": "true", "timeout_seconds": 1})
            assert answer.status_code in (200, 503), answer.text
        assert time.monotonic() - began < 30
    time.sleep(max(0.0, 2.2 - (time.monotonic() - began)))
    assert scene.session.command("echo well").stdout == "well\n"


def commands_inherit_nothing(scene: Scene) -> None:
    """The descriptor of the listing itself comes fourth."""
    listed = scene.session.command("python3 -c 'import os; print(len(os.listdir(\"/proc/self/fd\")))'")
    assert listed.stdout == "4\n", listed


def root_imports_nothing(scene: Scene) -> None:
    """All that is imported or read at a start is imported by the user's processes."""
    restarts(scene)
    scene.session.command("bash -ic true")
    scene.session.command("rm -rf /tmp/*.py /home/user/*.py /workspace/*.py /home/user/.local /home/user/.bashrc")
    lines = scene.session.command("cat /tmp/imported").stdout.splitlines()
    assert lines
    assert {line.split()[0] for line in lines} == {"1000"}
    assert "1" not in {line.split()[1] for line in lines}
    restarts(scene)


def victim_is_untouched(scene: Scene) -> None:
    restarts(scene)
    assert scene.session.command("cat /workspace/victim").stdout == "untouched"


def tasks_are_bounded(scene: Scene) -> None:
    """Sixteen at once; one that ignores what it is asked is killed, and there is room again when they have ended."""
    with routes(scene) as asked:
        command = {"command": "trap '' TERM INT; sleep 60; :", "timeout_seconds": 60, "background": True}
        answers = [asked.ask("POST", "commands", json=command) for _ in range(17)]
        assert [answer.status_code for answer in answers] == [202] * 16 + [429]
        stopped = asked.ask("DELETE", f"tasks/{answers[0].json()['id']}")
        assert stopped.json()["status"] == "stopped"
        assert scene.session.run("import subprocess; subprocess.run(['pkill', '-9', '-f', 'trap'])").ok
        assert asked.ask("POST", "commands", json={"command": "true"}).status_code == 200
