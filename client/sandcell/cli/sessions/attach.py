"""`sandcell attach`: a person's Jupyter client on a live session, by a token that reaches that session alone."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path

import click
import httpx

from sandcell import Client, SandcellError
from sandcell.attaching import lab_config
from sandcell.cli import completion
from sandcell.cli.options import connected
from sandcell.cli.screen import say
from sandcell.cli.sessions import choosing
from sandcell.cli.sessions.attach_tokens import LIFETIME
from sandcell.models.attach import ATTACH_PREFIX, LONGEST_SECONDS, AttachToken, Right
from sandcell.saved import find_address
from sandcell.settings import process_environment, read_settings

INTERRUPT_SECONDS = 10.0


@click.command(short_help="Attach JupyterLab, VS Code or a console to a session.")
@click.argument("session_id", metavar="[SESSION]", required=False, shell_complete=completion.sessions)
@click.option("--open", "opening", is_flag=True, help="Start JupyterLab now, until it is stopped.")
@click.option("--console", is_flag=True, help="Carry the kernel to a connection file here, for jupyter console.")
@click.option("--ttl", type=LIFETIME, default="1h", show_default=True, help="How long the token counts, 1m to 7d.")
@click.option("--can", type=click.Choice(["restart"]), multiple=True, help="What else the token allows.")
@click.option("--name", default="", help="Who you are: the author of the cells that you run.")
@connected
def attach(
    client: Client, *, session_id: str | None, opening: bool, console: bool, ttl: int, can: Sequence[Right], name: str
) -> None:
    """Attach a Jupyter client to SESSION (by default the current one).

    Makes an attach token and says how JupyterLab, VS Code and jupyter console reach the session with it. What is run
    from there waits for its turn and is recorded like everything else. Stopping them ends no kernel.

    With --open or --console the client starts here, if it is installed, and the token is revoked when it ends.

    With an attach token as --token, as the console gives out, no other is made, and this one counts on.
    """
    if opening and console:
        raise click.UsageError("--open and --console exclude each other")
    session_id = choosing.find(client, session_id)
    given = _find_given(client.url, session_id)
    made = given or client.create_attach_token(session_id, name=name, ttl_seconds=ttl, can=can)
    if not opening and not console:
        directory = _make_config_directory(session_id)
        lab_config.write(directory, client.url, made.token or "")
        _explain(client.url, session_id, made, directory)
        return
    try:
        if opening:
            _open_lab(client.url, made)
        else:
            asyncio.run(_run_console(client.url, session_id, made))
    finally:
        with contextlib.suppress(SandcellError):  # it ends by itself, too
            if given is None:
                client.revoke_attach_token(session_id, made.id)


def _find_given(url: str, session_id: str) -> AttachToken | None:
    """The token of this command, if it is an attach token: it may do nothing but attach, and the service is asked."""
    context = click.get_current_context()
    token = find_address(url, context.params.get("token") or context.meta.get("sandcell.token")).token
    if not token.startswith(ATTACH_PREFIX):
        return None
    headers, address = {"Authorization": f"token {token}"}, f"{url.rstrip('/')}/api/kernels/{session_id}"
    try:
        status = httpx.get(address, headers=headers, timeout=INTERRUPT_SECONDS, trust_env=False).status_code
    except httpx.HTTPError as error:
        raise click.ClickException(f"the service at {url} does not answer: {error}") from error
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND):
        raise click.ClickException(
            "this attach token counts no longer, or for another session; Attach in the console makes one"
        )
    return AttachToken("", session_id, "", [], "", "", token=token)


def _explain(url: str, session_id: str, made: AttachToken, directory: Path) -> None:
    """On standard output, so that it can be copied and piped; the token is nowhere else."""
    click.echo(f"""\
JupyterLab (any Python environment that has it; jupyter_server 2.20 or newer):
  JUPYTER_CONFIG_PATH={directory} jupyter lab
  then, in a notebook, choose the kernel of this session in the picker.

