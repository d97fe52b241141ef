"""`sandcell audit`: what was asked for, and what the answer was; `sandcell audit verify`: whether that is all of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kernel_gateway import exits
from kernel_gateway.cli.options import as_json, configured, connected
from kernel_gateway.cli.screen import show_json, show_table
from kernel_gateway.cli.terminal_text import plain
from kernel_gateway.client import Client
from kernel_gateway.client.operations import administration as a
from kernel_gateway.client.paging import every
from kernel_gateway.client.steps import Operation
from kernel_gateway.models.audit import AuditRecord
from kernel_gateway.models.model import Page
from kernel_gateway.settings import Settings

COLUMNS = ("AT", "PRINCIPAL", "SESSION", "KIND", "EVENT", "ANSWER", "TARGET", "REASON")
MOST_ON_PAGE = 1_000


def _unless_subcommand(show: Callable[..., None]) -> Callable[..., None]:
    """Show records only where nothing else is asked for, which may need no service."""

    @functools.wraps(show)
    def invoked(**kwargs: Any) -> None:
        if click.get_current_context().invoked_subcommand is None:
            show(**kwargs)

    return invoked


@click.group(
    invoke_without_command=True,
    short_help="Show the audit log: every call, and every way out that was taken or refused.",
)
@click.option("--session", "session_id", metavar="ID", help="Only this session's.")
@click.option("--principal", metavar="NAME", help="Only this principal's, by name or id (administrators).")
@click.option("--kind", metavar="KIND", help="Only of this kind: api, egress, audit.")
@click.option("--event", metavar="NAME", help="Only of this name: StartSession, InvokeCodeInterpreter, http...")
@click.option("--error-code", metavar="CODE", help="Only with this error: not_found, ThrottlingException...")
@click.option("--denied", is_flag=True, help="Only what was refused.")
@click.option("--since", metavar="TIME", help="From this time on, as 2026-01-31T08:00:00Z.")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), help="At most so many.")
@as_json
@_unless_subcommand
@connected
def audit(
    client: Client,
    *,
    session_id: str | None,
    principal: str | None,
    kind: str | None,
    event: str | None,
    error_code: str | None,
    denied: bool,
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show the audit log, newest first: your own records; an administrator sees everybody's.

    `sandcell audit verify`, on the service's host, says whether they are as they were written.
    """

    def page(cursor: str | None) -> Operation[Page[AuditRecord]]:
        return a.list_audit(
            session_id=session_id,
            principal=principal,
            kind=kind,
            event=event,
            error_code=error_code,
            allowed=False if denied else None,
            since=since,
            until=until,
            limit=min(limit, MOST_ON_PAGE),
            cursor=cursor,
        )

    records = client.carry_out(every(page, most=limit))
    if as_json:
        show_json(records)
        return
    show_table(COLUMNS, [_row(each) for each in records])


def _row(each: AuditRecord) -> tuple[object, ...]:
    answer = "allowed" if each.allowed else "refused"
    return (
        each.at,
        each.principal or "",
        each.session_id or "",
        each.kind,
        each.event,
        answer,
        each.target,
        each.reason,
    )


@audit.command("verify")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file of audit records as JSON lines, of this service or from a sink; may be given again.",
)
@click.option("--public-key", metavar="HEX", help="Verify signatures with this key.  [default: the service's, if here]")
@as_json
@configured
def verify(settings: Settings, *, files: tuple[Path, ...], public_key: str | None, as_json: bool) -> None:
    """Say whether the audit log is as it was written; name the first record that is changed or missing.

    Reads the database that the settings name, also while the service runs. With --file: lines that were kept
    elsewhere, by themselves and against that database, if there is one.
    """
    from kernel_gateway.services.audit import inspection as audit_inspection  # noqa: PLC0415 - the client's verbs need none of it

    try:
        found = audit_inspection.inspect(settings, files, public_key)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        show_json(found)
    else:
        for each in found:
            for text in each.sentences():
                click.echo(plain(text))
    if not all(each.report.whole for each in found):
        raise click.exceptions.Exit(exits.CODE_FAILED)
