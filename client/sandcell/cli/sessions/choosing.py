"""Finding the session a command works in: the one that is named, the current one, or a new one, saying which."""

from __future__ import annotations

from dataclasses import dataclass

import click

from sandcell import Client, NotFound
from sandcell.cli.screen import say
from sandcell.cli.sessions import current_session
from sandcell.models.sessions import Session
from sandcell.settings import read_settings


@dataclass(frozen=True)
class Chosen:
    """The session to run code in. No other takes the place of one that was `named`, also by SANDCELL_SESSION."""

    id: str
    named: bool


def find(client: Client, session_id: str | None) -> str:
    """The session meant when none needs to be started."""
    found = session_id or read_settings().session or current_session.recall(client.url)
    if found is None:
        raise click.UsageError("there is no current session: name one, or start one with `sandcell run`")
    return found


def choose(client: Client, session_id: str | None, *, new: bool, environment: str | None) -> Chosen:
    """The session to run code in, started if need be."""
    asked = session_id or read_settings().session
    if asked and not new:
        return Chosen(asked, named=True)
    current = current_session.recall(client.url)
    if new or current is None:
        return Chosen(start(client, environment, ""), named=False)
    return Chosen(_go_on(client, current, environment), named=False)


def _go_on(client: Client, current: str, environment: str | None) -> str:
    """The current session, or the one that takes its place."""
    try:
        session = client.get_session(current)
    except NotFound:
        return start(client, environment, f"the session {current} is not known to the service any more")
    if session.status != "TERMINATED" and (environment is None or _is_of(client, session, environment)):
        return current
    if session.status != "TERMINATED":
        return start(client, environment, f"the current session has the environment {session.environment}")
    return replace_ended(client, session, environment)


def _is_of(client: Client, session: Session, environment: str) -> bool:
    """Whether a session is of this environment, which may be named as its principal calls it."""
    return environment == session.environment or client.get_environment(environment).id == session.environment


def replace_ended(client: Client, ended: Session, environment: str | None) -> str:
    """A new session on the files of one that has ended."""
    why = ended.ended.detail or ended.ended.reason if ended.ended else "it has ended"
    reason = f"the session {ended.id} has ended ({why})"
    return start(client, environment or ended.environment, reason, workspace_id=ended.workspace_id)


def start(client: Client, environment: str | None, why: str, *, workspace_id: str | None = None) -> str:
    """Start a session, make it the current one, and say so."""
    session = client.start_session(environment, workspace_id=workspace_id)
    current_session.remember(client.url, session.id)
    if not why:
        say(f"new session {session.id}")
    elif workspace_id:
        say(f"new session {session.id}: {why}. Its files are here again; the kernel is blank.")
    else:
        say(f"new session {session.id}: {why}. The kernel is blank.")
    return session.id
