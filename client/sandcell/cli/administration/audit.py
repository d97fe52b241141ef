"""`sandcell audit`: what was asked for, and what the answer was."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from sandcell import Client
from sandcell.cli.options import as_json, connected
from sandcell.cli.screen import show_json, show_table
from sandcell.cli.verbs import Verbs
from sandcell.models.audit import AuditRecord
from sandcell.models.model import Page
from sandcell.operations import administration as a
from sandcell.paging import collect_pages
from sandcell.steps import Operation

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
    cls=Verbs,
    path="audit",
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

    records = client.carry_out(collect_pages(page, most=limit))
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
