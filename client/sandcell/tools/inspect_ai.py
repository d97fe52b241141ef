"""Sessions as the sandboxes of Inspect's evaluations: `sandbox="sandcell"`, or `("sandcell", environment)`.

Needs `inspect-ai`, which finds this module by its entry point. Files are read and written by the sandbox's user, as
commands are: what goes beyond /workspace, and the input of commands, passes through a file in it that is removed again.
"""

from __future__ import annotations

import os
import shlex
import uuid
from typing import Any, Final

from sandcell.errors import SandcellError
from sandcell.models.commands import Command
from sandcell.nonblocking import AsyncClient
from sandcell.operations.sessions import EXECUTION_SECONDS
from sandcell.tools.model_calls import import_framework

util: Any = import_framework("inspect_ai.util", "inspect-ai")
base: Any = util.SandboxEnvironment

USERS: Final = ("user", "1000")
"""Names of the one user that code runs as."""
LABEL: Final = "inspect-task"
IDLE_SECONDS: Final = 8 * 3_600
"""A sample may wait this long for its model."""
MOST_LINE_BYTES: Final = 100_000
"""A longer command is sent as a file: Linux takes 131,072 bytes as one argument."""
REMOVE_ITSELF: Final = 'rm -f -- "$0"\n'
CANNOT_EXECUTE: Final = 126
NO_SUCH_FILE, NOT_ALLOWED, IS_DIRECTORY, TOO_LARGE = 2, 13, 21, 27
"""What the scripts below exit with: errors by their numbers on Linux."""
READ: Final = f"""f={{path}}
[ -e "$f" ] || exit {NO_SUCH_FILE}
[ ! -d "$f" ] || exit {IS_DIRECTORY}
[ -r "$f" ] || exit {NOT_ALLOWED}
[ "$(stat -L -c %s -- "$f")" -le {{most}} ] || exit {TOO_LARGE}
real=$(readlink -f -- "$f")
case $real in
/workspace/*) echo "$real" ;;
*) cat -- "$f" > {{staged}} ;;
esac"""
WRITE: Final = f"""f={{path}}
write() {{{{
[ ! -d "$f" ] || return {IS_DIRECTORY}
mkdir -p -- "$(dirname -- "$f")" || return {NOT_ALLOWED}
[ ! -e "$f" ] || [ -w "$f" ] || return {NOT_ALLOWED}
cat -- {{staged}} > "$f"
}}}}
write; code=$?; rm -f -- {{staged}}; exit $code"""


@util.sandboxenv(name="sandcell")
class SandcellSandbox(base):  # type: ignore[misc]
    """A session; its service is found as `AsyncClient` finds it."""

    def __init__(self, client: AsyncClient, session_id: str) -> None:
        super().__init__()
        self._client = client
        self.session_id = session_id

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, Any]:
        """Called before a sample: a session from the environment that `config` names."""
        if config is not None and not isinstance(config, str):
            raise ValueError("the configuration of the sandbox sandcell is the name of an environment")
        client = AsyncClient()
        try:
            labels = {LABEL: task_name[:200]}
            session = await client.start_session(config, labels=labels, idle_timeout_seconds=IDLE_SECONDS)
        except BaseException:
            await client.aclose()
            raise
        return {"default": cls(client, session.id)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, Any],
        interrupted: bool,  # noqa: FBT001
    ) -> None:
        """Called after a sample: its session stops, its files and notebook are kept."""
        for each in environments.values():
            try:
                await each._client.stop_session(each.session_id)
            finally:
                await each._client.aclose()

    async def exec(  # noqa: PLR0917 - the signature is Inspect's
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,  # noqa: FBT001, FBT002 - and no effect: a command never runs twice
        concurrency: bool = True,  # noqa: FBT001, FBT002
    ) -> Any:
        """Called by tools, solvers and scorers."""
        if user is not None and user not in USERS:
            raise util.SandboxUserUnsupportedError(f"cannot execute as {user!r}: code runs as the user {USERS[0]}")
        line = make_line(cmd, cwd, env or {})
        if len(line.encode("utf-8", "surrogateescape")) > MOST_LINE_BYTES:
            line = f"exec /bin/sh {await self._stage(REMOVE_ITSELF + line)}"
        if input is not None:
            line = f"exec <{(given := await self._stage(input))}; rm -f -- {given}\n{line}"
        done = await self._run(line, timeout)
        if done.timed_out:
            raise TimeoutError(f"the command did not end within {timeout or EXECUTION_SECONDS} seconds")
        for text, cut in ((done.stdout, done.truncated.stdout), (done.stderr, done.truncated.stderr)):
            if cut:
                raise util.OutputLimitExceededError(f"{len(text.encode()):,} bytes", text)
        code = -1 if done.exit_code is None else done.exit_code
        if code == CANNOT_EXECUTE and "ermission denied" in done.stderr:
            raise PermissionError(done.stderr)
        return util.ExecResult(code == 0, code, done.stdout, done.stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file; its directories are made."""
        script = WRITE.format(path=shlex.quote(file), staged=await self._stage(contents))
        _require(await self._run(script), file)

    async def read_file(self, file: str, text: bool = True) -> str | bytes:  # noqa: FBT001, FBT002
        """Read a file whole."""
        staged, limits = _name_staged(), util.SandboxEnvironmentLimits
        done = await self._run(READ.format(path=shlex.quote(file), staged=staged, most=limits.MAX_READ_FILE_SIZE))
        if done.exit_code == TOO_LARGE:
            raise util.OutputLimitExceededError(limits.MAX_READ_FILE_SIZE_STR, None)
        _require(done, file)
        found = done.stdout.removesuffix("\n").removeprefix("/workspace/")
        try:
            data = await self._client.download(self.session_id, found or staged)
        finally:
            if not found:
                await self._client.remove_file(self.session_id, staged)
        return data.decode() if text else data

    async def _stage(self, content: str | bytes) -> str:
        """Bring bytes into the workspace, in a file for the next command to remove; its name needs no quotes."""
        data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
        name = _name_staged()
        await self._client.upload(self.session_id, name, data)
        return f"/workspace/{name}"

    async def _run(self, line: str, seconds: float | None = None) -> Command:
        try:
            return await self._client.command(self.session_id, line, timeout_seconds=seconds, stop_when_gone=True)
        except SandcellError as error:
            raise util.SandboxUnavailableError(error.message) from error


def make_line(cmd: list[str], cwd: str | None, env: dict[str, str]) -> str:
    """A line for a shell that becomes the command; `exec` runs programs alone, none of the shell's own words."""
    lines = [f"cd -- {shlex.quote(cwd)} || exit"] if cwd is not None else []
    lines += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    return "\n".join([*lines, f"exec -- {shlex.join(cmd)}"])


def _name_staged() -> str:
    return f".inspect-{uuid.uuid4().hex}"


def _require(done: Command, file: str) -> None:
    """Raises the error that a script exited with, as Python's own for a file."""
    if done.exit_code:
        error = OSError(done.exit_code, os.strerror(done.exit_code), file)
        raise (
            error if done.exit_code in (NO_SUCH_FILE, NOT_ALLOWED, IS_DIRECTORY) else OSError(done.stderr or str(error))
        )
    if done.timed_out:
        raise TimeoutError(f"{file} could not be read or written in time")
