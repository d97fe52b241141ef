"""The host's side of a sandbox's guest: one object per sandbox, HTTP over connections to the guest's socket.

The guest is treated as hostile: what is read is bounded, every call has a deadline, and what makes no sense is
`SandboxFailed`. A refusal of the guest is `GuestRefused`, a closed socket `SandboxGone`. The routes are in
kernels/guest/README.md.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from kernels.errors import DeadlineExceeded, GuestRefused, NotListening, NotReached, SandboxFailed, SandboxGone
from kernels.guest_client import answers as guest_answers
from kernels.guest_client import file_stream, programs
from kernels.guest_client.answers import CommandResult, FileChange, FileStat, KernelExit, KernelStarted
from kernels.guest_client.programs import ProgramEvent, ProgramOutput, ProgramRequest, RunningProgram
from kernels.guest_client.transport import Answer, Content, CutOff, GuestTransport
from kernels.kernelspec import Kernelspec
from kernels.wire.dialing import GUEST, PATIENCE_SECONDS, POLL_SECONDS, Dial

__all__ = ["CommandResult", "FileChange", "FileStat", "GuestClient", "KernelExit", "KernelStarted"]

Parsed = TypeVar("Parsed")
Why = Literal["deadline", "request"]
"""Why a kernel is interrupted."""
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Of one JSON answer: a listing or a command's output."""
MAX_EVENT_BYTES = 64 * 1024
SILENCE_SECONDS = 18.0
"""Without a heartbeat for this long, of which the guest sends three in that time, it is asked whether it lives."""
CALL_SECONDS = 15.0
START_SECONDS = 30.0
"""More than a guest takes to kill what is left before it starts a kernel."""
PROBE_SECONDS = 3.0
FOLLOW_AGAIN_SECONDS = 0.1
DYING_ROUNDS = 50
USAGE = {
    **dict.fromkeys(("memory", "memory_peak", "memory_limit", "memory_held", "pids", "oom_kills"), int),
    "cpu_seconds": float,
}
WALK_SECONDS = 45.0
"""For a listing or removal; the guest gives up after 30 s."""
TRANSFER_SECONDS = 900.0
PATHS_AT_ONCE = 80
"""To be removed with one call: as JSON the longest of them still fit into one request."""


class _BrokenOff(SandboxFailed):
    """The guest did not finish what it was saying, and still listens."""


