"""A session as the code executor of AutoGen's agents and tools. Needs `autogen-core`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sandcell.tools.blocking import BlockingToolbox
from sandcell.tools.contents import ToolResult, make_text
from sandcell.tools.model_calls import import_framework

PYTHON: Final = ("python", "py")
SHELLS: Final = ("bash", "sh", "shell")
"""Languages of code blocks, as AutoGen's own executors name them."""


def make_executor(tools: BlockingToolbox) -> Any:
    """A `CodeExecutor` whose code blocks run in the session `default`; the toolbox stays the caller's to close."""
    module = import_framework("autogen_core.code_executor", "autogen-core")
    base: Any = module.CodeExecutor

    class SandcellExecutor(base):  # type: ignore[misc]
        """Runs code blocks one after the other, up to the first that fails."""

        async def execute_code_blocks(self, code_blocks: list[Any], cancellation_token: Any) -> Any:
            """Called by AutoGen; cancelling the token stops the code that runs."""
            texts, failed = list[str](), False
            for block in code_blocks:
                work = asyncio.ensure_future(_run_block(tools, block))
                cancellation_token.link_future(work)
                result = await work
                texts.append(result.text)
                failed = result.is_error
                if failed:
                    break
            return module.CodeResult(exit_code=int(failed), output="\n".join(texts))

        async def start(self) -> None:
            """Nothing: the session starts at its first use."""

        async def stop(self) -> None:
            """Nothing: the session stops with the toolbox."""

        async def restart(self) -> None:
            """Called when the agent is reset: variables go, files stay."""
            await tools.call_async("restart", {})

    return SandcellExecutor()


async def _run_block(tools: BlockingToolbox, block: Any) -> ToolResult:
    language = block.language.lower()
    if language in PYTHON:
        return await tools.call_async("run_python", {"code": block.code})
    if language in SHELLS:
        return await tools.call_async("run_shell", {"command": block.code})
    known = ", ".join((*PYTHON, *SHELLS))
    return make_text(f"code in {block.language!r} cannot be run here; languages are {known}", is_error=True)
