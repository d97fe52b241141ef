"""Sessions as the code executor of an agent of Google's Agent Development Kit. Needs `google-adk`."""

from __future__ import annotations

import threading
from typing import Any

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import ToolResult
from sandcell.tools.definitions import DEFAULT_SESSION
from sandcell.tools.model_calls import import_framework


def make_executor(tools: BlockingToolbox) -> Any:
    """A stateful `BaseCodeExecutor`: each session of the kit's has a session of its own, with its own variables."""
    base: Any = import_framework("google.adk.code_executors.base_code_executor", "google-adk").BaseCodeExecutor
    sessions = _Sessions(tools)

    class SandcellExecutor(base):  # type: ignore[misc]
        """Runs the code blocks that the model writes."""

        def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
            """Called by the kit, in a thread or on its event loop."""
            return _execute(tools, sessions, code_execution_input)

    return SandcellExecutor(stateful=True)


class _Sessions:
    """The sessions that were started under the kit's ids of execution."""

    def __init__(self, tools: BlockingToolbox) -> None:
        self._tools = tools
        self._lock = threading.Lock()
        self._started = {DEFAULT_SESSION}

    def start(self, name: str) -> ToolResult | None:
        """Start a session under a name, once; what is wrong when it does not start."""
        with self._lock:
            if name in self._started:
                return None
            result = self._tools.call("start_session", {"session": name})
            if result.is_error:
                return result
            self._started.add(name)
            return None


def _execute(tools: BlockingToolbox, sessions: _Sessions, asked: Any) -> Any:
    name = asked.execution_id or DEFAULT_SESSION
    result = sessions.start(name)
    if result is None:
        result = _write_files(tools, name, asked.input_files)
    if result is None:
        result = tools.call("run_python", {"code": asked.code, "session": name})
    utils = import_framework("google.adk.code_executors.code_execution_utils", "google-adk")
    pictures = [
        utils.File(
            name=f"picture-{number}.{each.media_type.partition('/')[2]}", content=each.data, mime_type=each.media_type
        )
        for number, each in enumerate(result.images, 1)
    ]
    # What is in `stderr` is a failure to the kit: warnings of code that worked stay in the text.
    if result.is_error:
        return utils.CodeExecutionResult(stderr=result.text, output_files=pictures)
    return utils.CodeExecutionResult(stdout=result.text, output_files=pictures)


def _write_files(tools: BlockingToolbox, session: str, files: list[Any]) -> ToolResult | None:
    """Write the files that come with the code; what is wrong with the first that is refused."""
    for file in files:
        content = file.content if isinstance(file.content, str) else file.content.decode()  # base64, by the kit
        result = tools.call(
            "write_file", {"path": file.name, "content": content, "encoding": "base64", "session": session}
        )
        if result.is_error:
            return result
    return None
