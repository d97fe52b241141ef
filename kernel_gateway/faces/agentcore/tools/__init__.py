"""The nine tools of AgentCore's InvokeCodeInterpreter: arguments checked, carried out by the services, answered.

`find_tool` refuses what makes no sense; a tool that cannot begin raises, and whatever happens then is a `Result`.
docs/reference/agentcore-tools.md says what each tool answers, and where that was ours to choose.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from kernel_gateway.errors import (
    GatewayError,
    InvalidRequest,
    LimitReached,
    SessionTerminated,
    ShuttingDown,
    translate,
)
from kernel_gateway.faces.agentcore.tools.arguments import Arguments, FileContent
from kernel_gateway.faces.agentcore.tools.checks import CHECKS
from kernel_gateway.faces.agentcore.tools.code import execute_code
from kernel_gateway.faces.agentcore.tools.commands import execute_command, get_task, start_command, stop_task
from kernel_gateway.faces.agentcore.tools.figures import Figures
from kernel_gateway.faces.agentcore.tools.files import list_files, remove_files, write_files
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.reading import read_files
from kernel_gateway.faces.agentcore.tools.results import (
    MOST_PAYLOAD_BYTES,
    ContentBlock,
    ResourceContent,
    Result,
    StructuredContent,
    describe_failure,
    fit,
)

__all__ = [
    "MOST_PAYLOAD_BYTES",
    "TOOLS",
    "Arguments",
    "ContentBlock",
    "Figures",
    "FileContent",
    "Invocation",
    "ResourceContent",
    "Result",
    "StructuredContent",
    "describe_failure",
    "find_tool",
]

Tool = Callable[[Invocation], Awaitable[Result]]
TOOLS: dict[str, Tool] = {
    "executeCode": execute_code,
    "executeCommand": execute_command,
    "readFiles": read_files,
    "listFiles": list_files,
    "removeFiles": remove_files,
    "writeFiles": write_files,
    "startCommandExecution": start_command,
    "getTask": get_task,
    "stopTask": stop_task,
}
"""By the model's names; callers take them from `find_tool`."""
NOT_BEGUN = (LimitReached, SessionTerminated, ShuttingDown)
"""Errors that say that a tool could not begin, or that its session is no longer there: no result of the tool."""
log = structlog.get_logger(__name__)


def find_tool(name: str, arguments: Arguments) -> Tool:
    """The tool of this name, whose arguments are in order.

    Raises InvalidRequest, with `field` in its details, for an unknown name and for arguments that are missing or ill.
    The tool raises `NOT_BEGUN`, and nothing else.
    """
    if name not in TOOLS:
        raise InvalidRequest(f"name must be one of {', '.join(TOOLS)}", field="name")
    CHECKS[name](arguments)

    async def tool(call: Invocation) -> Result:
        try:
            return fit(await TOOLS[name](call))
        except NOT_BEGUN:
            raise
        except Exception as error:
            if not isinstance(error, GatewayError):
                log.exception("tool_failed", tool=name, session=call.session_id)
            return describe_failure(translate(error))

    return tool
