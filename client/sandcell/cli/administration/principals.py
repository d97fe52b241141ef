"""`sandcell principal ...` and `sandcell admin ...`, for administrators: principals, and the sessions of all."""

from __future__ import annotations

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.models.sessions import SessionStatus
from sandcell.operations import tenants as te
from sandcell.paging import collect_pages


@click.group(cls=Verbs, path="principal")
def principal() -> None:
    """List, disable and enable principals, and say what each may have (administrators only)."""


@principal.command("ls")
@as_json
@connected
def list_(client: Client, *, as_json: bool) -> None:
    """List principals."""
    found = client.carry_out(collect_pages(lambda cursor: te.list_principals(cursor=cursor)))
    if as_json:
        show_json(found)
        return
    rows = [
        (each.name, "yes" if each.admin else "", each.live_sessions, each.live_sessions_most, each.disabled_at or "")
        for each in found
    ]
    show_table(("PRINCIPAL", "ADMINISTRATOR", "LIVE SESSIONS", "AT MOST", "DISABLED"), rows)


@principal.command("disable")
@click.argument("name")
@click.option("--hand-over-to", "to", metavar="NAME", help="Whose its live sessions become.  [default: they end]")
@as_json
@connected
def disable(client: Client, *, name: str, to: str | None, as_json: bool) -> None:
    """End everything of principal NAME now: tokens, keys, attach tokens, event streams, sockets, replays, sessions."""
    done = client.disable_principal(name, sessions="hand_over" if to else "stop", to=to)
    if as_json:
        show_json(done)
        return
    fate = f"handed over to {done.handed_to}" if done.handed_to else "ending"
    say(f"disabled {done.name}: {done.calls:,} open calls ended, {len(done.sessions):,} sessions {fate}")


@principal.command("enable")
@click.argument("name")
@connected
def enable(client: Client, *, name: str) -> None:
    """Let the credentials of principal NAME count again."""
    client.enable_principal(name)
    say(f"enabled {name}")


@principal.command("quota")
@click.argument("name")
@click.option("--sessions", type=click.IntRange(1, 100_000), help="[default: what the service's settings say]")
@connected
def quota(client: Client, *, name: str, sessions: int | None) -> None:
    """Say how many live sessions principal NAME may have."""
    done = client.set_quota(name, sessions)
    say(f"{done.name} may have {done.live_sessions_most:,} live sessions")


@click.group(cls=Verbs, path="admin")
def admin() -> None:
    """List, look into and stop the sessions of all principals (administrators only; each is in the audit log)."""


@admin.command("ls")
@click.option("--principal", metavar="NAME", help="Only this principal's.")
@click.option("--all", "everything", is_flag=True, help="Ended ones too.")
@as_json
@connected
def sessions(client: Client, *, principal: str | None, everything: bool, as_json: bool) -> None:
    """List everybody's sessions, newest first."""
    status: SessionStatus | None = None if everything else "READY"
    found = client.carry_out(
        collect_pages(lambda cursor: te.list_all_sessions(principal=principal, status=status, cursor=cursor))
    )
    if as_json:
        show_json(found)
        return
    columns = ("SESSION", "PRINCIPAL", "STATUS", "ENVIRONMENT", "NAME", "LAST ACTIVITY")
    show_table(
        columns,
        [(each.id, each.principal, each.status, each.environment, each.name, each.last_activity_at) for each in found],
    )


@admin.command("show")
@click.argument("session_id", metavar="SESSION", shell_complete=completion.sessions)
@connected
def show(client: Client, *, session_id: str) -> None:
    """Show a session, of any principal, as JSON."""
    show_json(client.get_any_session(session_id))


@admin.command("executions")
@click.argument("session_id", metavar="SESSION", shell_complete=completion.sessions)
@connected
def executions(client: Client, *, session_id: str) -> None:
    """Show what ran in a session, of any principal, as JSON: code and shell commands."""
    found = collect_pages(lambda cursor: te.list_any_executions(session_id, cursor=cursor, commands=True))
    show_json(client.carry_out(found))


@admin.command("notebook")
@click.argument("session_id", metavar="SESSION", shell_complete=completion.sessions)
@connected
def notebook(client: Client, *, session_id: str) -> None:
    """Print the notebook of a session, of any principal."""
    show_json(client.get_any_notebook(session_id))


@admin.command("stop")
@click.argument("session_id", metavar="SESSION", shell_complete=completion.sessions)
@connected
def stop(client: Client, *, session_id: str) -> None:
    """Stop a session, of any principal, after its last flush."""
    ended = client.stop_any_session(session_id)
    say(f"stopped {ended.id} of {ended.principal}")