class GuestClient:
    """Drives the guest of one sandbox, reached by `dial`."""

    def __init__(self, dial: Dial, *, sending_bytes: int = 0) -> None:
        """`sending_bytes` as `GuestTransport` has it, for what a host sends in bulk: a guest need not read it."""
        self.awake: Callable[[], Awaitable[None]] | None = None
        """Set while the sandbox stands still: awaited before each call, which a stopped guest would not answer."""
        self.heard = 0.0
        """When the guest said something last of its own accord, by the loop's clock: an event, or a heartbeat."""
        self._calls = 0
        self._dial = dial
        self._transport = GuestTransport(dial, sending_bytes)

    @property
    def busy(self) -> bool:
        """Whether a call is under way; following the kernel's life is none."""
        return self._calls > 0

    def forget_connections(self) -> None:
        """Use none again that is open: the guest may close them by the time that it goes on."""
        self._transport.forget()

    async def wait_ready(self, deadline_seconds: float) -> KernelStarted:
        """Wait until the guest answers; its first kernel has been started by then. Raises `DeadlineExceeded`."""
        why = ""
        try:
            async with _deadline(deadline_seconds, "the guest to answer"):
                while True:
                    try:
                        self._transport.take(await self._dial(GUEST, patience_seconds=PATIENCE_SECONDS))
                        return guest_answers.parse_start(
                            await self._json("GET", "/v1/status", deadline_seconds=deadline_seconds)
                        )
                    except (NotListening, NotReached, SandboxGone, _BrokenOff) as error:  # not there yet
                        why = f": {error}"
                        await asyncio.sleep(POLL_SECONDS)
        except DeadlineExceeded as error:
            raise DeadlineExceeded(f"{error}{why}") from None

    async def start_kernel(self, generation: int, *, keep_others: bool = False, key: str = "") -> KernelStarted:
        """Kill what is left of the kernel and its children, start a new one. Commands and tasks go on.

        With `keep_others` the kernels for other languages go on as well. A `key` is the one to sign with, for
        clients that keep to it across restarts.
        """
        body = {"generation": generation, "keep_deno": keep_others, "key": key}  # as guests of older versions have it
        return guest_answers.parse_start(
            await self._json("POST", "/v1/kernel/start", body, deadline_seconds=START_SECONDS)
        )

    async def renumber_kernel(self, generation: int) -> KernelStarted:
        """Have the kernel that runs, in which no code has run, be of this later generation."""
        return guest_answers.parse_start(await self._json("POST", "/v1/kernel/renumber", {"generation": generation}))

    async def start_deno(self) -> KernelStarted:
        """The kernel for JavaScript and TypeScript, started when none runs; it counts its own generations."""
        return guest_answers.parse_start(await self._json("POST", "/v1/deno/start", {}, deadline_seconds=START_SECONDS))

    async def kill_deno(self) -> None:
        """Send SIGKILL to that kernel's process group."""
        await self._json("POST", "/v1/deno/kill", {})

    async def start_declared(self, spec: Kernelspec) -> KernelStarted:
        """A kernel that the image declares, started when none of its name runs."""
        body: dict[str, object] = {"kernel": spec.name, "by_message": spec.by_message}
        body |= {"command": list(spec.command), "variables": dict(spec.variables)}
        return guest_answers.parse_start(
            await self._json("POST", "/v1/declared/start", body, deadline_seconds=START_SECONDS)
        )

    async def signal_declared(
        self, kernel: str, signal: Literal["interrupt", "kill"], why: Why = "request", run: str = ""
    ) -> None:
        """SIGINT or SIGKILL to that kernel's process group; of the first the guest remembers why, as below."""
        await self._json("POST", f"/v1/declared/{signal}", {"kernel": kernel, "why": why, "run": run})

    async def interrupt_by_message(self, kernel: str, why: Why, run: str, message: bytes) -> None:
        """Hand a kernel's relay a message for its control channel that interrupts what runs.

        Refused by a guest that has no such route, or no relay for that kernel.
        """
        body = {"kernel": kernel, "why": why, "run": run, "message": b64encode(message).decode()}
        await self._json("POST", "/v1/relay/interrupt", body)

    async def put_packages(self, elsewhere: Mapping[str, str]) -> None:
        """Say which environments have a package, by its normalised name, for those who look for it in vain."""
        await self._json("PUT", "/v1/packages", {"elsewhere": dict(elsewhere)})

    async def usage(self) -> dict[str, float]:
        """What the sandbox uses, by its own word, as `kernels.guest.server.usage_routes` has it."""
        found = await self._json("GET", "/v1/usage", deadline_seconds=PROBE_SECONDS)
        return {name: guest_answers.of_type(found, name, kind) for name, kind in USAGE.items()}

    async def runs_commands(self) -> bool:
        """Whether commands or tasks run; a guest of an earlier version, which does not say, may have some."""
        return bool((await self._json("GET", "/v1/status", deadline_seconds=PROBE_SECONDS)).get("commands", 1))

    async def interrupt_kernel(self, why: Why = "request", run: str = "") -> None:
        """Send SIGINT to the kernel and its children; one that is for a `run` does nothing once that has ended.

        The guest keeps why, with what the kernel says: a process that takes up the sandbox later reads of it.
        """
        await self._json("POST", "/v1/kernel/interrupt", {"why": why, "run": run})

    async def guard_memory(self, held_bytes: int, limit_bytes: int, *, seconds: float) -> None:
        """Have what the kernel runs end with `MemoryGuard`; a guest of before that interrupts it.

        One that gets this later than so many seconds from now does nothing: other code may run by then.
        """
        until = round((time.time() + seconds) * 1000)
        body = {"held_bytes": held_bytes, "limit_bytes": limit_bytes, "until_ms": until}
        try:
            await self._json("POST", "/v1/kernel/guard", body, deadline_seconds=seconds)
        except GuestRefused as error:
            if error.status != 404:
                raise
            await self.interrupt_kernel()

    async def kill_kernel(self) -> None:
        """Send SIGKILL to the kernel's process group."""
        await self._json("POST", "/v1/kernel/kill", {})

    async def watch(
        self,
        on_started: Callable[[KernelStarted], None],
        on_exit: Callable[[KernelExit], None],
        on_gone: Callable[[], None],
        *,
        on_second_exit: Callable[[str, KernelExit], None] = lambda _runtime, _exit: None,
    ) -> None:
        """Follow the kernel's life until the sandbox is gone: tell the current kernel, then each end and start.

        A guest that cannot be reached, is silent or makes no sense is gone. One that only seemed so, since this process
        was held up or could not keep pace, is followed again.
        """
        while True:
            if not await self._follow(on_started, on_exit, on_second_exit):
                return on_gone()
            await asyncio.sleep(FOLLOW_AGAIN_SECONDS)

    async def _follow(
        self,
        on_started: Callable[[KernelStarted], None],
        on_exit: Callable[[KernelExit], None],
        on_second_exit: Callable[[str, KernelExit], None],
    ) -> bool:
        """Follow one stream of events to its end; True when the guest is well all the same."""
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    if event.get("event") == "kernel_started":
                        on_started(guest_answers.parse_start(event))
                    elif event.get("event") == "kernel_exited":
                        on_exit(guest_answers.parse_exit(event))
                    elif event.get("event") == "deno_exited":
                        on_second_exit("deno", guest_answers.parse_exit(event))
                    elif event.get("event") == "declared_exited":
                        on_second_exit(str(event.get("kernel")), guest_answers.parse_exit(event))
        except (_BrokenOff, DeadlineExceeded):
            pass
        except (SandboxFailed, GuestRefused):
            return False
        return await self._is_well()

    async def _is_well(self) -> bool:
        try:
            await self._json("GET", "/v1/status", deadline_seconds=PROBE_SECONDS)
        except (SandboxFailed, GuestRefused, DeadlineExceeded):
            return False
        return True

    async def run_command(
        self,
        command: str,
        *,
        timeout_seconds: float,
        output_bytes: int,
        background: bool = False,
        merge_output: bool = False,
    ) -> CommandResult:
        """Run a shell command and wait for its end, or start it as a task and return at once.

        At the deadline all of it is ended (TERM, then KILL) and the result says `timed_out`; that is no error. Each
        stream keeps `output_bytes`; with `merge_output` there is one, stdout. A cancelled call stops the command.
        """
        body = {
            "command": command,
            "timeout_seconds": timeout_seconds,
            "output_bytes": output_bytes,
            "background": background,
            "merge_output": merge_output,
        }
        deadline_seconds = CALL_SECONDS + (0 if background else timeout_seconds)
        return guest_answers.parse_result(
            await self._json("POST", "/v1/commands", body, deadline_seconds=deadline_seconds)
        )

    async def keep_command(
        self, command_id: str, command: str, *, timeout_seconds: float, output_bytes: int, merge_output: bool
    ) -> CommandResult:
        """Run a shell command under this id, once, and wait for its end; asked again, by another process too, the same.

        A cancelled call stops nothing. Refused with status 404 by a guest of an older release, and with 410 where the
        command ended so long ago that nothing is known of it any more.
        """
        body = {"command": command, "timeout_seconds": timeout_seconds}
        body |= {"output_bytes": output_bytes, "merge_output": merge_output}
        address = f"/v1/commands/{_quote(command_id)}"
        return guest_answers.parse_result(
            await self._json("PUT", address, body, deadline_seconds=CALL_SECONDS + timeout_seconds)
        )

    async def stop_command(self, command_id: str) -> CommandResult:
        """End such a command and say how it was; refused with 410 when it was not begun, and it never is then."""
        return guest_answers.parse_result(await self._json("DELETE", f"/v1/commands/{_quote(command_id)}"))

    async def task(self, task_id: str) -> CommandResult:
        """How a background command is now."""
        return guest_answers.parse_result(await self._json("GET", f"/v1/tasks/{_quote(task_id)}"))

    async def stop_task(self, task_id: str) -> CommandResult:
        """End a background command and say how it was; one that has ended stays as it was."""
        return guest_answers.parse_result(await self._json("DELETE", f"/v1/tasks/{_quote(task_id)}"))

    async def start_program(self, request: ProgramRequest) -> AsyncGenerator[ProgramEvent]:
        """Start a program and follow it: await this, which raises what keeps it from starting; the caller closes it.

        Closing it ends nothing. It ends with the program.
        """
        body = {
            "command": list(request.command),
            "variables": dict(request.variables),
            "directory": request.directory,
            "tag": request.tag,
            "size": list(request.size or ()),
            "input": request.takes_input,
            "timeout_seconds": request.timeout_seconds,
            "execution": request.execution,
            "output_bytes": request.output_bytes,
        }
        return await self._follow_program("POST", "/v1/programs", json.dumps(body).encode())

    async def await_end(self, execution: str, *, timeout_seconds: float) -> CommandResult:
        """Wait for the end of the program that was started for this execution, or of the background command of this id.

        Refused with 410 when none is known: a guest of an older release knows no background commands here, and one of
        a still older release refuses all with 404.
        """
        address = f"/v1/executions/{_quote(execution)}"
        return guest_answers.parse_result(
            await self._json("GET", address, deadline_seconds=CALL_SECONDS + timeout_seconds)
        )

    async def read_output(self, execution: str, after: Mapping[str, int]) -> list[ProgramOutput]:
        """What a command or a program that was begun for this execution has put out by now, of each stream by its name
        what came after so many bytes, as far as it is kept: `at` is where that begins in the stream.

        Refused with 404 by a guest of an older release, and with 410 when none is known.
        """
        query = "&".join(f"{name}={position}" for name, position in after.items())
        return programs.parse_output(await self._json("GET", f"/v1/executions/{_quote(execution)}/output?{query}"))

    async def follow_program(self, pid: int, *, again: bool = False) -> AsyncGenerator[ProgramEvent]:
        """Follow one in the place of who did before, from now on or `again` from what was told last."""
        return await self._follow_program("GET", f"/v1/programs/{pid}{'?again=true' if again else ''}", None)

    async def list_programs(self) -> list[RunningProgram]:
        """Those that run, or ended a moment ago."""
        return programs.parse_running(await self._json("GET", "/v1/programs"))

    async def tell_program(self, pid: int, action: str, **content: Any) -> None:
        """`input` (data, in base64), `close-input`, `signal` or `size` for a program."""
        await self._json("POST", f"/v1/programs/{pid}/{action}", content)

    async def watch_files(self, path: str, *, recursive: bool) -> AsyncGenerator[FileChange]:
        """What changes below a directory anywhere in the sandbox, until it is closed: await this, then close it."""
        body = json.dumps({"path": path, "recursive": recursive}).encode()
        return await self._open_stream(guest_answers.parse_change, "POST", "/v1/files/watch", body)

    async def _follow_program(self, method: str, path: str, content: bytes | None) -> AsyncGenerator[ProgramEvent]:
        return await self._open_stream(programs.parse_event, method, path, content)

    async def _open_stream(
        self, parse: Callable[[dict[str, Any]], Parsed | None], method: str, path: str, content: bytes | None
    ) -> AsyncGenerator[Parsed]:
        """What becomes of the lines of an answer, once it has begun; lines that become None say nothing."""
        parsed = self._parse_lines(parse, method, path, content)
        try:
            await anext(parsed)
        except BaseException:
            await parsed.aclose()
            raise
        return parsed

    async def _parse_lines(
        self, parse: Callable[[dict[str, Any]], Any], method: str, path: str, content: bytes | None
    ) -> AsyncGenerator[Any]:
        """None once the guest has answered, then what its lines become."""
        async with self._answer(method, path, deadline_seconds=CALL_SECONDS, content=content) as response:
            yield None
            async with aclosing(self._lines(response)) as lines:
                async for line in lines:
                    if (found := parse(line)) is not None:
                        yield found

    async def list_files(
        self,
        path: str,
        *,
        recursive: bool,
        limit: int,
        depth: int = 64,
        everywhere: bool = False,
        private: bool = True,
    ) -> list[FileStat]:
        """The first `limit` entries below a directory: a directory before what is in it, siblings by name.

        Recursively, `depth` levels. `everywhere`, here and below: paths are relative to the sandbox's root. Without
        `private` no directory is entered that programs keep for themselves: hidden ones, `node_modules`, `__pycache__`.
        """
        query = (
            f"path={_quote(path)}&recursive={str(recursive).lower()}&limit={limit}&depth={depth}{_where(everywhere)}"
            f"{'' if private else '&private=false'}"
        )
        found = await self._json("GET", f"/v1/files?{query}", deadline_seconds=WALK_SECONDS)
        return [guest_answers.parse_listed(entry) for entry in guest_answers.of_type(found, "files", list)]

    async def list_tree(self, path: str, *, limit: int) -> list[FileStat]:
        """All below a directory of the sandbox, in the order of `list_files`, page by page; at most `limit` entries.

        Directories that could not be looked through are `unread`.
        """
        found: dict[str, FileStat] = {}
        query = f"path={_quote(path)}&recursive=true&everywhere=true"
        more, after = True, ""
        while more and len(found) < limit:
            page = await self._json(
                "GET",
                f"/v1/files?{query}&limit={limit - len(found)}&after={_quote(after)}",
                deadline_seconds=WALK_SECONDS,
            )
            before = len(found)
            for entry in map(guest_answers.parse_listed, guest_answers.of_type(page, "files", list)):
                if entry.path in found and not entry.unread:  # it is said again of a directory that a page ended in
                    raise SandboxFailed("the guest lists a name twice")
                if entry.path not in found:
                    after = entry.path
                found[entry.path] = entry
            more = page.get("more") is True  # a guest of before pages says all at once
            if more and len(found) == before:
                raise SandboxFailed("the guest's pages do not end")
        return list(found.values())

    async def stat_file(self, path: str, *, everywhere: bool = False) -> FileStat:
        """What is at this path; links are described and not followed."""
        query = f"path={_quote(path)}{_where(everywhere)}"
        return guest_answers.parse_file(await self._json("GET", f"/v1/files/stat?{query}"))

    async def make_directory(self, path: str) -> FileStat:
        """Make a directory anywhere in the sandbox, with those above it; refused as `exists` when it is there."""
        return guest_answers.parse_file(await self._json("POST", "/v1/files/directory", {"path": path}))

    async def move_file(self, path: str, to: str) -> FileStat:
        """Give what is at a path, anywhere in the sandbox, another one."""
        return guest_answers.parse_file(await self._json("POST", "/v1/files/move", {"path": path, "to": to}))

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> AsyncIterator[bytes]:
        """The bytes of a regular file as they come; refused as `too_large` when there are more than `max_bytes`.

        Refused as `file_changed` when they are not of one version, perhaps after the first of them.
        """
        _, chunks = await self.open_file(path, max_bytes=max_bytes)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def open_part(self, file: FileStat, start: int, end: int) -> AsyncGenerator[bytes]:
        """Bytes `start` up to `end` of the very version of a file that `stat_file` told of; the caller closes them.

        Refused as `file_changed` when there is another one by now, or later, as with `read_file`.
        """
        content = self._read_content(file.path, f"&start={start}&end={end}&version={file.version}")
        try:
            await anext(content)
        except BaseException:
            await content.aclose()
            raise
        return _check_size(content, file.path, end - start)

    async def open_file(
        self, path: str, *, max_bytes: int | None = None, everywhere: bool = False
    ) -> tuple[FileStat, AsyncGenerator[bytes]]:
        """A regular file and its bytes, which are of that version, as of `read_file`; the caller closes them."""
        bounds = "" if max_bytes is None else f"&max_bytes={max_bytes}"
        content = self._read_content(path, bounds + _where(everywhere))
        try:
            head = await anext(content)  # a guest of an earlier version, taken up with its sandbox, says nothing
            found = guest_answers.parse_file(guest_answers.parse(head)) if head else await self.stat_file(path)
            if max_bytes is not None and found.size > max_bytes:
                raise SandboxFailed(f"the guest sends more of {path!r} than was asked for")
        except BaseException:
            await content.aclose()
            raise
        return found, _check_size(content, path, found.size)

    async def _read_content(self, path: str, bounds: str) -> AsyncGenerator[bytes]:
        """What the guest says of the file, then its bytes."""
        address = f"/v1/files/content?path={_quote(path)}{bounds}"
        async with self._answer("GET", address, deadline_seconds=CALL_SECONDS) as response:
            yield response.headers.get(b"sandcell-entry", b"")
            chunks = response.pieces()
            while (chunk := await self._next(chunks, SILENCE_SECONDS, f"the content of {path!r}")) is not None:
                yield chunk

    async def read_files(self, paths: Sequence[str]) -> list[bytes | GuestRefused]:
        """Small files at once, relative to the sandbox's root: what is in each, or why it was refused."""
        await self._wait_awake()
        address, body = "/v1/files/contents", json.dumps({"paths": list(paths)}).encode()
        async with (
            _deadline(WALK_SECONDS, "small files"),
            self._answer("POST", address, deadline_seconds=WALK_SECONDS, content=body) as response,
        ):
            return guest_answers.parse_contents(await self._read(response), len(paths))

    async def write_file(
        self,
        path: str,
        chunks: AsyncIterator[bytes],
        *,
        deadline_seconds: float = TRANSFER_SECONDS,
        everywhere: bool = False,
    ) -> FileStat:
        """Write a file, parents included; only when complete does it take the place of what was there."""
        address = f"/v1/files/content?path={_quote(path)}{_where(everywhere)}"
        return guest_answers.parse_file(
            await self._json("PUT", address, content=chunks, deadline_seconds=deadline_seconds)
        )

    async def write_files(
        self, files: Sequence[tuple[str, file_stream.Content]], *, deadline_seconds: float = TRANSFER_SECONDS
    ) -> list[tuple[int, GuestRefused]]:
        """Write many files with one call, each as `write_file` does; those refused, by their place in `files`."""
        content = file_stream.stream(files)
        answer = await self._json("PUT", "/v1/files/batch", content=content, deadline_seconds=deadline_seconds)
        return guest_answers.parse_refusals(answer, "written", len(files))

    async def write_packed(self, chunks: AsyncIterator[bytes]) -> int:
        """Write a stream of files anywhere in the sandbox, each as `write_file` does; how many were refused."""
        address = "/v1/files/batch?everywhere=true"
        answer = await self._json("PUT", address, content=chunks, deadline_seconds=TRANSFER_SECONDS)
        return len(guest_answers.of_type(answer, "refused", list))

    async def remove_file(self, path: str, *, recursive: bool = False, everywhere: bool = False) -> None:
        """Remove a file, an empty directory, or all below one; of the workspace itself (""), its content."""
        address = f"/v1/files?path={_quote(path)}&recursive={str(recursive).lower()}{_where(everywhere)}"
        await self._json("DELETE", address, deadline_seconds=WALK_SECONDS)

    async def remove_files(self, paths: Sequence[str]) -> list[tuple[int, GuestRefused]]:
        """Remove files and empty directories in this order; those refused, by their place in `paths`."""
        refused: list[tuple[int, GuestRefused]] = []
        for first in range(0, len(paths), PATHS_AT_ONCE):
            group = list(paths[first : first + PATHS_AT_ONCE])
            answer = await self._json("POST", "/v1/files/remove", {"paths": group}, deadline_seconds=WALK_SECONDS)
            refused += [
                (first + number, why) for number, why in guest_answers.parse_refusals(answer, "removed", len(group))
            ]
        return refused

    async def stand_by(self) -> None:
        """Have the guest close all sockets that lie on the host, a moment from now, for its sandbox to be saved."""
        await self._json("POST", "/v1/standby", {})

    async def aclose(self) -> None:
        """Let go of the guest; the sandbox lives on. Later calls raise `SandboxGone`."""
        await self._transport.aclose()

    async def _events(self) -> AsyncGenerator[dict[str, Any], None]:
        async with (
            self._open("GET", "/v1/events", deadline_seconds=SILENCE_SECONDS, lasting=True) as response,
            aclosing(self._lines(response)) as lines,
        ):
            async for line in lines:
                self.heard = asyncio.get_running_loop().time()
                yield line

    async def _lines(self, response: Answer) -> AsyncGenerator[dict[str, Any]]:
        """JSON objects, one a line; the guest sends a heartbeat where nothing else is to be said."""
        pending = b""
        chunks = response.pieces()
        while True:
            chunk = await self._next(chunks, SILENCE_SECONDS, "the guest's heartbeat")
            if chunk is None:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            if len(pending) > MAX_EVENT_BYTES:
                raise SandboxFailed("the guest sent an event that does not end")
            for line in lines:
                yield guest_answers.parse(line)

    async def _json(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        content: AsyncIterator[bytes] | None = None,
        deadline_seconds: float = CALL_SECONDS,
    ) -> dict[str, Any]:
        """Make a call and read its JSON object, all within the deadline, which begins once the sandbox runs."""
        sent = content if body is None else json.dumps(body).encode()
        await self._wait_awake()
        async with (
            _deadline(deadline_seconds, f"the guest's answer to {method} {path}"),
            self._answer(method, path, deadline_seconds=deadline_seconds, content=sent) as response,
        ):
            return guest_answers.parse(await self._read(response))

    async def _wait_awake(self) -> None:
        """Return when the sandbox runs, which the runtime's own deadlines bound: its memory may be large."""
        while self.awake is not None:  # again when it was stopped once more before this call went on
            await self.awake()

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, *, deadline_seconds: float, content: Content = None
    ) -> AsyncIterator[Answer]:
        """Open a call to a guest that runs, and count it as under way until its body has been read."""
        await self._wait_awake()
        self._calls += 1
        try:
            async with self._open(method, path, deadline_seconds=deadline_seconds, content=content) as response:
                yield response
        finally:
            self._calls -= 1

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, *, deadline_seconds: float, content: Content = None, lasting: bool = False
    ) -> AsyncIterator[Answer]:
        """Open a call; what comes out has a good status, and its body is still to be read."""
        if self._transport.closed:
            raise SandboxGone("the guest was let go")
        async with self._translate_errors(), _deadline(deadline_seconds, f"the guest's answer to {method} {path}"):
            response = await self._transport.call(method, path, content, lasting=lasting)
        try:
            if response.status >= 300:
                raise guest_answers.parse_refusal(response.status, await self._read(response))
            yield response
        finally:
            await response.aclose()

    async def _read(self, response: Answer) -> bytes:
        """The body as it came, bounded; nothing is decompressed."""
        body = bytearray()
        async with self._translate_errors():
            async for chunk in response.pieces():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise SandboxFailed("the guest's answer is larger than any answer of a guest can be")
        return bytes(body)

    async def _next(self, chunks: AsyncIterator[bytes], seconds: float, what: str) -> bytes | None:
        """The next piece of an answer's body, None at its end."""
        async with _deadline(seconds, what), self._translate_errors():
            return await anext(chunks, None)

    @asynccontextmanager
    async def _translate_errors(self) -> AsyncIterator[None]:
        """Turn the transport's errors into this package's: a dead guest no longer listens."""
        try:
            yield
        except CutOff as error:
            if await self._survives():
                raise _BrokenOff(f"the guest broke off: {error}") from error
            raise SandboxGone(f"the guest is gone: {error}") from error

    async def _survives(self) -> bool:
        """Whether the guest still listens a moment later: a dying process closes its sockets one after the other."""
        with suppress(NotReached):  # it may well
            for _ in range(DYING_ROUNDS):
                if not await self._listens():
                    return False
                await asyncio.sleep(POLL_SECONDS)
        return True

    async def _listens(self) -> bool:
        try:
            (await self._dial(GUEST)).close()
        except (NotListening, SandboxGone):
            return False
        except NotReached:
            raise
        except SandboxFailed:  # more wait than it takes
            return True
        return True


async def _check_size(content: AsyncGenerator[bytes], path: str, size: int) -> AsyncGenerator[bytes]:
    """The same bytes, which are `size`; the guest keeps the last of a file that has changed."""
    received = 0
    async with aclosing(content):
        async for chunk in content:
            received += len(chunk)
            if received > size:
                raise SandboxFailed(f"the guest sends more of {path!r} than it said there is")
            yield chunk
    if received < size:
        raise GuestRefused(409, "file_changed", f"{path!r} changed while it was read")


@asynccontextmanager
async def _deadline(seconds: float, what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise DeadlineExceeded(f"waited {seconds:g} s for {what}") from None


def _where(everywhere: bool) -> str:  # noqa: FBT001 - a parameter of an address
    return "&everywhere=true" if everywhere else ""


def _quote(text: str) -> str:
    """As part of an address; bytes of file names that are not UTF-8 travel as they are."""
    try:
        return quote(text.encode(errors="surrogateescape"), safe="")
    except UnicodeEncodeError:
        raise GuestRefused(400, "invalid_path", "a path must be text that bytes can be made of") from None
