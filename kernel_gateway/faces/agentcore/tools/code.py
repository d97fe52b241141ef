"""executeCode: the code becomes an execution of the session, and its outcome a result."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, cast

from kernel_gateway.errors import QueueFull
from kernel_gateway.faces.agentcore.tools.checks import find_language
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.rendering import render
from kernel_gateway.faces.agentcore.tools.results import Result
from sandcell.models.executions import Execution, Language, LanguageRuntime, Submission

PLACE_SECONDS: Final = 0.1
"""Between two looks for a place in a session's queue."""


async def execute_code(call: Invocation) -> Result:
    """Wait for its turn and its end; the same call sent again gets the same execution."""
    arguments, executions = call.arguments, call.services.executions
    language = cast("Language", find_language(arguments))
    submission = Submission(
        code=arguments.code or "",
        language=language,
        runtime=cast("LanguageRuntime | None", arguments.runtime),
        clear_context=bool(arguments.clear_context) and language == "python",
    )
    execution = await _submit(call, submission)
    return render(await executions.wait(call.principal, call.session_id, execution.id))


async def _submit(call: Invocation, submission: Submission) -> Execution:
    """Store and queue the code, when it has a place.

    There was one before the answer's head went out. If another call has taken it since, this one can no longer be
    throttled, which clients would try again: it waits for the next place.
    """
    while True:
        with suppress(QueueFull):
            return await call.services.executions.submit(
                call.principal, call.session_id, submission, call.key or None, face="agentcore"
            )
        await asyncio.sleep(PLACE_SECONDS)
