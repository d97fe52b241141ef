"""Templates: a sandbox that is made from one is made from the service's environment, as every other is."""

from __future__ import annotations

from typing import Any, Final

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agent_engine import answers
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.engines import find_engine, list_page
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.faces.json_bodies import quote
from kernel_gateway.storage import agent_engine
from kernel_gateway.storage.agent_engine import ResourceRow

SHELL: Final = "DEFAULT_CONTAINER_CATEGORY_SHELL_SANDBOX"
COMPUTER_USE: Final = "DEFAULT_CONTAINER_CATEGORY_COMPUTER_USE"
UNSPECIFIED: Final = "DEFAULT_CONTAINER_CATEGORY_UNSPECIFIED"


async def create_template(call: Call) -> dict[str, Any]:
    """What a sandbox here cannot have is refused: another image, a way to the internet, a disk, a screen."""
    call.services.limits.take_invocation(call.principal)
    engine, body = await find_engine(call), call.body
    if body.custom_container_environment is not None:
        raise NotOffered("customContainerEnvironment: the operator builds images, with `sandcell environments`")
    egress = body.egress_control_config
    if egress is not None and (egress.internet_access or egress.network_attachment):
        raise NotOffered("egressControlConfig: these sandboxes have no network")
    if body.persistent_disk_config or body.ingress_control_config:
        raise NotOffered("persistentDiskConfig and ingressControlConfig are not offered here: leave them out")
    container = body.default_container_environment
    category = (container.default_container_category if container else None) or UNSPECIFIED
    if category == COMPUTER_USE:
        raise NotOffered("there is no sandbox with a screen here (computer use)")
    if category not in (SHELL, UNSPECIFIED):
        raise InvalidRequest(f"defaultContainerCategory: {quote(category)} is none", field="defaultContainerCategory")
    row = await call.face.resources.add(
        call.principal,
        "template",
        answers.place_of(engine),
        engine_id=engine.id,
        display_name=body.display_name or "",
        content={"defaultContainerEnvironment": {"defaultContainerCategory": category}},
    )
    return answers.describe_operation(row, "create")


async def get_template(call: Call) -> dict[str, Any]:
    return answers.describe(await find_template(call))


async def list_templates(call: Call) -> dict[str, Any]:
    engine = await find_engine(call)
    return await list_page(call, "sandboxEnvironmentTemplates", agent_engine.children_of(engine.id, "template"))


async def delete_template(call: Call) -> dict[str, Any]:
    """Sandboxes that were made from it stay."""
    await call.face.resources.delete(await find_template(call))
    return answers.describe_operation(await find_template(call, deleted=True), "delete")


async def find_template(call: Call, *, deleted: bool = False, ids: dict[str, str] | None = None) -> ResourceRow:
    """The template that the address names, or these ids; raises NotFound."""
    asked = dict(call.ids) if ids is None else ids
    return await call.face.resources.find(call.principal, "template", call.place, asked, deleted=deleted)
