"""Checks of the family guest: it goes on, starts what it is asked to, and imports and writes nothing of the user's."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.escape.outside import Routes, restarted, routes, service_bytes
from tests.escape.position import Scene

MOST_BYTES = 800 * 1024 * 1024
STAT, REMOVE, WATCH = (f"/filesystem.Filesystem/{each}" for each in ("Stat", "Remove", "CreateWatcher"))


def next_generation_works(scene: Scene) -> None:
    """Who killed the kernel has the next one."""
    assert scene.session.run("print(6 * 7)", timeout_seconds=180).stdout == "42\n"


def restarts(scene: Scene) -> None:
    """A new kernel starts whatever the old one left in its way."""
    before = scene.session.refresh().generation
    restarted(scene)
    assert scene.session.refresh().generation > before
    next_generation_works(scene)


def commands_end_in_time(scene: Scene) -> None:
    """A process that is stopped before it is the user's program is given up; later ones run."""
    with routes(scene) as asked:
        for _ in range(2):
            answer = asked.ask("POST", "commands", json={"command": "true", "timeout_seconds": 1})
            assert answer.status_code in (200, 503), answer.text
    # The kernel was there before what stops them; a process of a later attempt would be stopped as well.
    waited = "import os, time\nwhile not os.path.exists('/tmp/stopper-is-over'): time.sleep(0.05)"
    assert scene.session.run(waited, timeout_seconds=240).ok
    assert scene.session.command("echo well", timeout_seconds=180).stdout == "well\n"


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


def links_lead_nowhere(scene: Scene) -> None:
    """The verbs for files of the whole sandbox follow no link, and reach none of the guest's own places."""
    with _e2b(scene) as (asked, headers):
        for path in (
            "way/environ",
            "way/mem",
            "door/guest/http.sock",
            "/proc/1/environ",
            "/run/sandcell/guest/http.sock",
        ):
            for method in ("GET", "POST"):
                answer = asked.ask(method, "/files", params={"path": path}, headers=headers, content=b"x")
                assert 400 <= answer.status_code < 500, (method, path, answer.text)
            for verb in (STAT, REMOVE, WATCH):
                answer = asked.ask("POST", verb, json={"path": path}, headers=headers)
                assert 400 <= answer.status_code < 500, (verb, path, answer.text)
        for path in ("way", "door"):
            assert asked.ask("POST", WATCH, json={"path": path}, headers=headers).status_code == 409
            found = asked.ask("POST", STAT, json={"path": path}, headers=headers).json()["entry"]
            assert found["type"] == "FILE_TYPE_SYMLINK"
            assert asked.ask("POST", REMOVE, json={"path": path}, headers=headers).status_code == 200
    next_generation_works(scene)


def terminals_end_with_all_in_them(scene: Scene) -> None:
    """At its deadline a program in a terminal ends, and what it has started, whatever signals they ignore."""
    line = "trap '' HUP TERM INT; setsid sh -c \"trap '' HUP TERM INT; sleep 4343; :\" & sleep 4343; :"
    with (
        _e2b(scene) as (asked, headers),
        _start(asked, {**headers, "Connect-Timeout-Ms": "1000"}, line, True) as answer,
    ):
        assert b"deadline_exceeded" in answer.read()
    assert scene.session.command("pgrep -fc 'sleep 434[3]'").stdout == "0\n"


def floods_wait(scene: Scene) -> None:
    """Programs whose output nobody reads keep neither the service nor their session from their work."""
    with _e2b(scene) as (asked, headers):
        for _ in range(2):
            with _start(asked, headers, "exec yes", False) as answer:
                next(answer.iter_raw())
        for _ in range(5):
            scene.neighbour.unharmed()
            next_generation_works(scene)
        assert service_bytes(scene) < MOST_BYTES
        assert scene.session.command("pkill -9 -x yes").exit_code == 0


@contextmanager
def _e2b(scene: Scene) -> Iterator[tuple[Routes, dict[str, str]]]:
    """The service's routes, and what names the session and its owner on the E2B face."""
    with routes(scene) as asked:
        yield asked, {"X-Api-Key": scene.position.service.token, "E2b-Sandbox-Id": scene.session.id.replace("-", "")}


@contextmanager
def _start(asked: Routes, headers: dict[str, str], line: str, in_terminal: bool) -> Iterator[httpx.Response]:
    wanted: dict[str, Any] = {"process": {"cmd": "/bin/sh", "args": ["-c", line]}}
    message = json.dumps(wanted | ({"pty": {"size": {"cols": 80, "rows": 24}}} if in_terminal else {})).encode()
    sent = {**headers, "Content-Type": "application/connect+json"}
    with asked.stream("/process.Process/Start", struct.pack(">BI", 0, len(message)) + message, sent) as answer:
        assert answer.status_code == 200
        yield answer
