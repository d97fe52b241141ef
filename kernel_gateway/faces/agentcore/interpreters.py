"""The control plane: code interpreters are environments, custom ones those that principals made. Translates only."""

from __future__ import annotations

import contextlib
from typing import Final

from msgspec import UNSET

from kernel_gateway.errors import Forbidden, UnknownEnvironment
from kernel_gateway.faces.agentcore import answers, unsupported
from kernel_gateway.faces.agentcore.calls import Call
from kernel_gateway.faces.agentcore.identifiers import CUSTOM_ID, SYSTEM, make_unknown_interpreter_error
from kernel_gateway.faces.agentcore.pages import name_next_token
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Response
from kernel_gateway.services.client_tokens import compute_digest
from sandcell.models.environments import ChangeTags, CreateEnvironment, EnvironmentInfo

PAGE: Final = 10
FIRST_CUSTOM: Final = "custom"
"""The token of the page that follows the system's interpreter."""


async def create_interpreter(call: Call) -> Response:
    """A new environment, of the image that the system's interpreter has."""
    call.services.limits.take_invocation(call.principal)
    body = call.body
    mode = body.network_configuration.network_mode
    unsupported.refuse(body.certificates, body.filesystem_configurations, mode)
    wanted = CreateEnvironment(
        name=body.name,
        image=call.face.identifiers.system,
        description=body.description or "",
        network=mode,
        role_arn=body.execution_role_arn or "",
        tags=body.tags or {},
    )

    async def work() -> bytes:
        info = await call.services.environments.create(call.principal, wanted)
        return encode(answers.describe_creation(info, call.face.identifiers, call.region))

    digest = compute_digest(wanted)
    return Response(
        await call.face.tokens.once(call.principal, "CreateCodeInterpreter", body.client_token, digest, work)
    )


async def get_interpreter(call: Call) -> answers.Interpreter:
    return answers.describe_interpreter(await _find_interpreter(call), call.face.identifiers, call.region)


async def list_interpreters(call: Call) -> answers.ListedInterpreters:
    """The system's interpreter first, then the caller's own, oldest first."""
    query, limit = call.outside, call.outside.max_results or PAGE
    items, token = [], query.next_token
    if query.type != "CUSTOM" and token is None:
        with contextlib.suppress(UnknownEnvironment):  # it is listed once it is built
            items.append(await call.services.environments.get(call.principal, call.face.identifiers.system))
    following = None
    if query.type != "SYSTEM":
        cursor = None if token == FIRST_CUSTOM else token
        room = limit - len(items)
        with name_next_token():
            page = await call.services.environments.list(call.principal, max(room, 1), cursor, "made")
        items += page.items[:room]
        following = page.next_cursor if room else FIRST_CUSTOM if page.items else None
    summaries = [answers.summarize_interpreter(info, call.face.identifiers, call.region) for info in items]
    return answers.ListedInterpreters(code_interpreter_summaries=summaries, next_token=following or UNSET)


async def delete_interpreter(call: Call) -> Response:
    """Refused while sessions of it live."""
    call.services.limits.take_invocation(call.principal)

    async def work() -> bytes:
        info = await _find_interpreter(call)
        if info.kind != "made":
            raise Forbidden(f"{SYSTEM} is everybody's and cannot be deleted")
        return encode(answers.describe_deletion(await call.services.environments.delete(call.principal, info.id)))

    digest, token = compute_digest(call.outside.code_interpreter_id), call.outside.client_token
    return Response(await call.face.tokens.once(call.principal, "DeleteCodeInterpreter", token, digest, work))


async def tag_resource(call: Call) -> None:
    await call.services.environments.change_tags(call.principal, _find_tagged(call), ChangeTags(set=call.body.tags))


async def untag_resource(call: Call) -> None:
    await call.services.environments.change_tags(
        call.principal, _find_tagged(call), ChangeTags(remove=call.outside.tag_keys)
    )


async def list_tags(call: Call) -> answers.ListedTags:
    info = await call.services.environments.get(call.principal, _find_tagged(call))
    return answers.ListedTags(tags=info.tags)


async def _find_interpreter(call: Call) -> EnvironmentInfo:
    """The code interpreter that is named, by its id or its ARN."""
    identifier, identifiers = call.outside.code_interpreter_id, call.face.identifiers
    environment = identifiers.environment(identifier)
    if environment != identifiers.system and not CUSTOM_ID.fullmatch(environment):
        raise make_unknown_interpreter_error(identifier)
    return await call.services.environments.get(call.principal, environment)


def _find_tagged(call: Call) -> str:
    """The id of the custom code interpreter whose tags are meant."""
    return call.face.identifiers.of_resource(call.outside.resource_arn)
