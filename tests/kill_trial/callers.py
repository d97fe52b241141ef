"""The load: one caller for each session, who asks again whatever was not answered, and never twice for the same."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import WebSocketException

from tests.integration.kernel_gateway.faces.jupyter.wire import wire
from tests.kill_trial.cells import BEGIN, LATE_LINE, REPORT, Cell, draw_cell
from tests.running_service import RunningService

GUARD_SECONDS = 600
RETRY_SECONDS = 0.1
AGAIN = (429, 500, 502, 503, 504)
"""Answers after which the same is asked once more; all other errors are findings."""


class Caller:
    """One client that outlives every kill: what fails on the way is asked again until it is answered."""

    def __init__(self, service: RunningService) -> None:
        self._service = service
        self._http = httpx.Client(timeout=GUARD_SECONDS, headers={"Authorization": f"Bearer {service.token}"})

    def ask_once(self, method: str, path: str, **more: Any) -> httpx.Response | None:
        """The answer, None when none came."""
        url = self._service.url
        try:
            return self._http.request(method, f"{url}{path}", **more) if url else None
        except httpx.HTTPError:
            return None

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """The answer to what may be asked again."""
        give_up = time.monotonic() + GUARD_SECONDS
        while True:
            answer = self.ask_once(method, path, **more)
            if answer is not None and answer.status_code not in AGAIN:
                return answer
            assert time.monotonic() < give_up, f"no answer to {method} {path}: {answer and answer.text}"
            time.sleep(RETRY_SECONDS)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def close(self) -> None:
        self._http.close()


@dataclass
class Load:
    """What one session was given, and what its caller was told: `told` has every answer that ended an execution."""

    number: int
    session_id: str
    token: str
    told: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Of cells that were acknowledged, by number."""
    cells: dict[int, Cell] = field(default_factory=dict)
    attached: set[int] = field(default_factory=set)
    """Cells that a Jupyter client sent; they may never have begun."""
    begun: set[int] = field(default_factory=set)
    """Those of them of which the client heard that they ran."""
    uploads: dict[str, bytes] = field(default_factory=dict)
    commands: dict[int, bool] = field(default_factory=dict)
    """Whether each was answered."""
    findings: list[str] = field(default_factory=list)


class Worker(threading.Thread):
    """Loads one session until it is stopped."""

    def __init__(self, service: RunningService, number: int, seed: int, stop: threading.Event) -> None:
        super().__init__(name=f"session {number}")
        self._caller, self._service, self._stop_asked = Caller(service), service, stop
        self._chance = random.Random(f"{seed}-{number}")
        token = f"token of {number}"
        made = self._caller.ask("POST", "/v1/sessions", json={"idle_timeout_seconds": 86_400})
        assert made.status_code == 201, made.text
        self.load = Load(number, made.json()["id"], token)
        self._path = f"/v1/sessions/{self.load.session_id}"
        begun = self._caller.ask("POST", f"{self._path}/executions", json={"code": BEGIN.format(token=token)})
        assert begun.json()["status"] == "ok", begun.text
        self._next = 0

    def run(self) -> None:
        acts: tuple[Callable[[], None], ...] = (self._run_cell, self._upload, self._command, self._run_attached)
        while not self._stop_asked.is_set():
            try:
                self._chance.choices(acts, (8, 2, 2, 2))[0]()
            except Exception as error:
                self.load.findings.append(f"the caller failed: {error!r}")
                return

    def report(self) -> list[str]:
        """What the kernel says at the end: its token, whether its two notes agree, and the cells that ran."""
        answer = self._caller.ask("POST", f"{self._path}/executions", json={"code": REPORT},
                                  headers={"Idempotency-Key": "report"})  # fmt: skip
        # Threads of earlier cells may print between any two numbers.
        return LATE_LINE.sub("", str(answer.json().get("stdout", ""))).split() or [answer.text]

    def close(self) -> None:
        self._caller.close()

    def _draw(self) -> Cell:
        self._next += 1
        self.load.cells[self._next] = cell = draw_cell(self._next, self._chance)
        return cell

    def _run_cell(self) -> None:
        cell = self._draw()
        answer = self._caller.ask(
            "POST", f"{self._path}/executions", json={"code": cell.code, "wait": False},
            headers={"Idempotency-Key": f"cell {cell.number}"},
        )  # fmt: skip
        assert answer.status_code in (200, 202), answer.text
        execution = answer.json()["id"]
        give_up = time.monotonic() + GUARD_SECONDS
        while (shown := self._caller.get(f"{self._path}/executions/{execution}"))["status"] in ("queued", "running"):
            assert time.monotonic() < give_up, f"cell {cell.number} is still {shown['status']}"
            time.sleep(RETRY_SECONDS)
        self.load.told[cell.number] = shown

    def _upload(self) -> None:
        self._next += 1
        name, data = f"upload-{self._next}", self._chance.randbytes(self._chance.randint(1, 300_000))
        answer = self._caller.ask("PUT", f"{self._path}/files/{name}", content=data)
        assert answer.is_success, answer.text
        self.load.uploads[name] = data

    def _command(self) -> None:
        """Not asked again: nothing says whether it ran."""
        self._next += 1
        self.load.commands[self._next] = False
        command = f"echo {self._next} >> commands.txt; sleep 0.2; echo done {self._next}"
        answer = self._caller.ask_once("POST", f"{self._path}/commands", json={"command": command})
        if answer is not None and answer.is_success and answer.json()["status"] == "done":
            self.load.commands[self._next] = answer.json()["stdout"] == f"done {self._next}\n"

    def _run_attached(self) -> None:
        """A Jupyter client runs a cell, and goes away when its socket breaks; the cell is looked up at the end."""
        cell = self._draw()
        self.load.attached.add(cell.number)
        url = self._service.url
        if not url:
            return
        try:
            with wire(url, self.load.session_id, self._service.token) as socket:
                wanted = socket.execute(cell.code)
                socket.until(lambda message: is_begin(message, wanted))
                self.load.begun.add(cell.number)
                socket.finished(wanted)
        except (OSError, EOFError, WebSocketException, TimeoutError, ValueError):
            time.sleep(RETRY_SECONDS)


def is_begin(message: dict[str, Any], wanted: str) -> bool:
    """Whether it says that the code of a request runs."""
    return bool(message["parent_header"].get("msg_id") == wanted and message["header"]["msg_type"] == "execute_input")
