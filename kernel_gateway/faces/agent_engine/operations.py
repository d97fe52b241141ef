"""Long-running operations: what their resources say of them, which is that they are done."""

from __future__ import annotations

from typing import Any

from kernel_gateway.faces.agent_engine import answers
from kernel_gateway.faces.agent_engine.answers import Verb
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.engines import find_engine
from kernel_gateway.faces.agent_engine.names import make_missing_error
from kernel_gateway.faces.agent_engine.sandboxes import find_sandbox, find_snapshot
from kernel_gateway.faces.agent_engine.templates import find_template
from kernel_gateway.storage.agent_engine import ResourceRow


async def get_engine_operation(call: Call) -> dict[str, Any]:
    return _describe(call, await find_engine(call, deleted=True))


async def get_sandbox_operation(call: Call) -> dict[str, Any]:
    return _describe(call, await find_sandbox(call, deleted=True))


async def get_snapshot_operation(call: Call) -> dict[str, Any]:
    return _describe(call, await find_snapshot(call, deleted=True))


async def get_template_operation(call: Call) -> dict[str, Any]:
    return _describe(call, await find_template(call, deleted=True))


def _describe(call: Call, row: ResourceRow) -> dict[str, Any]:
    """The operation that the address names; raises NotFound."""
    asked = call.ids["operation"]
    verbs: tuple[Verb, ...] = ("create", "delete") if row.deleted is not None else ("create", "pause", "resume")
    for verb in verbs:
        if verb == asked:
            return answers.describe_operation(row, verb)
    raise make_missing_error(f"{answers.name_of(row)}/operations/{asked}")
