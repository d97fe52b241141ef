"""Routes about programs that a caller follows: their start, the stream of what they put out, input, signals."""

from __future__ import annotations

import json
import signal
from base64 import b64decode, b64encode
from typing import Any

from tornado.iostream import StreamClosedError

from ..deadline import timeout
from ..processes.commands import MAX_COMMAND_BYTES, MAX_TIMEOUT_SECONDS, Command
from ..processes.programs import FollowedProgram
from ..refusal import Refusal
from .handler import Handler

HEARTBEAT_SECONDS = 3.0
MAX_SIDE = 2_000
"""Of a terminal, in columns or rows."""


class FollowingHandler(Handler):
    """Answers with a line for each event of a program until it has ended; who hangs up ends nothing."""

    async def follow(self, program: FollowedProgram, *, again: bool = False) -> None:
        reader = program.attach(again=again)
        self.set_header("Content-Type", "application/x-ndjson")
        try:
            while (event := await _next(program, reader)) is not None:
                self.write(json.dumps(event) + "\n")
                await self.flush()
        except StreamClosedError:
            return
        finally:
            program.detach(reader)
        self.finish()


class ProgramsHandler(FollowingHandler):
    """GET /v1/programs: those that run, or ended a moment ago. POST /v1/programs {command, variables, directory, tag,
    size, input, timeout_seconds, execution, output_bytes}: start one and follow it; `size` is [columns, rows] of a
    terminal, or []; with the command [] it is a login shell.
    """

    def get(self) -> None:
        self.answer({"programs": self.control.programs.describe_known()})

    async def post(self) -> None:
        command, variables = self.field("command", list), self.field("variables", dict)
        texts = [*command, *variables, *variables.values()]
        if not all(isinstance(each, str) and "\0" not in each for each in texts):
            raise Refusal(400, "invalid_request", "a command and its variables are texts without NUL")
        if sum(len(each.encode("utf-8", "surrogateescape")) for each in texts) > MAX_COMMAND_BYTES:
            raise Refusal(413, "too_large", f"a command and its variables have at most {MAX_COMMAND_BYTES} bytes")
        seconds = float(self.field("timeout_seconds", float, int))
        if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
            raise Refusal(
                400, "invalid_request", f"timeout_seconds must be above 0 and at most {MAX_TIMEOUT_SECONDS:g}"
            )
        program = await self.control.start_program(
            command,
            variables=variables,
            directory=self.field("directory", str),
            tag=self.field("tag", str),
            size=_parse_size(self.field("size", list)),
            takes_input=self.field("input", bool),
            timeout_seconds=seconds,
            execution=self.field("execution", str, type(None)) or "",
            output_bytes=self.field("output_bytes", int, type(None)) or 0,
        )
        await self.follow(program)


class OutcomeHandler(Handler):
    def find(self, execution: str) -> Command | FollowedProgram:
        """The program that was started for an execution, or the command of that id."""
        programs, commands = self.control.programs, self.control.commands
        return (programs if programs.is_execution(execution) else commands).find_execution(execution)


class ExecutionHandler(OutcomeHandler):
    """GET /v1/executions/{id}: wait for its end, of a command in the background too, and say how it was."""

    async def get(self, execution: str) -> None:
        found = self.find(execution)
        await found.finished.wait()
        self.answer(found.report())


class OutputHandler(OutcomeHandler):
    """GET /v1/executions/{id}/output?stdout=&stderr=: what it has put out by now after so many bytes of each stream,
    and where that begins."""

    def get(self, execution: str) -> None:
        found: dict[str, Any] = {}
        for name, stream in self.find(execution).streams.items():
            at, data = stream.after(self.number_argument(name, 0))
            found[name] = {"at": at, "data": b64encode(data).decode()}
        self.answer(found)


class ProgramHandler(FollowingHandler):
    """GET /v1/programs/{pid}: follow it in the place of who did before, from now on, or with `again=true` from what was
    told last. POST .../input {data}, .../close-input {}, .../signal {signal}, .../size {size}."""

    async def get(self, pid: str, _action: str) -> None:
        again = self.get_query_argument("again", "false") == "true"
        await self.follow(self.control.programs.find(int(pid)), again=again)

    def post(self, pid: str, action: str) -> None:
        program = self.control.programs.find(int(pid))
        if action == "/input":
            program.send(_decode(self.field("data", str)))
        elif action == "/close-input":
            program.close_input()
        elif action == "/signal":
            program.signal(_parse_signal(self.field("signal", str)))
        elif action == "/size" and (size := _parse_size(self.field("size", list))):
            program.resize(*size)
        else:
            raise Refusal(404, "not_found", "no such route")
        self.answer({})


async def _next(program: FollowedProgram, reader: object) -> dict[str, Any] | None:
    try:
        async with timeout(HEARTBEAT_SECONDS):
            return await program.next(reader)
    except TimeoutError:
        return {"event": "heartbeat"}


def _parse_size(size: list[Any]) -> tuple[int, int] | None:
    if not size:
        return None
    if len(size) != 2 or not all(type(side) is int and 0 < side <= MAX_SIDE for side in size):
        raise Refusal(400, "invalid_request", f"a terminal has 1 to {MAX_SIDE} columns and rows")
    return size[0], size[1]


def _parse_signal(name: str) -> int:
    if name not in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"):
        raise Refusal(400, "invalid_request", "signal is SIGKILL, SIGTERM, SIGINT or SIGHUP")
    return signal.Signals[name]


def _decode(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except ValueError:
        raise Refusal(400, "invalid_request", "data is not base64") from None
