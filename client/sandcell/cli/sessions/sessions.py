"""`sandcell session ...`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import get_args

import click

from sandcell import Client
from sandcell.cli import completion
from sandcell.cli.options import as_json, connected, environment_option, sync_mode
from sandcell.cli.screen import say, show_json, show_table
from sandcell.cli.sessions import choosing, current_session
from sandcell.cli.verbs import Verbs
from sandcell.cli.wording import describe_network, describe_sync, format_megabytes
from sandcell.models.model import Page
from sandcell.models.network import SessionNetwork
from sandcell.models.sessions import HibernationReport, KeepVariables, Restored, Session, SessionStatus
from sandcell.models.sync import SyncMode
from sandcell.operations import sessions as operations
from sandcell.paging import collect_pages
from sandcell.steps import Operation

COLUMNS = ("SESSION", "STATUS", "ENVIRONMENT", "NAME", "LAST ACTIVITY", "ENDS IF IDLE", "RUNTIME", "NETWORK")


@click.group(cls=Verbs, path="session")
def session() -> None:
    """Start, list, show, interrupt, restart, hibernate and stop sessions."""


@session.command("ls")
@click.option("--all", "everything", is_flag=True, help="Ended ones too.")
@as_json
@connected
def list_(client: Client, *, everything: bool, as_json: bool) -> None:
    """List your sessions, newest first."""
    statuses: tuple[SessionStatus | None, ...] = (None,) if everything else ("READY", "HIBERNATED")
    sessions = [each for status in statuses for each in client.carry_out(collect_pages(_list_of(status)))]
    sessions.sort(key=lambda each: each.created_at, reverse=True)
    if as_json:
        show_json(sessions)
        return
    show_table(COLUMNS, [_row(each) for each in sessions])


def _list_of(status: SessionStatus | None) -> Callable[[str | None], Operation[Page[Session]]]:
    return lambda cursor: operations.list_sessions(status=status, cursor=cursor)


def _row(each: Session) -> tuple[object, ...]:
    idle = each.idle_expires_at if each.status != "TERMINATED" else ""
    status = each.status if each.ended is None else f"{each.status} ({each.ended.reason})"
    mode = each.network.mode if each.network.role is None else f"{each.network.mode} and S3"
    return (each.id, status, each.environment, each.name, each.last_activity_at, idle, each.runtime, mode)


@session.command("new")
@environment_option("What it is made from.  [default: the agent's, or python]")
@click.option("--agent", metavar="NAME", help="Whom it is for: its environment counts, if it is registered.")
@click.option("--name", default="", help="A name for people.")
@click.option("--workspace", "workspace_id", metavar="ID", help="Go on with the files of this workspace.")
@click.option("--replay-of", metavar="SESSION", help="With a copy of its files, and its cells run again.")
@click.option("--timeout", "timeout_seconds", type=int, metavar="SECONDS", help="Ends at the latest after this long.")
@click.option("--idle-timeout", "idle_timeout_seconds", type=int, metavar="SECONDS", help="Ends when idle this long.")
@click.option("--keep-variables", type=click.Choice(get_args(KeepVariables)), help="When variables are written down.")
@click.option("--keep-variables-mb", type=int, metavar="MB", help="How much of them, at most.")
@click.option("--checkpoint-every", type=int, metavar="CELLS", help="Keep it as it is after each so many cells.")
@sync_mode
@as_json
@connected
def new(
    client: Client,
    *,
    environment: str | None,
    agent: str | None,
    name: str,
    workspace_id: str | None,
    replay_of: str | None,
    timeout_seconds: int | None,
    idle_timeout_seconds: int | None,
    keep_variables: KeepVariables | None,
    keep_variables_mb: int | None,
    checkpoint_every: int | None,
    sync: SyncMode | None,
    as_json: bool,
) -> None:
    """Start a session, make it the current one, and print its id."""
    started = client.start_session(
        environment,
        agent=agent,
        name=name,
        workspace_id=workspace_id,
        timeout_seconds=timeout_seconds,
        idle_timeout_seconds=idle_timeout_seconds,
        replay_of=replay_of,
        sync=sync,
        keep_variables=keep_variables,
        keep_variables_mb=keep_variables_mb,
        checkpoint_every=checkpoint_every,
    )
    current_session.remember(client.url, started.id)
    if as_json:
        show_json(started)
    else:
        click.echo(started.id)


@session.command("fork", short_help="Start a session as another was.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@click.option("--cell", metavar="CELL", help="After this cell, by its number in the notebook or its execution's id.")
@click.option("--exact", is_flag=True, help="Start nothing where anything is not as it was.")
@click.option("--replay", is_flag=True, help="Use no checkpoint: all cells run again.")
@click.option("--name", default="", help="A name for people.")
@as_json
@connected
def fork(
    client: Client,
    *,
    session_id: str | None,
    cell: str | None,
    exact: bool,
    replay: bool,
    name: str,
    as_json: bool,
) -> None:
    """Start a session that is as another (default: the current one) is now, or was after a cell.

    The current session stays what it was. What is not as it was is said on standard error.
    """
    forked = client.fork_session(choosing.find(client, session_id), cell=cell, exact=exact, replay=replay, name=name)
    if as_json:
        show_json(forked)
        return
    click.echo(forked.id)
    for line in _list_differences(forked):
        click.echo(line, err=True)


def _list_differences(forked: Session) -> Iterator[str]:
    about = forked.from_
    if about is None:
        return
    for lost in about.lost:
        yield f"{lost.name}: {lost.outcome}. {lost.why or ''}"
    for what in about.lost_besides:
        yield f"not there: {what}"
    for each in about.different:
        yield f"cell {each.number}: {each.verdict.replace('_', ' ')}. {each.why}"
    for path in about.left_out:
        yield f"{path}: changed later, and was left out"
    for path in about.changed_since:
        yield f"{path}: is as the cells left it"


@session.command("undo", short_help="Take back a session's last cells.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@click.option("--cells", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option("--exact", is_flag=True, help="Take back nothing where anything would not be as it was.")
@as_json
@connected
def undo(client: Client, *, session_id: str | None, cells: int, exact: bool, as_json: bool) -> None:
    """Take back the last cells of a session (default: the current one): variables and files as before them."""
    found = client.undo(choosing.find(client, session_id), cells, exact=exact)
    if as_json:
        show_json(found)
        return
    say(f"undone in {found.id}: kernel generation {found.generation}")
    for each in found.restored.variables if found.restored is not None else ():
        if each.outcome == "lost":
            say(f"not restored: {each.name}: {each.why}")


@session.command("show", short_help="Show a session.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@as_json
@connected
def show(client: Client, *, session_id: str | None, as_json: bool) -> None:
    """Show a session (default: the current one): its state, expiry, what it uses, how far its files are stored."""
    found = client.get_session(choosing.find(client, session_id))
    if as_json:
        show_json(found)
        return
    usage = found.usage
    memory = _part(usage.memory_bytes, usage.memory_limit_bytes)
    rows: list[tuple[object, object]] = [
        ("session", found.id),
        ("name", found.name),
        ("status", found.status if found.ended is None else f"{found.status}: {found.ended.detail}"),
        ("environment", found.environment),
        ("agent", found.agent or ""),
        ("runtime", found.runtime),
        ("network", describe_network(found.network)),
        ("network used", _describe_use(found.network)),
        ("workspace", found.workspace_id),
        ("generation", found.generation),
        ("variables restored", _describe_restored(found.restored)),
        ("hibernated", _describe_hibernated(found.hibernated)),
        ("created", found.created_at),
        ("last activity", found.last_activity_at),
        ("ends if idle", found.idle_expires_at),
        ("ends at the latest", found.expires_at),
        ("memory", f"{memory}, peak {format_megabytes(usage.memory_peak_bytes)}"),
        ("storage", _part(usage.storage_used_bytes, usage.storage_limit_bytes)),
        ("executions", usage.executions),
        ("files stored", describe_sync(found.sync)),
        ("durable up to", found.sync.durable.execution_id if found.sync.durable else "nothing yet"),
        ("sync", found.sync.mode),
    ]
    show_table(("", ""), rows)


def _describe_restored(restored: Restored | None) -> str:
    if restored is None or restored.why is not None:
        return "" if restored is None else restored.why or ""
    counts = Counter(each.outcome for each in restored.variables)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return f"{said or 'none'}, as of {restored.as_of}"


def _describe_hibernated(report: HibernationReport | None) -> str:
    if report is None:
        return ""
    lost = sum(each.outcome == "lost" for each in report.variables)
    size = format_megabytes(report.size_bytes + report.image_bytes)
    return f"until {report.until}, as {report.kept_as}: {size}, {lost} variables not kept"


def _describe_use(policy: SessionNetwork) -> str:
    used, limits = policy.used, policy.limits
    if policy.mode == "SANDBOX" and policy.role is None and not used.requests:
        return "nothing"
    sent = _part(used.sent_bytes, limits.sent_bytes)
    received = _part(used.received_bytes, limits.received_bytes)
    requests = f"{used.requests:,} of {limits.requests:,} requests, {used.refused:,} refused"
    return f"{requests}, {sent} sent, {received} received"


def _part(used: int, limit: int) -> str:
    return f"{format_megabytes(used)} of {format_megabytes(limit)}"


@session.command("interrupt", short_help="Interrupt what runs in a session.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@connected
def interrupt(client: Client, *, session_id: str | None) -> None:
    """Interrupt what runs in a session (default: the current one); its variables stay."""
    session_id = choosing.find(client, session_id)
    client.interrupt(session_id)
    say(f"interrupted {session_id}")


@session.command("restart", short_help="Start a blank kernel in a session; files stay.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@connected
def restart(client: Client, *, session_id: str | None) -> None:
    """Start a blank kernel in a session (default: the current one); its files stay, its variables are gone."""
    restarted = client.restart(choosing.find(client, session_id))
    say(f"restarted {restarted.id}: kernel generation {restarted.generation}")


@session.command("hibernate", short_help="Give up a session's memory until its next use.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@as_json
@connected
def hibernate(client: Client, *, session_id: str | None, as_json: bool) -> None:
    """Give up the memory of a session (default: the current one) until its next use; says what is not kept."""
    found = client.hibernate(choosing.find(client, session_id))
    if as_json:
        show_json(found)
        return
    report = found.hibernated or HibernationReport()
    whole = report.kept_as == "processes"
    what = f", {report.image_bytes:,} of an image of its processes" if whole else ""
    say(f"hibernated {found.id} until {report.until}: {report.size_bytes:,} bytes of variables{what}")
    if report.processes_lost is not None:
        say(f"not kept: processes: {report.processes_lost}")
    doubt = "lost if that image cannot be restored" if whole else "not kept"
    for each in report.variables:
        if each.outcome == "lost":
            say(f"{doubt}: {each.name}: {each.why}")
    for lost in report.lost:
        say(f"{doubt}: {lost}")


@session.command("resume", short_help="Wake a hibernated session, as its next use does.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@as_json
@connected
def resume(client: Client, *, session_id: str | None, as_json: bool) -> None:
    """Wake a session (default: the current one); says which variables did not come back."""
    found = client.resume(choosing.find(client, session_id))
    if as_json:
        show_json(found)
        return
    say(f"resumed {found.id}: kernel generation {found.generation}")
    if found.restored is not None and found.restored.processes_lost is not None:
        say(f"not restored: {found.restored.processes_lost}")
    for each in found.restored.variables if found.restored is not None else ():
        if each.outcome == "lost":
            say(f"not restored: {each.name}: {each.why}")


@session.command("stop", short_help="Stop a session; its files stay.")
@click.argument("session_id", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@connected
def stop(client: Client, *, session_id: str | None) -> None:
    """Stop a session (default: the current one); its files stay in its workspace."""
    stopped = client.stop_session(choosing.find(client, session_id))
    current_session.forget(client.url, stopped.id)
    say(f"stopped {stopped.id}; its files: sandcell workspace ls {stopped.workspace_id}")
