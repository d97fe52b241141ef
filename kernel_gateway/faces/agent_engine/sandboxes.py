"""Sandboxes (`sandboxEnvironments`): each is a session, started before the answer to its creation."""

from __future__ import annotations

import datetime
import math
from typing import Any, Final

from kernel_gateway.errors import InvalidRequest, NotFound
from kernel_gateway.faces.agent_engine import answers
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.engines import find_engine, list_page
from kernel_gateway.faces.agent_engine.names import read_child
from kernel_gateway.faces.agent_engine.requests import CreateSandbox, CreateSnapshot, Spec, read_duration
from kernel_gateway.faces.agent_engine.templates import find_template
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.faces.json_bodies import quote
from kernel_gateway.services.replays.session_copies import Wanted
from kernel_gateway.storage import agent_engine
from kernel_gateway.storage.agent_engine import ResourceRow
from sandcell.models.sessions import StartSession

LANGUAGES: Final = {
    "LANGUAGE_UNSPECIFIED": "python",
    "LANGUAGE_PYTHON": "python",
    "LANGUAGE_JAVASCRIPT": "javascript",
}
MACHINES: Final = {"MACHINE_CONFIG_UNSPECIFIED": 0, "MACHINE_CONFIG_VCPU4_RAM4GIB": 4_096}
"""The memory that each needs, in MB."""


async def create_sandbox(call: Call) -> dict[str, Any]:
    """The work goes on when the client leaves: what was started is then found in the list."""
    call.services.limits.take_invocation(call.principal)
    engine, body = await find_engine(call), call.body
    snapshot = await _read_snapshot(call, engine, body)
    content = await _read_content(call, engine, body, snapshot)
    most = call.services.settings.session_timeout_max_seconds
    timeout = read_ttl(call, body, min(call.services.settings.agent_engine_ttl_seconds, most), most)
    work = _start(call, engine, body, content, timeout=timeout, snapshot=snapshot)
    row = await call.services.background.carry_out(work, "create sandbox")
    return answers.describe_operation(row, "create")


async def get_sandbox(call: Call) -> dict[str, Any]:
    return answers.describe(await find_sandbox(call))


async def list_sandboxes(call: Call) -> dict[str, Any]:
    engine = await find_engine(call)
    return await list_page(call, "sandboxEnvironments", agent_engine.children_of(engine.id, "sandbox"), states=True)


async def delete_sandbox(call: Call) -> dict[str, Any]:
    """Its session is stopped first: what is answered as deleted is."""
    row = await find_sandbox(call)
    await call.services.sessions.stop(call.principal, row.session_id or "")
    await call.face.resources.delete(row)
    return answers.describe_operation(await find_sandbox(call, deleted=True), "delete")


async def pause_sandbox(call: Call) -> dict[str, Any]:
    """Its variables and files are kept; one that is paused stays so."""
    row = await find_sandbox(call)
    await call.services.hibernation.hibernate(call.principal, row.session_id or "")
    return answers.describe_operation(await find_sandbox(call), "pause")


async def resume_sandbox(call: Call) -> dict[str, Any]:
    row = await find_sandbox(call)
    await call.services.hibernation.resume(call.principal, row.session_id or "")
    return answers.describe_operation(await find_sandbox(call), "resume")


async def find_sandbox(call: Call, *, deleted: bool = False) -> ResourceRow:
    """The sandbox that the address names; raises NotFound."""
    row = await call.face.resources.find(call.principal, "sandbox", call.place, dict(call.ids), deleted=deleted)
    call.session_id = row.session_id
    return row


async def find_snapshot(call: Call, *, deleted: bool = False, ids: dict[str, str] | None = None) -> ResourceRow:
    """The snapshot that the address names, or these ids; raises NotFound."""
    asked = dict(call.ids) if ids is None else ids
    return await call.face.resources.find(call.principal, "snapshot", call.place, asked, deleted=deleted)


async def _start(
    call: Call,
    engine: ResourceRow,
    body: CreateSandbox,
    content: dict[str, Any],
    *,
    timeout: int,
    snapshot: ResourceRow | None,
) -> ResourceRow:
    """The row, then the session; a start that fails leaves nothing that is shown."""
    name = body.display_name or ""
    row = await call.face.resources.add(
        call.principal, "sandbox", answers.place_of(engine), engine_id=engine.id, display_name=name, content=content
    )
    call.session_id, call.ids = row.session_id, {**call.ids, "sandbox": row.id}
    wanted = StartSession(
        environment=call.face.environment, name=name, timeout_seconds=timeout, idle_timeout_seconds=timeout
    )
    try:
        if snapshot is None:
            await call.services.sessions.start(call.principal, wanted, row.session_id)
        else:
            await _start_from(call, snapshot, row, timeout)
    except BaseException:
        await call.face.resources.delete(row)
        raise
    try:
        return await find_sandbox(call)
    except NotFound:  # its engine was deleted meanwhile
        await call.services.sessions.stop(call.principal, row.session_id or "")
        raise


