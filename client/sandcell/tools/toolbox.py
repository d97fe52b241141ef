"""The tools carried out: one conversation's calls, in its sessions, answered with what its model is shown."""

from __future__ import annotations

import base64
import binascii
import itertools
import shlex
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from sandcell.errors import InvalidRequest, NotFound, SandcellError
from sandcell.models.commands import CommandRequest
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.executions import Event, Execution, MemoryShortage, Submission
from sandcell.models.sessions import Session, StartSession
from sandcell.tools import addresses, definitions, rendering
from sandcell.tools.backends.protocol import Backend
from sandcell.tools.contents import Image, Link, Text, ToolResult, make_text
from sandcell.tools.manifest import describe_network, installs, make_manifest
from sandcell.tools.named_sessions import ENDED, NamedSessions

T = TypeVar("T")
OUTPUT_BYTES: Final = 30_000
"""How much text a result shows unless more is asked for: some 8,000 tokens."""
KEPT_OUTPUT_BYTES: Final = 2_000_000
"""What is kept of the commands' outputs that were cut, of one conversation."""
DEFAULT_ENVIRONMENT: Final = "python"
PICTURES: Final = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
OnProgress = Callable[[str], None]
"""Called with what code prints, as it comes, and with a line of its own when memory runs short."""


class Toolbox:
    """The tools over a service, for one conversation: its sessions are stopped by `aclose`.

    `environment` is what sessions are started from, `session_id` a session that is there already and is used instead.
    `output_bytes` bounds the text of a result.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        environment: str | None = None,
        session_id: str | None = None,
        name: str = "",
        labels: dict[str, str] | None = None,
        idle_timeout_seconds: int | None = None,
        output_bytes: int = OUTPUT_BYTES,
    ) -> None:
        self.backend = backend
        self.output_bytes = output_bytes
        self.environment = environment
        start = StartSession(
            environment=environment, name=name, labels=labels or {}, idle_timeout_seconds=idle_timeout_seconds
        )
        self.sessions = NamedSessions(backend, start, session_id)
        self._joined = session_id
        self._generations: dict[str, int] = {}
        self._outputs: OrderedDict[str, str] = OrderedDict()
        self._numbers = itertools.count(1)

    async def get_environment(self) -> EnvironmentInfo:
        """The environment that the default session is made from, which is not started for this."""
        name = self.environment
        if self._joined is not None:
            name = (await self.sessions.find(definitions.DEFAULT_SESSION)).environment
        return await self.backend.get_environment(name or DEFAULT_ENVIRONMENT)

    async def make_manifest(self) -> list[dict[str, Any]]:
        """Every tool with its description, schema, annotations and constraints, as they are in the environment."""
        return make_manifest(await self.get_environment(), self.backend.most_seconds, self.output_bytes)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        idempotency_key: str | None = None,
    ) -> ToolResult:
        """Carry out a call. What goes wrong is a result that says so; only an unknown tool raises NotFound.

        When it is cancelled, the code or the command that it runs is stopped. A call of `run_python` that repeats an
        `idempotency_key` runs nothing again: it gets what came of the first one, in the same session.
        """
        tool = definitions.BY_NAME.get(name)
        if tool is None:
            raise NotFound(f"there is no tool {name!r}", code="unknown_tool")
        if idempotency_key is not None and tool.arguments is not definitions.RunPython:
            return make_text(f"{name} takes no idempotency key: only run_python does", is_error=True)
        try:
            parsed = definitions.parse_arguments(tool, arguments)
            if isinstance(parsed, definitions.RunPython):
                return await self._run_python(parsed, on_progress, idempotency_key)
            carry_out: Callable[[Any], Awaitable[ToolResult]] = getattr(self, f"_{name}")
            return await carry_out(parsed)
        except SandcellError as error:
            return make_text(f"{name} failed: {error.message}", is_error=True)

    async def execute(self, code: str, session: str = definitions.DEFAULT_SESSION) -> Execution:
        """Run code and return all that came of it, for programs that read it themselves; raises `SandcellError`."""
        submission = Submission(code, wait=False)
        done, _ = await self._in_session(session, lambda found: self.backend.execute(found, submission, None, None))
        return done

    async def aclose(self) -> None:
        """Stop the sessions that were started here."""
        await self.sessions.close()
        self._outputs.clear()

    async def _in_session(self, name: str, work: Callable[[str], Awaitable[T]]) -> tuple[T, str]:
        """Do something in a session; when it has ended, in one that goes on with its files, which the note says.

        What is refused because the session has ended has not begun, so doing it again is safe.
        """
        session = await self.sessions.find(name)
        try:
            return await work(session.id), ""
        except SandcellError as error:
            if error.code != ENDED:
                raise
            why = error.details.get("detail") or error.message
        session = await self.sessions.replace(name, session)
        note = f"[the earlier session has ended ({why}); a new one has its files, and none of its variables]"
        return await work(session.id), note

    def _limit(self, asked: int | UnsetType) -> int:
        return self.output_bytes if asked is UNSET else asked

    async def _run_python(
        self, arguments: definitions.RunPython, on_progress: OnProgress | None, key: str | None
    ) -> ToolResult:
        submission = Submission(arguments.code, timeout_seconds=_seconds(arguments.timeout_seconds), wait=False)
        on_event = None if on_progress is None else _pass_on(on_progress)
        execution, note = await self._in_session(
            arguments.session, lambda session_id: self.backend.execute(session_id, submission, on_event, key)
        )
        before = self._generations.get(execution.session_id, execution.generation)
        self._generations[execution.session_id] = execution.generation
        if before != execution.generation:
            note = (
                note or "[Python was restarted since the last call: earlier variables are gone, unless they were kept]"
            )
        rest = addresses.make_execution(execution.session_id, execution.id)
        shown = rendering.render_execution(execution, self._limit(arguments.max_output_bytes), rest)
        return replace(_add_note(shown, note), address=rest)

    async def _run_shell(self, arguments: definitions.RunShell) -> ToolResult:
        seconds = _seconds(arguments.timeout_seconds)
        return await self._run_command(
            arguments.session, arguments.command, seconds, self._limit(arguments.max_output_bytes)
        )

    async def _run_command(self, name: str, command: str, seconds: float | None, most_bytes: int) -> ToolResult:
        request = CommandRequest(command, timeout_seconds=seconds, stop_when_gone=True)
        done, note = await self._in_session(name, lambda session_id: self.backend.run_command(session_id, request))
        text = "\n".join(rendering.list_texts(done))
        rest = self._keep(text) if len(text.encode("utf-8", "replace")) > most_bytes else ""
        return _add_note(rendering.render_command(done, most_bytes, rest), note)

    def _keep(self, text: str) -> str:
        """Keep a text that is cut, while there is room; returns its address."""
        address = addresses.make_output(next(self._numbers))
        self._outputs[address] = text
        while sum(map(len, self._outputs.values())) > KEPT_OUTPUT_BYTES and len(self._outputs) > 1:
            self._outputs.popitem(last=False)
        return address

    async def _install_packages(self, arguments: definitions.InstallPackages) -> ToolResult:
        session = await self.sessions.find(arguments.session)
        if not installs(session.network):
            reach = describe_network(session.network)
            return make_text(
                f"Nothing can be installed in this environment. {reach} Use what its image has.", is_error=True
            )
        names = shlex.join(arguments.packages)
        command = f"python3 -m pip install --no-input --disable-pip-version-check --quiet -- {names}"
        done = await self._run_command(
            arguments.session, command, _seconds(arguments.timeout_seconds), self.output_bytes
        )
        if done.is_error:
            return done
        again = "A module that was imported before stays as it is until restart."
        return make_text(f"Installed {', '.join(arguments.packages)}. {again}")

    async def _write_file(self, arguments: definitions.WriteFile) -> ToolResult:
        content = _decode(arguments)
        path = addresses.find_workspace_path(arguments.path)
        entry, note = await self._in_session(
            arguments.session, lambda session_id: self.backend.write_file(session_id, path, content)
        )
        return _add_note(make_text(f"Wrote {entry.size:,} bytes to {entry.path}"), note)

    async def _read_file(self, arguments: definitions.ReadFile) -> ToolResult:
        most = self._limit(arguments.max_output_bytes)
        if addresses.is_address(arguments.path):
            data = (await self.read_resource(arguments.path))[0]
            return _show_text(arguments.path, data[arguments.offset :][: most + 1], arguments.offset, most)
        path = addresses.find_workspace_path(arguments.path)
        wanted = rendering.MOST_IMAGE_BYTES if arguments.offset == 0 and _is_picture(path) else most
        part, note = await self._in_session(
            arguments.session,
            lambda session_id: self.backend.read_file(session_id, path, arguments.offset, wanted + 1),
        )
        picture = next((kind for start, kind in PICTURES.items() if part.content.startswith(start)), None)
        whole = arguments.offset == 0 and len(part.content) <= rendering.MOST_IMAGE_BYTES and not part.more
        if picture is not None and whole:
            return _add_note(ToolResult((Image(part.content, picture),)), note)
        return _add_note(_show_text(path, part.content, arguments.offset, most), note)

    async def _list_files(self, arguments: definitions.ListFiles) -> ToolResult:
        path = addresses.find_workspace_path(arguments.path)
        found, note = await self._in_session(
            arguments.session,
            lambda session_id: self.backend.list_files(session_id, path, recursive=arguments.recursive),
        )
        return _add_note(rendering.render_files(found, path, self.output_bytes), note)

    async def _list_variables(self, arguments: definitions.ListVariables) -> ToolResult:
        found, note = await self._in_session(arguments.session, self.backend.list_variables)
        return _add_note(rendering.render_variables(found, self.output_bytes), note)

    async def _interrupt(self, arguments: definitions.Interrupt) -> ToolResult:
        _, note = await self._in_session(arguments.session, self.backend.interrupt)
        return _add_note(make_text("Interrupted what was running, if anything was."), note)

    async def _restart(self, arguments: definitions.Restart) -> ToolResult:
        session, note = await self._in_session(arguments.session, self.backend.restart)
        self._generations[session.id] = session.generation
        return _add_note(make_text("Python was restarted: variables are gone, files are kept."), note)

    async def _undo(self, arguments: definitions.Undo) -> ToolResult:
        session = await self.sessions.find(arguments.session)
        session = await self.backend.undo(session.id, arguments.cells)
        self._generations[session.id] = session.generation
        restored = [] if session.restored is None else session.restored.variables
        lost = [each for each in restored if each.outcome == "lost"]
        return make_text("\n".join(["Variables and files are as they were before.", *rendering.list_lost(lost)]))

    async def _start_session(self, arguments: definitions.StartSession) -> ToolResult:
        environment = None if arguments.environment is UNSET else arguments.environment
        workspace = None if arguments.workspace_id is UNSET else arguments.workspace_id
        source = None if arguments.fork_of is UNSET else await self.sessions.find(arguments.fork_of)
        session = await self.sessions.start(arguments.session, environment, workspace, source)
        self._generations[session.id] = session.generation
        return make_text(_describe_session(arguments.session, session))

    async def _stop_session(self, arguments: definitions.StopSession) -> ToolResult:
        session = await self.sessions.stop(arguments.session)
        return make_text(f"Stopped {arguments.session}; its files are in the workspace {session.workspace_id}.")

    async def _replay(self, arguments: definitions.Replay) -> ToolResult:
        session = await self.sessions.find(arguments.session)
        inputs = session.workspace_id if arguments.with_files is True else None
        replay = await self.backend.replay(session.id, inputs)
        return rendering.render_replay(replay, self._limit(arguments.max_output_bytes))

    async def read_resource(self, uri: str) -> tuple[bytes, str]:
        """What is at an address of `addresses`, and its media type; raises NotFound, InvalidRequest."""
        if uri in self._outputs:
            return self._outputs[uri].encode("utf-8", "replace"), "text/plain"
        found = addresses.parse(uri)
        if found.kind == "notebook":
            return await self.backend.read_notebook(found.session_id), "application/x-ipynb+json"
        if found.kind == "execution":
            execution = await self.backend.get_execution(found.session_id, found.name)
            return rendering.make_full_text(execution).encode("utf-8", "replace"), "text/plain"
        part = await self.backend.read_file(found.session_id, found.name, 0, addresses.MOST_RESOURCE_BYTES)
        if part.more:
            most = addresses.MOST_RESOURCE_BYTES
            raise InvalidRequest(f"the file has more than {most:,} bytes: read_file reads it in parts")
        return part.content, addresses.guess_media_type(found.name)

    async def list_resources(self) -> list[Link]:
        """The notebook and the files of each live session."""
        links = list[Link]()
        for name, session in self.sessions.live.items():
            links.append(Link(addresses.make_notebook(session.id), f"{name}: notebook", "application/x-ipynb+json"))
            try:
                entries = await self.backend.list_files(session.id, "", recursive=True)
            except SandcellError:  # it has ended: its notebook can still be read
                continue
            links += [
                Link(addresses.make_file(session.id, each.path), each.path, addresses.guess_media_type(each.path))
                for each in entries
                if each.kind == "file"
            ]
        return links[: addresses.MOST_RESOURCES]


def _seconds(given: float | UnsetType) -> float | None:
    return None if given is UNSET else given


def _pass_on(on_progress: OnProgress) -> Callable[[Event], None]:
    def pass_on(event: Event) -> None:
        if event.event == "stream":
            on_progress(str(event.data.get("text", "")))
        elif event.event == "memory":
            on_progress(f"[{rendering.describe_memory(msgspec.convert(event.data, MemoryShortage))}]")

    return pass_on


def _add_note(result: ToolResult, note: str) -> ToolResult:
    return replace(result, contents=(Text(note), *result.contents)) if note else result


def _decode(arguments: definitions.WriteFile) -> bytes:
    if arguments.encoding == "utf-8":
        return arguments.content.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(arguments.content, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("content is no base64", code="invalid_arguments") from None


def _is_picture(path: str) -> bool:
    return addresses.guess_media_type(path) in rendering.IMAGES


def _show_text(path: str, data: bytes, offset: int, most: int) -> ToolResult:
    """Text of a file, up to so many bytes; what is none is only described."""
    more, data = len(data) > most, data[:most]
    if b"\0" in data:
        return make_text(f"{path} is no text: read it in Python, for example with open({path!r}, 'rb')")
    if more:
        data = _cut_between_characters(data)
    text = data.decode("utf-8", "replace")
    if more:
        text += f"\n[... more follows: offset={offset + len(data)} reads on ...]"
    return make_text(text or "(empty)")


def _cut_between_characters(data: bytes) -> bytes:
    """The same without a last character of which a part is missing."""
    for cut in range(min(4, len(data))):
        try:
            whole = data[: len(data) - cut]
            whole.decode()
        except UnicodeDecodeError:
            continue
        return whole
    return data


def _describe_session(name: str, session: Session) -> str:
    reach = describe_network(session.network)
    began = session.from_
    if began is None:
        return f"Started {name}: environment {session.environment}, id {session.id}. {reach}"
    ran = f"; {began.cells} cells ran again for it" if began.cells else ""
    return "\n".join(
        [
            f"Started {name}, id {session.id}, as the session {began.session} was at {began.as_of}{ran}. {reach}",
            *rendering.list_lost(began.lost),
        ]
    )
