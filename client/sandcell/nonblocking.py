"""`AsyncClient`, for asyncio; `async_live_session` has the session to work in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from sandcell import transport as t
from sandcell.async_live_session import AsyncSession
from sandcell.downloads import Download
from sandcell.errors import ConnectionFailed, SandcellError, error_of
from sandcell.event_stream import EventParser
from sandcell.files import replacing
from sandcell.methods import describe
from sandcell.models.executions import Event
from sandcell.models.sessions import KeepVariables
from sandcell.models.sync import SyncMode
from sandcell.operations import administration as a
from sandcell.operations import attach as at
from sandcell.operations import checkpoints as ch
from sandcell.operations import datasets as d
from sandcell.operations import environments as e
from sandcell.operations import files as f
from sandcell.operations import inspection as i
from sandcell.operations import leases as le
from sandcell.operations import programs as pr
from sandcell.operations import replays as r
from sandcell.operations import sessions as o
from sandcell.operations import tenants as te
from sandcell.operations import usage as u
from sandcell.operations import workspaces as w
from sandcell.saved import find_address
from sandcell.steps import Answer, Ask, Losses, Operation, Pause, Progress, Step, quote

P = ParamSpec("P")
T = TypeVar("T")


def _method(operation: Callable[P, Operation[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """An operation as a method of `AsyncClient`."""

    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.carry_out(operation(*args, **kwargs))

    describe(call, operation, "AsyncClient")
    return call


class AsyncClient:
    """The service at `url`. Without arguments: `SANDCELL_URL` and `SANDCELL_TOKEN`, else what `serve` saved here.

        async with AsyncClient() as client, client.session() as session:
            await session.run("x = 41")
            print((await session.run("x + 1")).text)

    Raises `SandcellError`.
    """

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        found = find_address(url, token)
        self.url = found.url
        self._http = httpx.AsyncClient(
            headers=t.make_headers(found.token),
            transport=httpx.AsyncHTTPTransport(verify=t.make_verification(found.url), socket_options=t.KEEP_ALIVE),
            trust_env=False,  # no proxy and no .netrc of the environment: the token goes to this address alone
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; sessions live on."""
        await self._http.aclose()

    @contextlib.asynccontextmanager
    async def session(
        self,
        environment: str | None = None,
        *,
        agent: str | None = None,
        name: str = "",
        workspace_id: str | None = None,
        timeout_seconds: int | None = None,
        idle_timeout_seconds: int | None = None,
        labels: dict[str, str] | None = None,
        replay_of: str | None = None,
        sync: SyncMode | None = None,
        keep_awake: bool = False,
        keep_variables: KeepVariables | None = None,
        keep_variables_mb: int | None = None,
        checkpoint_every: int | None = None,
    ) -> AsyncIterator[AsyncSession]:
        """A new session, as `start_session` has it, for an `async with` block, stopped at its end; its files stay."""
        started = await self.start_session(
            environment,
            agent=agent,
            name=name,
            workspace_id=workspace_id,
            timeout_seconds=timeout_seconds,
            idle_timeout_seconds=idle_timeout_seconds,
            labels=labels,
            replay_of=replay_of,
            sync=sync,
            keep_awake=keep_awake,
            keep_variables=keep_variables,
            keep_variables_mb=keep_variables_mb,
            checkpoint_every=checkpoint_every,
        )
        session = AsyncSession(self, started)
        try:
            yield session
        finally:
            await session.stop()

    async def attach(self, session_id: str) -> AsyncSession:
        """A session that runs already."""
        return AsyncSession(self, await self.get_session(session_id))

    def events(self, session_id: str, execution_id: str, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """Follow an execution until it has ended, from the event after `after`; a lost connection is taken up again."""
        return self._follow(f"/v1/sessions/{quote(session_id)}/executions/{quote(execution_id)}/events", after)

    def session_events(self, session_id: str, *, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Follow what happens in a session until it has ended, as `events` does an execution, by default from now on.

        With `after` first what is kept: all for 0, a `truncated` event before it when events are missing.
        """
        return self._follow(f"/v1/sessions/{quote(session_id)}/events", after)

    def program_events(
        self, session_id: str, program_id: str, *, after: int | None = None, patience_seconds: float | None = None
    ) -> AsyncGenerator[Event, None]:
        """Follow a program until it has ended: what is kept of its output, or what came `after` so many bytes.

        An `output` event has `stream` (stdout, stderr, or pty of a terminal) and `data` in base64; its sequence is how
        many bytes have come in all. `gap` says how many are missing, `ended` how it ended. A lost connection is taken
        up again: for `patience_seconds`, by default with four attempts. A program waits for followers that do not read.
        """
        return self._follow(
            f"/v1/sessions/{quote(session_id)}/programs/{quote(program_id)}/events", after, patience_seconds
        )

    def replay_events(self, replay_id: str, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """Follow a replay until it has ended, as `events` does an execution."""
        return self._follow(f"/v1/replays/{quote(replay_id)}/events", after)

    async def _follow(
        self, path: str, after: int | None, patience_seconds: float | None = None
    ) -> AsyncGenerator[Event, None]:
        ask = Ask("GET", path)
        losses = Losses(patience_seconds)
        while True:
            try:
                # Closed here: a caller who follows no longer would leave the connection open until it is collected.
                async with contextlib.aclosing(self._events_once(ask, after)) as connection:
                    async for events in connection:
                        losses.reset()
                        for event in events:
                            after = event.sequence
                            yield event
                            if event.event == "ended":
                                return
                raise ConnectionFailed("the events stopped before the end", code="connection_failed", retryable=True)
            except SandcellError as error:  # also of what stands before the service, while nothing is behind it
                await asyncio.sleep(losses.fail(error))

    async def _events_once(self, ask: Ask, after: int | None) -> AsyncGenerator[list[Event], None]:
        """What comes over one connection, none at a heartbeat."""
        parser = EventParser()
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        async with self._stream(ask, headers=headers, timeout=t.timeout(t.EVENTS_SILENCE_SECONDS)) as response:
            try:
                async for chunk in response.aiter_bytes():
                    yield parser.feed(chunk)
            except t.FAILURES as error:
                raise t.stream_error(self.url, error) from error

    async def download_to(
        self, session_id: str, path: str, destination: Path, *, on_progress: Progress | None = None
    ) -> Path:
        """A live file to a local one, which appears whole or not at all.

        After a broken connection it goes on as `workspace_download_to` does; of a file that was changed less than a
        second before, it begins again.
        """
        address = f"/v1/sessions/{quote(session_id)}/files/{quote(path)}"
        return await self._save(Ask("GET", address, on_progress=on_progress), destination)

    async def workspace_download_to(
        self, workspace_id: str, path: str, destination: Path, *, on_progress: Progress | None = None
    ) -> Path:
        """A durable file to a local one, which appears whole or not at all.

        After a broken connection it goes on where it was, with the same version of the file, or begins again with the
        new one.
        """
        address = f"/v1/workspaces/{quote(workspace_id)}/files/{quote(path)}"
        return await self._save(Ask("GET", address, on_progress=on_progress), destination)

    async def workspace_archive_to(
        self, workspace_id: str, destination: Path, path: str = "", *, on_progress: Progress | None = None
    ) -> Path:
        """Durable files as a zip archive, to a local file, which appears whole or not at all."""
        return await self._save(replace(w.archive_request(workspace_id, path), on_progress=on_progress), destination)

    async def _save(self, ask: Ask, destination: Path) -> Path:
        download = Download(ask)
        with replacing(destination) as stream:
            while True:
                try:
                    await self._receive(ask, download, stream)
                except SandcellError as error:
                    await asyncio.sleep(download.fail(error))
                else:
                    return destination

    async def _receive(self, ask: Ask, download: Download, stream: IO[bytes]) -> None:
        """What comes over one connection."""
        async with self._stream(ask, headers=download.headers, timeout=t.timeout(ask.timeout_seconds)) as response:
            stream.seek(download.begin(response.status_code, response.headers))
            stream.truncate()
            try:
                async for piece in response.aiter_bytes():
                    await asyncio.to_thread(stream.write, piece)
                    download.advance(len(piece))
            except t.FAILURES as error:
                raise t.stream_error(self.url, error) from error
            download.end()

    @contextlib.asynccontextmanager
    async def _stream(self, ask: Ask, **options: Any) -> AsyncIterator[httpx.Response]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(
                    self._http.stream(ask.method, self.url + ask.address, **options)
                )
                if not response.is_success:
                    raise error_of(response.status_code, await response.aread())
            except t.FAILURES as error:
                raise t.stream_error(self.url, error) from error
            yield response

    async def carry_out(self, operation: Operation[T]) -> T:
        """Run an operation to its end."""
        try:
            step = next(operation)
            while True:
                step = operation.send(await self._take(step))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _take(self, step: Step) -> Answer:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return Answer()
        if not isinstance(step, Ask):
            return await asyncio.to_thread(t.read_local, step)
        given = t.make_arguments(step)
        if t.is_in_pieces(step):
            given["content"] = t.read_pieces_async(step)
        try:
            return t.read_answer(await self._http.request(step.method, self.url + step.address, **given))
        except t.FAILURES as error:
            return t.lost_answer(self.url, error)

    start_session = _method(o.start_session)
    fork_session = _method(o.fork_session)
    list_sessions = _method(o.list_sessions)
    get_session = _method(o.get_session)
    stop_session = _method(o.stop_session)
    interrupt = _method(o.interrupt)
    restart = _method(o.restart)
    hibernate = _method(o.hibernate)
    resume = _method(o.resume)
    create_checkpoint = _method(ch.create_checkpoint)
    list_checkpoints = _method(ch.list_checkpoints)
    get_checkpoint = _method(ch.get_checkpoint)
    delete_checkpoint = _method(ch.delete_checkpoint)
    undo = _method(ch.undo)
    run = _method(o.run)
    submit = _method(o.submit)
    wait = _method(o.wait)
    get_execution = _method(o.get_execution)
    list_executions = _method(o.list_executions)
    list_notes = _method(o.list_notes)
    interrupt_execution = _method(o.interrupt_execution)
    move_widget = _method(o.move_widget)
    command = _method(o.command)
    get_task = _method(o.get_task)
    stop_task = _method(o.stop_task)
    start_program = _method(pr.start_program)
    list_programs = _method(pr.list_programs)
    get_program = _method(pr.get_program)
    send_input = _method(pr.send_input)
    resize_terminal = _method(pr.resize_terminal)
    signal_program = _method(pr.signal_program)
    notebook = _method(o.notebook)
    manifest = _method(o.manifest)
    variables = _method(i.variables)
    complete = _method(i.complete)
    inspect = _method(i.inspect)
    rows = _method(i.rows)
    output = _method(i.output)
    files = _method(f.files)
    upload = _method(f.upload)
    download = _method(f.download)
    remove_file = _method(f.remove_file)
    list_workspaces = _method(w.list_workspaces)
    get_workspace = _method(w.get_workspace)
    workspace_files = _method(f.workspace_files)
    workspace_upload = _method(f.workspace_upload)
    workspace_download = _method(f.workspace_download)
    checkpoint_download = _method(f.checkpoint_download)
    workspace_remove = _method(f.workspace_remove)
    workspace_stat = _method(w.workspace_stat)
    workspace_read = _method(w.workspace_read)
    workspace_would_remove = _method(w.workspace_would_remove)
    workspace_copy = _method(w.workspace_copy)
    workspace_link = _method(w.workspace_link)
    delete_workspace = _method(w.delete_workspace)
    register_dataset = _method(d.register_dataset)
    list_datasets = _method(d.list_datasets)
    get_dataset = _method(d.get_dataset)
    copy_dataset = _method(d.copy_dataset)
    remove_dataset = _method(d.remove_dataset)
    usage = _method(u.usage)
    check_host = _method(u.check_host)
    expire_workspaces = _method(u.expire_workspaces)
    list_environments = _method(e.list_environments)
    create_environment = _method(e.create_environment)
    list_images = _method(e.list_images)
    get_image = _method(e.get_image)
    get_image_sbom = _method(e.get_image_sbom)
    get_environment = _method(e.get_environment)
    delete_environment = _method(e.delete_environment)
    tag_environment = _method(e.tag_environment)
    environment_dependents = _method(e.environment_dependents)
    environment_packages = _method(e.environment_packages)
    detach_agents = _method(e.detach_agents)
    attach_agents = _method(e.attach_agents)
    put_agent = _method(e.put_agent)
    list_agents = _method(e.list_agents)
    get_agent = _method(e.get_agent)
    delete_agent = _method(e.delete_agent)
    start_replay = _method(r.start_replay)
    replay = _method(r.replay)
    wait_replay = _method(r.wait_replay)
    get_replay = _method(r.get_replay)
    replay_notebook = _method(r.replay_notebook)
    stop_replay = _method(r.stop_replay)
    list_audit = _method(a.list_audit)
    verify_audit = _method(a.verify_audit)
    get_audit_verification = _method(a.get_audit_verification)
    take_lease = _method(le.take_lease)
    get_lease = _method(le.get_lease)
    give_back_lease = _method(le.give_back_lease)
    create_attach_token = _method(at.create_attach_token)
    list_attach_tokens = _method(at.list_attach_tokens)
    revoke_attach_token = _method(at.revoke_attach_token)
    create_console_link = _method(a.create_console_link)
    create_token = _method(a.create_token)
    list_tokens = _method(a.list_tokens)
    rotate_token = _method(a.rotate_token)
    revoke_token = _method(a.revoke_token)
    create_key = _method(a.create_key)
    list_keys = _method(a.list_keys)
    revoke_key = _method(a.revoke_key)
    list_principals = _method(te.list_principals)
    disable_principal = _method(te.disable_principal)
    enable_principal = _method(te.enable_principal)
    set_quota = _method(te.set_quota)
    list_all_sessions = _method(te.list_all_sessions)
    get_any_session = _method(te.get_any_session)
    stop_any_session = _method(te.stop_any_session)
    list_any_executions = _method(te.list_any_executions)
    get_any_notebook = _method(te.get_any_notebook)
