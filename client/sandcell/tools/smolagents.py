"""A session as the Python executor of smolagents' `CodeAgent`. Needs `smolagents`."""

from __future__ import annotations

from typing import Any

from sandcell.models.executions import Execution
from sandcell.result import text_of
from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.model_calls import import_framework
from sandcell.tools.rendering import clean


def make_executor(tools: BlockingToolbox) -> Any:
    """A `RemotePythonExecutor` for a `CodeAgent`: its code and its tools run in the session `default`.

    Values come back as JSON alone: nothing that a sandbox wrote is unpickled here.
    """
    module = import_framework("smolagents.remote_executors", "smolagents")
    monitoring = import_framework("smolagents.monitoring", "smolagents")
    base: Any = module.RemotePythonExecutor

    class SandcellExecutor(base):  # type: ignore[misc]
        """Runs each piece of code that the agent writes as an execution of the session."""

        def run_code_raise_errors(self, code: str) -> Any:
            """Called by smolagents with the code of a step; an exception in it is one that the model reads."""
            execution = tools.execute(code)
            logs = _read_logs(execution)
            error = execution.error
            if error is not None and error.name == base.FINAL_ANSWER_EXCEPTION:
                answer = self._deserialize_final_answer(error.value, self.allow_pickle)
                return module.CodeOutput(output=answer, logs=logs, is_final_answer=True)
            if execution.status != "ok":
                raise module.AgentError(f"{logs}\n{_describe_failure(execution)}", self.logger)
            return module.CodeOutput(output=_read_value(execution), logs=logs, is_final_answer=False)

    return SandcellExecutor([], monitoring.AgentLogger(level=monitoring.LogLevel.ERROR))


def _read_logs(execution: Execution) -> str:
    return clean(execution.stdout).removesuffix("\n")


def _read_value(execution: Execution) -> str | None:
    """The text of the last expression's value."""
    results = [each for each in execution.outputs if each.get("output_type") == "execute_result"]
    return text_of(results[-1]).removesuffix("\n") if results else None


def _describe_failure(execution: Execution) -> str:
    if execution.error is not None:
        return "\n".join(execution.error.traceback) or f"{execution.error.name}: {execution.error.value}"
    return execution.death.detail if execution.death is not None else f"the code ended as {execution.status}"
