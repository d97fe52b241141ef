"""`AsyncSession`: a live session to work in, for asyncio. `live_session` has the same for code that blocks."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from sandcell.events import Output, output_of
from sandcell.methods import describe
from sandcell.models import sessions
from sandcell.models.commands import Command
from sandcell.models.executions import Event, Execution, Language, LanguageRuntime, OnBusy
from sandcell.models.sync import SyncMode
from sandcell.models.workspaces import FileEntry
from sandcell.operations import attach as at
from sandcell.operations import checkpoints as ch
from sandcell.operations import files as f
from sandcell.operations import inspection as i
from sandcell.operations import leases as le
from sandcell.operations import programs as pr
from sandcell.operations import sessions as o
from sandcell.result import Result
from sandcell.steps import Operation, Progress

if TYPE_CHECKING:
    from sandcell.nonblocking import AsyncClient

P = ParamSpec("P")
T = TypeVar("T")


def _bound(
    operation: Callable[Concatenate[str, P], Operation[T]],
) -> Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, T]]:
    """An operation on a session as a method of `AsyncSession`."""

    async def call(self: AsyncSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.client.carry_out(operation(self.id, *args, **kwargs))

    describe(call, operation, "AsyncSession", bound=1)
    return call


async def _show(event: Event, on_output: Callable[[Output], Awaitable[None] | None]) -> None:
    """Call a function with what an event shows, and wait for it where it is a coroutine function."""
    output = output_of(event)
    called = None if output is None else on_output(output)
    if inspect.isawaitable(called):
        await called


class AsyncSession:
    """A live session: an IPython kernel in a sandbox, whose variables and files stay from call to call.

    `info` is how it was when last looked at; `refresh` looks again. Made by `session` and `attach` of the client.
    """

    def __init__(self, client: AsyncClient, info: sessions.Session) -> None:
        self.client = client
        self.info = info

    def __repr__(self) -> str:
        return f"<AsyncSession {self.id} of {self.client.url}>"

    @property
    def id(self) -> str:
        """The session's id."""
        return self.info.id

    async def refresh(self) -> sessions.Session:
        """Look again."""
        self.info = await self.client.get_session(self.id)
        return self.info

    async def stop(self) -> sessions.Session:
        """End the session; returns when its files are in the store."""
        self.info = await self.client.stop_session(self.id)
        return self.info

    async def run(
        self,
        code: str,
        *,
        on_output: Callable[[Output], Awaitable[None] | None] | None = None,
        timeout: float | None = None,
        language: Language = "python",
        runtime: LanguageRuntime | None = None,
        on_busy: OnBusy = "queue",
        expect_generation: int | None = None,
        clear_context: bool = False,
        idempotency_key: str | None = None,
        patience_seconds: float | None = None,
        lease: str | None = None,
        sync: SyncMode | None = None,
        timeout_seconds: float | None = None,
    ) -> Result:
        """Run code and return its outcome; an exception in the code is an outcome too. It runs once, whatever happens.

        `on_output`, also a coroutine function, is called with each `Output` as it comes. After `timeout` seconds
        (formerly `timeout_seconds`) the code is interrupted. `runtime` of JavaScript and TypeScript is deno or nodejs.
        On a kernel other than `expect_generation` nothing runs; with `clear_context` a blank one is started for it. A
        lost connection is opened again, and `idempotency_key` finds the execution. `patience_seconds` bounds the wait
        of a run without `on_output`: after it `StillRunning` has the execution's id. `lease` is one that you hold. With
        `sync` before_return the result comes when the files are in the store.
        """
        timeout = timeout_seconds if timeout is None else timeout
        options = o.make_run_options(
            timeout, on_busy, expect_generation, clear_context, language, runtime, idempotency_key, lease, sync
        )
        if on_output is None:
            return await self.client.run(self.id, code, patience_seconds=patience_seconds, **options)
        execution = await self.client.submit(self.id, code, **options)
        async with contextlib.aclosing(self.events(execution.id)) as events:
            async for event in events:
                await _show(event, on_output)
        return await self.wait(execution.id)

    async def submit(
        self,
        code: str,
        *,
        timeout: float | None = None,
        language: Language = "python",
        runtime: LanguageRuntime | None = None,
        on_busy: OnBusy = "queue",
        expect_generation: int | None = None,
        clear_context: bool = False,
        idempotency_key: str | None = None,
        lease: str | None = None,
        sync: SyncMode | None = None,
        timeout_seconds: float | None = None,
    ) -> Execution:
        """Submit code and return at once; `wait` or `events` follow it. The options are those of `run`."""
        timeout = timeout_seconds if timeout is None else timeout
        options = o.make_run_options(
            timeout, on_busy, expect_generation, clear_context, language, runtime, idempotency_key, lease, sync
        )
        return await self.client.submit(self.id, code, **options)

    def events(self, execution_id: str, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """Follow an execution until it has ended, from the event after `after`; a lost connection is taken up again."""
        return self.client.events(self.id, execution_id, after=after)

    def program_events(self, program_id: str, *, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Follow a program that `start_program` has started, until it has ended; as the client's `program_events`."""
        return self.client.program_events(self.id, program_id, after=after)

    async def shell(
        self,
        command: str,
        *,
        timeout: float | None = None,
        background: bool = False,
        merge_output: bool = False,
        sync: SyncMode | None = None,
    ) -> Command:
        """Run a shell command in the session's sandbox to its end, or start it as a background task.

        `timeout`, in seconds, is when it is killed. With `merge_output` what it writes to stderr is in `stdout`, where
        it was written. With `background` the answer comes at once; `get_task` and `stop_task` take its id.
        """
        return await self.client.command(
            self.id, command, timeout_seconds=timeout, background=background, merge_output=merge_output, sync=sync
        )

    async def interrupt(self) -> None:
        """Interrupt what runs; the kernel and its variables stay."""
        await self.client.interrupt(self.id)

    async def restart(self) -> sessions.Session:
        """Start a blank kernel of a new generation; files stay."""
        self.info = await self.client.restart(self.id)
        return self.info

    async def hibernate(self) -> sessions.Session:
        """Give up its memory until its next use; `info.hibernated` says what is kept."""
        self.info = await self.client.hibernate(self.id)
        return self.info

    async def resume(self) -> sessions.Session:
        """Wake it, as its next use does; `info.restored` says which variables came back."""
        self.info = await self.client.resume(self.id)
        return self.info

    async def undo(self, cells: int = 1, *, exact: bool = False) -> sessions.Session:
        """Take back its last cells, files of the workspace too; `info.restored` says which variables came back."""
        self.info = await self.client.undo(self.id, cells, exact=exact)
        return self.info

    async def files(self, path: str = "", *, recursive: bool = False) -> list[FileEntry]:
        """The files below a directory of the workspace, with those of its directories if `recursive`."""
        return await self.client.files(self.id, path, recursive=recursive)

    async def upload(
        self, path: str | Path, content: f.Content | None = None, *, on_progress: Progress | None = None
    ) -> FileEntry:
        """Write a file of the workspace, whole or not at all: `path` there, with `content`, or a local file's.

        With a local file alone, `upload(Path("data/year.csv"))`, it goes under its name. A stream is read to its end.
        Files of any size go over: more than 100 MB in parts, and a call that failed goes on where it was when it is
        made again. `on_progress` is called with the bytes that were sent and with those of all, where that is known.
        """
        target, source = f.resolve_upload(path, content)
        return await self.client.upload(self.id, target, source, on_progress=on_progress)

    @overload
    async def download(self, path: str, to: None = None, *, on_progress: Progress | None = None) -> bytes: ...
    @overload
    async def download(self, path: str, to: Path, *, on_progress: Progress | None = None) -> Path: ...
    async def download(self, path: str, to: Path | None = None, *, on_progress: Progress | None = None) -> bytes | Path:
        """A file of the workspace: its content, or, with `to`, a local file, which appears whole or not at all.

        `on_progress` is called with the bytes that came and with those of all; content in memory has none.
        """
        if to is None:
            return await self.client.download(self.id, path)
        return await self.client.download_to(self.id, path, to, on_progress=on_progress)

    async def download_to(self, path: str, destination: Path) -> Path:
        """As `download(path, destination)`."""
        return await self.download(path, destination)

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file of the workspace, or with `recursive` a directory and all below."""
        await self.client.remove_file(self.id, path, recursive=recursive)

    async def notebook(self, format: Literal["ipynb", "html", "py"] = "ipynb") -> bytes:  # noqa: A002 - the interface's word
        """The session as a notebook: as an `.ipynb`, an HTML page or a plain Python script."""
        return await self.client.notebook(self.id, format)

    wait = _bound(o.wait)
    get_execution = _bound(o.get_execution)
    list_executions = _bound(o.list_executions)
    list_notes = _bound(o.list_notes)
    interrupt_execution = _bound(o.interrupt_execution)
    move_widget = _bound(o.move_widget)
    command = _bound(o.command)
    get_task = _bound(o.get_task)
    stop_task = _bound(o.stop_task)
    start_program = _bound(pr.start_program)
    list_programs = _bound(pr.list_programs)
    get_program = _bound(pr.get_program)
    send_input = _bound(pr.send_input)
    resize_terminal = _bound(pr.resize_terminal)
    signal_program = _bound(pr.signal_program)
    manifest = _bound(o.manifest)
    variables = _bound(i.variables)
    complete = _bound(i.complete)
    inspect = _bound(i.inspect)
    rows = _bound(i.rows)
    output = _bound(i.output)
    create_checkpoint = _bound(ch.create_checkpoint)
    list_checkpoints = _bound(ch.list_checkpoints)
    take_lease = _bound(le.take_lease)
    get_lease = _bound(le.get_lease)
    give_back_lease = _bound(le.give_back_lease)
    create_attach_token = _bound(at.create_attach_token)
    list_attach_tokens = _bound(at.list_attach_tokens)
    revoke_attach_token = _bound(at.revoke_attach_token)
