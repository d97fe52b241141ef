"""A session that attempts are made in, and the position it holds: one service, one range of uids.

The first session of a position is destroyed after all its attempts, having left its mark wherever it can write; the
second one gets the same range of uids, finds nothing of the first, and makes the same attempts.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from dataclasses import dataclass
from errno import errorcode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandcell import Client, Result, Session
from tests.escape import traces
from tests.escape.attempt import Attempt, Family

if TYPE_CHECKING:
    from tests.escape.unharmed import Host, Neighbour
    from tests.running_service import RunningService

HERE = Path(__file__).parent
PRELUDE = (HERE / "prelude.py").read_text()
INSIDE = (HERE / "inside.py").read_text()

KERNEL_SIDE = """
import json, subprocess, sys

class _Attempts:
    def __init__(self, source):
        self.command = [sys.executable, "-c", source]
        self.server = None

    def ask(self, request):
        if self.server is None or self.server.poll() is not None:
            self.server = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.server.stdin.write(json.dumps(request) + "\\n")
            self.server.stdin.flush()
            answer = self.server.stdout.readline()
        except OSError:
            answer = ""
        return answer or json.dumps({"outcome": "died: the process that starts attempts", "stdout": "", "stderr": ""})
"""


@dataclass(frozen=True)
class Told:
    """What came of a program: the outcome as `attempt.py` says it, and all it printed."""

    outcome: str
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Scene:
    """What a check on the host can look at after an attempt."""

    position: Position
    told: Told
    host: Host
    neighbour: Neighbour

    @property
    def session(self) -> Session:
        return self.position.session

    @property
    def client(self) -> Client:
        return self.position.session.client


class Position:
    """One session at one place of a service. `predecessor` is the mark of the session that was there before."""

    def __init__(self, service: RunningService, runtime: str, family: Family, *, predecessor: str = "") -> None:
        self.service = service
        self.runtime = runtime
        self.mark = f"mark{uuid.uuid4().hex}"
        self.predecessor = predecessor
        self.known: dict[str, Any] = {}
        self._client = service.client()
        self.family = family.name
        self.session = Session(self._client, self._client.start_session(**family.session))
        self._ready = False

    @property
    def uid_base(self) -> int:
        """The first host id of the sandbox: who has the same is in the same position."""
        return int(json.loads((self._home / "sandbox.json").read_text())["uid_base"])

    @property
    def _home(self) -> Path:
        """The directory of the sandbox on the host; gone when all of the sandbox is."""
        return self.service.data_dir / "sandboxes" / self.session.id

    def close(self, deadline_seconds: float = 120) -> None:
        """End the session; returns when its place is free."""
        self.session.stop()
        self._client.close()
        give_up = time.monotonic() + deadline_seconds
        while self._home.exists():
            assert time.monotonic() < give_up, f"{self._home} is still there"
            time.sleep(0.02)

    def forget(self) -> None:
        """The kernel is another one now and knows nothing of us; checks that replace it call this."""
        self._ready = False

    def attempt(self, attempt: Attempt, predecessor: str = "") -> Told:
        """Make an attempt."""
        names = {"MARK": f"{self.mark}-{attempt.slug}"}
        if predecessor:
            names["PREDECESSOR"] = f"{predecessor}-{attempt.slug}"
        return self.run(attempt.program, attempt.where, attempt.seconds, names)

    def seek(self, attempt: Attempt) -> Told:
        """Look for what the same attempt left in this position's earlier session."""
        names = {"PREDECESSOR": f"{self.predecessor}-{attempt.slug}"}
        return self.run(attempt.seek, "process", attempt.seconds, names)

    def leave_traces(self) -> list[str]:
        """Leave the mark wherever a session can; the kinds of traces that a search now finds."""
        told = self.run(traces.LEAVE, "process", 30, {"MARK": self.mark})
        assert told.outcome.startswith("said: "), told
        self._execute(f"TRACE = {self.mark!r}", 120)
        return sorted({line.split(":", 1)[0] for line in self.traces_of(self.mark)}, key=str.lower)

    def traces_of(self, mark: str) -> list[str]:
        """Where a mark can be found, a line each: `kind: place`."""
        # Sent backwards, so that the search does not find itself.
        told = self.run(traces.SEARCH, "process", 60, {"BACKWARDS": mark[::-1]})
        assert told.outcome in {"done", f"said: {told.stdout.strip()}"}, told
        remembered = self._execute(f"print(str(globals().get('TRACE'))[::-1] == {mark[::-1]!r})", 120).stdout.strip()
        return told.stdout.splitlines() + ["kernel: a global"] * (remembered == "True")

    def run(self, program: str, where: str, seconds: float, names: dict[str, str]) -> Told:
        """Run a program as user code."""
        names = {**self.known, **names}
        if where == "kernel":
            return self._in_kernel(program, seconds, names)
        request = {"program": program, "where": where, "seconds": seconds, "names": names}
        return self._ask(request)

    def _ask(self, request: dict[str, Any]) -> Told:
        self._prepare()
        result = self._execute(f"print(_attempts.ask({request!r}))", request["seconds"] + 120)
        if not result.ok:
            why = "" if result.death is None else result.death.detail
            return Told(self._of_kernel(result), result.stdout, result.stderr + why)
        return Told(**json.loads(result.stdout))

    def _in_kernel(self, program: str, seconds: float, names: dict[str, Any]) -> Told:
        self._prepare()
        given = "".join(
            f"{name} = {f'types.SimpleNamespace(**{value!r})' if isinstance(value, dict) else repr(value)}\n"
            for name, value in names.items()
        )
        assert self._execute(f"import types\n{given}", 120).ok
        result = self._execute(program, seconds)
        return Told(self._of_kernel(result), result.text, result.stderr)

    def _prepare(self) -> None:
        """Have the kernel know the prelude and the process that starts attempts; again after it has died."""
        if self._ready:
            return
        start = f"serve({PRELUDE!r})"
        code = f"{PRELUDE}\n{KERNEL_SIDE}\n_attempts = _Attempts({INSIDE + start!r})"
        result = self._execute(code, 120)
        if result.death is not None:  # by what an earlier attempt left; the next sandbox has nothing of it
            result = self._execute(code, 120)
        assert result.ok, result
        self._ready = True

    def _execute(self, code: str, seconds: float) -> Result:
        result = self.session.run(code, timeout_seconds=seconds)
        if result.status == "died" or result.death:
            self._ready = False
        return result

    @staticmethod
    def _of_kernel(result: Result) -> str:
        """The outcome of an execution."""
        if result.death is not None:
            last = result.death.signal or result.death.exit_code
            return f"died: {result.death.cause}" + (f" {last}" if last is not None else "")
        if result.error is not None:
            number = re.match(r"\[Errno (\d+)\]", result.error.value)
            return errorcode[int(number[1])] if number else f"{result.error.name}: {result.error.value}"
        if not result.ok:
            return result.status
        return f"said: {result.text.strip()}" if result.text.strip() else "done"
