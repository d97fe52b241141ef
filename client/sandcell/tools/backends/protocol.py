"""What the tools need of a service, in the shapes of `sandcell.models`.

`over_rest` asks a service for it over HTTP; the service's own MCP face does without. Each raises `SandcellError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sandcell.models.commands import Command, CommandRequest
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.executions import Event, Execution, Submission
from sandcell.models.inspection import Variables
from sandcell.models.replays import Replay
from sandcell.models.sessions import Session, StartSession
from sandcell.models.workspaces import FileEntry

OnEvent = Callable[[Event], None]
"""Called with each event of an execution as it comes."""


@dataclass(frozen=True)
class FilePart:
    """Bytes of a file; `more`: others follow them."""

    content: bytes
    more: bool


class Backend(Protocol):
    """A service. `most_seconds` is how long one call may take."""

    @property
    def most_seconds(self) -> float: ...

    async def get_environment(self, name: str) -> EnvironmentInfo: ...

    async def start_session(self, request: StartSession) -> Session: ...

    async def get_session(self, session_id: str) -> Session: ...

    async def stop_session(self, session_id: str) -> Session: ...

    async def execute(
        self, session_id: str, submission: Submission, on_event: OnEvent | None, key: str | None
    ) -> Execution:
        """Run code to its end, once for an idempotency key; when the caller is cancelled, the code is interrupted."""

    async def get_execution(self, session_id: str, execution_id: str) -> Execution: ...

    async def run_command(self, session_id: str, request: CommandRequest) -> Command:
        """Run a command to its end; when the caller is cancelled, the command is stopped."""

    async def write_file(self, session_id: str, path: str, content: bytes) -> FileEntry: ...

    async def read_file(self, session_id: str, path: str, start: int, most_bytes: int) -> FilePart: ...

    async def list_files(self, session_id: str, path: str, *, recursive: bool) -> list[FileEntry]: ...

    async def list_variables(self, session_id: str) -> Variables: ...

    async def interrupt(self, session_id: str) -> None: ...

    async def restart(self, session_id: str) -> Session: ...

    async def undo(self, session_id: str, cells: int) -> Session:
        """Take back the last cells of a session."""

    async def replay(self, session_id: str, inputs: str | None) -> Replay:
        """Replay the session's notebook to its end, with the files of the workspace `inputs`.

        When the caller is cancelled, the replay is stopped.
        """

    async def read_notebook(self, session_id: str) -> bytes: ...
