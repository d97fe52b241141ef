"""executeCode: the code becomes an execution of the session, and its outcome a result, with its figures saved."""

from __future__ import annotations

from kernel_gateway.faces.agentcore.tools.checks import find_language
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.rendering import render
from kernel_gateway.faces.agentcore.tools.results import Result
from sandcell.models.executions import Submission


async def execute_code(call: Invocation) -> Result:
    """Wait for its turn and its end; the same call sent again gets the same execution."""
    arguments, executions = call.arguments, call.services.executions
    language = find_language(arguments)
    submission = Submission(
        code=arguments.code or "",
        language=language,
        runtime=arguments.runtime,
        clear_context=bool(arguments.clear_context) and language == "python",
    )
    execution = await executions.submit(call.principal, call.session_id, submission, call.key or None, face="agentcore")
    execution = await executions.wait(call.principal, call.session_id, execution.id)
    return render(execution, await call.figures.save(call, execution.outputs))
