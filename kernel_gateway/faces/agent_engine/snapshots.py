"""Snapshots (`sandboxEnvironmentSnapshots`) of sandboxes: variables and files as they were, to begin others from.

Each is a hibernated session, a copy of the sandbox's that is never woken: what begins from it is a copy again.
"""

from __future__ import annotations

from typing import Any, Final

from kernel_gateway.errors import Conflict, InvalidRequest, NotFound
from kernel_gateway.faces.agent_engine import answers
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.engines import find_engine, list_page
from kernel_gateway.faces.agent_engine.requests import CreateSnapshot
from kernel_gateway.faces.agent_engine.sandboxes import find_sandbox, find_snapshot, read_ttl
from kernel_gateway.faces.json_bodies import quote
from kernel_gateway.services.replays.session_copies import Wanted
from kernel_gateway.storage import agent_engine
from kernel_gateway.storage.agent_engine import ResourceRow

ACTIONS: Final = {"RUNNING": False, "POST_SNAPSHOT_ACTION_UNSPECIFIED": False, "PAUSE": True}
"""Whether the sandbox is paused afterwards."""


async def create_snapshot(call: Call) -> dict[str, Any]:
    """Taken between two executions; the work goes on when the client leaves."""
    call.services.limits.take_invocation(call.principal)
    sandbox, body = await find_sandbox(call), call.body
    if sandbox.status == "TERMINATED":
        raise Conflict("the sandbox is STATE_TERMINATED: its session ended; make a new one")
    pause = ACTIONS.get(body.post_snapshot_action or "RUNNING")
    if pause is None:
        what = quote(body.post_snapshot_action)
        raise InvalidRequest(f"postSnapshotAction: {what} is none: RUNNING or PAUSE", field="postSnapshotAction")
    most = call.services.settings.state_ttl_seconds
    seconds = read_ttl(call, body, most, most)
    work = _take(call, sandbox, body, seconds, pause=pause)
    row = await call.services.background.carry_out(work, "take a snapshot")
    return answers.describe_operation(row, "create")


async def get_snapshot(call: Call) -> dict[str, Any]:
    return answers.describe(await find_snapshot(call))


async def list_snapshots(call: Call) -> dict[str, Any]:
    engine = await find_engine(call)
    return await list_page(call, "sandboxEnvironmentSnapshots", agent_engine.children_of(engine.id, "snapshot"))


async def delete_snapshot(call: Call) -> dict[str, Any]:
    """With its files; sandboxes that began from it have their own."""
    row = await find_snapshot(call)
    await call.services.session_copies.remove(call.principal, row.session_id or "")
    await call.face.resources.delete(row)
    return answers.describe_operation(await find_snapshot(call, deleted=True), "delete")


async def _take(call: Call, sandbox: ResourceRow, body: CreateSnapshot, seconds: int, *, pause: bool) -> ResourceRow:
    """The row, then the session, then what is known of both; one that fails leaves nothing that is shown."""
    resources, session_id = call.face.resources, sandbox.session_id or ""
    async with call.face.turns(session_id).take():
        sandbox = await find_sandbox(call)
        said = sandbox.content
        content = {
            "sourceSandboxEnvironment": answers.name_of(sandbox),
            "parentSnapshot": said.get("latestSandboxEnvironmentSnapshot") or said.get("sandboxEnvironmentSnapshot"),
            "owner": body.owner,
        }
        row = await resources.add(
            call.principal,
            "snapshot",
            answers.place_of(sandbox),
            engine_id=sandbox.engine_id,
            display_name=body.display_name or "",
            content={name: value for name, value in content.items() if value},
        )
        try:
            await _copy(call, row, session_id, seconds)
        except BaseException:
            await resources.delete(row)
            raise
        await resources.add_content(sandbox, latestSandboxEnvironmentSnapshot=answers.name_of(row))
        if pause:
            await call.services.hibernation.hibernate(call.principal, session_id)
    ids = {"engine": sandbox.engine_id or "", "snapshot": row.id}
    try:
        return await find_snapshot(call, ids=ids)
    except NotFound:  # its engine was deleted meanwhile
        await call.services.session_copies.remove(call.principal, row.session_id or "")
        raise


async def _copy(call: Call, row: ResourceRow, session_id: str, seconds: int) -> None:
    copy_id, most = row.session_id or "", call.services.settings.session_timeout_max_seconds
    name = row.display_name or f"snapshot-{copy_id[:8]}"
    wanted = Wanted(copy_id, name, kept_seconds=float(seconds), lifetime_seconds=min(seconds, most), snapshot=True)
    copied = await call.services.session_copies.copy(call.principal, session_id, wanted)
    files = (await call.services.workspaces.get(call.principal, copy_id)).size_bytes or 0
    variables = copied.hibernated.size_bytes if copied.hibernated is not None else 0
    await call.face.resources.add_content(row, sizeBytes=str(files + variables))
