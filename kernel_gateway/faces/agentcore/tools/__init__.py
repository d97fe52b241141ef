"""The nine tools of AgentCore's InvokeCodeInterpreter: arguments checked, carried out by the services, answered.

`tool_of` refuses what makes no sense before anything is sent; after that whatever happens is a `Result`.
docs/agentcore-tools.md says what each tool answers, and where that was ours to choose.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agentcore.tools.arguments import Arguments, FileContent
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.results import (
    MOST_PAYLOAD_BYTES,
    ContentBlock,
    ResourceContent,
    Result,
    StructuredContent,
    failure,
)

__all__ = [
    "MOST_PAYLOAD_BYTES",
    "NAMES",
    "Arguments",
    "ContentBlock",
    "FileContent",
    "Invocation",
    "ResourceContent",
    "Result",
    "StructuredContent",
    "failure",
    "tool_of",
]

Tool = Callable[[Invocation], Awaitable[Result]]
NAMES = (
    "executeCode",
    "executeCommand",
    "readFiles",
    "listFiles",
    "removeFiles",
    "writeFiles",
    "startCommandExecution",
    "getTask",
    "stopTask",
)


def tool_of(name: str, arguments: Arguments) -> Tool:
    """The tool of this name, whose arguments are in order.

    Raises InvalidRequest, with `field` in its details, for an unknown name and for arguments that are missing or ill.
    """
    if name not in NAMES:
        raise InvalidRequest(f"name must be one of {', '.join(NAMES)}", field="name")
    raise NotImplementedError(arguments)