VS Code: "Select Kernel", "Existing Jupyter Server...", and this address:
  {url}/?token={made.token}

jupyter console on this machine:
  sandcell attach {session_id} --console
""")
    if made.id:
        say(f"attach token {made.id} of session {session_id}, until {made.expires_at}; it is not shown again")


def _make_config_directory(session_id: str) -> Path:
    """A directory for the configuration of a Lab that the person starts; those of spent tokens go."""
    attached = read_settings().state_dir / "attach"
    for old in attached.glob("*-*-*-*-*"):
        if old.stat().st_mtime < time.time() - LONGEST_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    return attached / session_id


def _open_lab(url: str, made: AttachToken) -> None:
    program = shutil.which("jupyter-lab")
    if program is None:
        raise click.ClickException(
            "JupyterLab is not installed here (pip install jupyterlab); without --open this says how to start one"
        )
    with tempfile.TemporaryDirectory(prefix="sandcell-") as directory:
        lab_config.write(Path(directory), url, made.token or "")
        process = subprocess.Popen([program], env={**process_environment(), "JUPYTER_CONFIG_PATH": directory})
        with _leave_signals_to(process):
            status = process.wait()
    if status:
        raise click.exceptions.Exit(status)


async def _run_console(url: str, session_id: str, made: AttachToken) -> None:
    """Carry the kernel to a connection file while the console runs, or until Ctrl-C when there is none here."""
    try:
        from sandcell.attaching.bridge import AttachEnded, Bridge  # noqa: PLC0415 - other verbs need no ZMQ
    except ModuleNotFoundError as error:
        raise click.ClickException(f"--console needs {error.name}: pip install 'sandcell[console]'") from error

    with tempfile.TemporaryDirectory(prefix="sandcell-") as directory:
        try:
            async with Bridge(Path(directory), url, made.token or "", session_id) as bridge:
                carrying = asyncio.create_task(bridge.run())
                ending = asyncio.create_task(_console_ends(bridge.file, url, session_id, made))
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.cancel)
                try:
                    await asyncio.wait({carrying, ending}, return_when=asyncio.FIRST_COMPLETED)
                    if carrying.done():
                        carrying.result()
                finally:
                    for task in (carrying, ending):
                        task.cancel()
                    await asyncio.gather(carrying, ending, return_exceptions=True)
        except AttachEnded as error:
            raise click.ClickException(str(error)) from error


async def _console_ends(file: Path, url: str, session_id: str, made: AttachToken) -> None:
    """Run the console on the file; without one, say how to, and wait for Ctrl-C."""
    loop = asyncio.get_running_loop()
    program = shutil.which("jupyter-console")
    if program is None:
        ended = asyncio.Event()
        loop.add_signal_handler(signal.SIGINT, ended.set)
        say("jupyter console is not installed here. While this runs, any that is will do:")
        click.echo(f"jupyter console --existing {file}")
        await ended.wait()
        return
    say("Ctrl-C interrupts what runs, Ctrl-D leaves and keeps the kernel; `exit` would end it.")
    interrupting: set[asyncio.Task[None]] = set()

    def interrupt() -> None:
        """The console cannot interrupt a kernel that it did not start: at Ctrl-C, which it gets too, this does."""
        task = asyncio.create_task(_interrupt(url, session_id, made))
        interrupting.add(task)
        task.add_done_callback(interrupting.discard)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    process = await asyncio.create_subprocess_exec(program, "--existing", str(file), env=process_environment())
    try:
        await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _interrupt(url: str, session_id: str, made: AttachToken) -> None:
    async with httpx.AsyncClient(timeout=INTERRUPT_SECONDS, trust_env=False) as http:
        with contextlib.suppress(httpx.HTTPError):
            address = f"{url.rstrip('/')}/api/kernels/{session_id}/interrupt"
            await http.post(address, headers={"Authorization": f"token {made.token}"})


@contextlib.contextmanager
def _leave_signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ctrl-C at the terminal reaches the child too, which knows what to do with it; SIGTERM is handed on."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda _number, _frame: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate()),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
