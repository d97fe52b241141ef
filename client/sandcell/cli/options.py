"""Options that commands share, and how an error becomes a message and an exit status."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click

from sandcell import ConnectionFailed, SandcellError, Unauthorized, exits
from sandcell.cli import completion
from sandcell.cli.screen import say
from sandcell.cli.verbs import ACCESS


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a client, with `--url` and `--token`, and turn what goes wrong into an exit status."""

    @functools.wraps(command)
    def with_client(*, url: str | None, token: str | None, **kwargs: Any) -> None:
        from sandcell import Client  # noqa: PLC0415 - it takes httpx, and verbs of the host need no client

        try:
            meta = click.get_current_context().meta
            with Client(url or meta.get("sandcell.url"), token or meta.get("sandcell.token")) as client:
                command(client, **kwargs)
        except SandcellError as error:
            explain_error(error)
            raise click.exceptions.Exit(exits.of_error(error)) from error
        except BrokenPipeError:
            raise  # the reader of our output has left, as `head` does: `main` ends without a message
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise click.ClickException(message) from error

    decorated: Callable[..., None] = with_client
    for flag, about in reversed(list(ACCESS.items())):
        decorated = click.option(flag, **about)(decorated)
    return decorated


def choose_upload(file: Path, path: str | None) -> tuple[Path | IO[bytes], str]:
    """What FILE stands for, stdin where it is `-`, and the path that it is written as."""
    if file != Path("-"):
        return file, path or file.name
    if path is None:
        raise click.UsageError("say as which PATH stdin is to be written")
    return sys.stdin.buffer, path


def explain_error(error: SandcellError) -> None:
    """Say the error, and what a person can do about it, on lines of their own."""
    for line in filter(None, [f"sandcell: {error}", _remedy(error)]):
        say(line)


def _remedy(error: SandcellError) -> str:
    """What a person can do about an error that does not say so itself."""
    if isinstance(error, ConnectionFailed):
        return "Is the service running? `sandcell serve` starts one; --url or SANDCELL_URL names another."
    if isinstance(error, Unauthorized):
        return "Give a token with --token or SANDCELL_TOKEN; `sandcell serve` prints the first one."
    if error.code == "workspace_in_use" and "session_id" in error.details:
        return f"The session is {error.details['session_id']}."
    return REMEDIES.get(error.message, "")


REMEDIES = {
    "there is no such session": "`sandcell session ls --all` lists yours.",
    "there is no such workspace": "`sandcell workspace ls` lists yours.",
    "the workspace has no such dataset": "`sandcell dataset ls WORKSPACE` lists those there are.",
    "there is no such agent": "`sandcell agents ls` lists yours.",
    "there is no such key": "`sandcell keys ls` lists them by id.",
    "there is no such token": "`sandcell token ls` lists them by id.",
}


sync_mode = click.option(
    "--sync",
    type=click.Choice(["async", "before_return"]),
    help="before_return: done when the files are in the store.  [default: the session's, else the service's]",
)
session_option = click.option(
    "--session",
    "session_id",
    metavar="ID",
    shell_complete=completion.sessions,
    help="Which session.  [env: SANDCELL_SESSION; default: the current one]",
)


def environment_option(about: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--environment`, by its name or id."""
    return click.option("--environment", metavar="NAME", shell_complete=completion.environments, help=about)


def working_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of what runs code: which session, and where its plots go."""
    for option in (
        click.option(
            "--output-dir",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path(),
            help="Where displayed plots are saved.  [default: here]",
        ),
        environment_option("Environment of a session that is started."),
        click.option("--new", is_flag=True, help="Start a new session and go on with it from now on."),
        session_option,
    ):
        command = option(command)
    return command


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