async def _start_from(call: Call, snapshot: ResourceRow, row: ResourceRow, timeout: int) -> None:
    """A copy of the snapshot's session, awake."""
    session_id = row.session_id or ""
    name = row.display_name or f"session-{session_id[:8]}"
    kept_seconds = float(call.services.settings.state_ttl_seconds)
    wanted = Wanted(session_id, name, kept_seconds=kept_seconds, lifetime_seconds=timeout)
    await call.services.session_copies.start(call.principal, snapshot.session_id or "", wanted)


async def _read_snapshot(call: Call, engine: ResourceRow, body: CreateSandbox) -> ResourceRow | None:
    """What it is to begin as; raises InvalidRequest, NotFound."""
    if not body.sandbox_environment_snapshot:
        return None
    snapshot_id = read_child(body.sandbox_environment_snapshot, answers.name_of(engine), "snapshot")
    return await find_snapshot(call, ids={"engine": engine.id, "snapshot": snapshot_id})


async def _read_content(
    call: Call, engine: ResourceRow, body: CreateSandbox, snapshot: ResourceRow | None
) -> dict[str, Any]:
    """What is kept of the request; raises NotOffered, InvalidRequest, NotFound for a template that is not there."""
    content: dict[str, Any] = {"spec": await _read_spec(call, body.spec or Spec())}
    if snapshot is not None:
        content["sandboxEnvironmentSnapshot"] = answers.name_of(snapshot)
        if body.spec is None:
            source = str(snapshot.content["sourceSandboxEnvironment"]).rpartition("/")[2]
            ids = {"engine": engine.id, "sandbox": source}
            row = await call.face.resources.find(call.principal, "sandbox", call.place, ids, deleted=True)
            content["spec"] = row.content["spec"]
    if body.owner:
        content["owner"] = body.owner
    if body.sandbox_environment_template:
        engine_name = answers.name_of(engine)
        template_id = read_child(body.sandbox_environment_template, engine_name, "template")
        template = await find_template(call, ids={"engine": engine.id, "template": template_id})
        content["sandboxEnvironmentTemplate"] = answers.name_of(template)
    return content


async def _read_spec(call: Call, spec: Spec) -> dict[str, Any]:
    if spec.computer_use_environment is not None or spec.use_gke_td:
        raise NotOffered("there is no sandbox with a screen here, nor one on GKE: use codeExecutionEnvironment")
    if spec.shell_environment is not None and spec.code_execution_environment is not None:
        raise InvalidRequest("spec: codeExecutionEnvironment or shellEnvironment, not both", field="spec")
    if spec.shell_environment is not None:
        return {"shellEnvironment": {}}
    code, kept = spec.code_execution_environment, {}
    if code is not None and code.code_language:
        if code.code_language not in LANGUAGES:
            raise InvalidRequest(f"codeLanguage: {quote(code.code_language)} is none", field="spec")
        kept["codeLanguage"] = code.code_language
    if code is not None and code.machine_config:
        await _require_machine(call, code.machine_config)
        kept["machineConfig"] = code.machine_config
    return {"codeExecutionEnvironment": kept}


async def _require_machine(call: Call, machine: str) -> None:
    """Sandboxes are as large as their environment: one that is smaller than was asked for is refused."""
    if machine not in MACHINES:
        raise InvalidRequest(f"machineConfig: {quote(machine)} is none", field="spec")
    there = (await call.services.environments.get(call.principal, call.face.environment)).memory_mb
    if there < MACHINES[machine]:
        raise InvalidRequest(
            f"machineConfig: sandboxes here have {there:,} MB of memory: leave it out, or let the operator give the"
            f" environment {call.face.environment} more",
            field="spec",
        )


def read_ttl(call: Call, body: CreateSandbox | CreateSnapshot, default: int, most: int) -> int:
    """Seconds that it lives; more than the service has is taken for the most, as Google does with a year."""
    if body.ttl is not None and body.expire_time is not None:
        raise InvalidRequest("ttl or expireTime, not both", field="ttl")
    if body.ttl is not None:
        asked = read_duration(body.ttl)
    elif body.expire_time is not None:
        asked = math.ceil(_read_time(body.expire_time) - call.services.clock.now())
    else:
        asked = default
    if asked < 1:
        raise InvalidRequest("ttl, expireTime: a sandbox or snapshot lives for a second at least", field="ttl")
    return min(asked, most)


def _read_time(text: str) -> float:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"expireTime: {quote(text)} is no time by RFC 3339", field="expireTime") from None
    if found.tzinfo is None:
        raise InvalidRequest("expireTime: say the time zone, as Z for UTC", field="expireTime")
    return found.timestamp()
