"""An execution as a result: text blocks of what it printed, showed and failed with, blocks of its images. Pure.

docs/reference/agentcore-tools.md describes the shape; images and values of last expressions are more than AWS sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kernel_gateway.faces.agentcore.tools.results import ContentBlock, Result, StructuredContent, make_text_block
from kernel_gateway.faces.agentcore.tools.terminal import render_code_output
from kernel_gateway.faces.images import find_image
from sandcell.models.executions import Execution

EXIT_CODES = {"ok": 0, "error": 1, "rejected": 1, "timeout": 124, "interrupted": 130, "died": 137}


def render(execution: Execution, saved: Mapping[int, str] | None = None) -> Result:
    """stdout, then what was displayed in its order, then stderr with the error; without any, one empty text.

    In `structured_content`, stdout also has the texts of what was displayed, as an interactive Python prints them. By
    the place of an output `saved` has the text that stands for its image.
    """
    printed, failed = render_code_output(execution.stdout), _describe_failure(execution)
    instead = saved or {}
    shown = [
        block
        for number, output in enumerate(execution.outputs)
        for block in (_make_blocks(instead[number]) if number in instead else _render_display(output))
    ]
    texts = [block.text for block in shown if isinstance(block.text, str)]
    blocks = [*_make_blocks(printed), *shown, *_make_blocks(failed)]
    return Result(
        content=blocks or [make_text_block("")],
        is_error=execution.status != "ok",
        structured_content=StructuredContent(
            stdout="\n".join(filter(None, [printed, *texts])),
            stderr=failed,
            exit_code=_find_exit_code(execution),
            execution_time=_measure_seconds(execution),
        ),
    )


def _make_blocks(text: str) -> list[ContentBlock]:
    return [make_text_block(text)] if text else []


def _render_display(output: dict[str, Any]) -> Iterator[ContentBlock]:
    """The block of a display or a result: its image, else its plain text."""
    data = output.get("data")
    if output.get("output_type") not in ("display_data", "execute_result") or not isinstance(data, dict):
        return
    image = find_image(data)
    if image is not None:
        yield ContentBlock("image", mime_type=image[0], data=image[1])
        return
    text = data.get("text/plain")
    if isinstance(text, str) and text:
        yield make_text_block(render_code_output(text))


def _describe_failure(execution: Execution) -> str:
    """stderr, the traceback without colours, and what became of the kernel."""
    return "\n".join(
        filter(None, [render_code_output(execution.stderr), _join_traceback(execution), _describe_end(execution)])
    )


def _join_traceback(execution: Execution) -> str:
    error = execution.error
    if error is None:
        return ""
    return render_code_output("\n".join(error.traceback) or f"{error.name}: {error.value}")


def _describe_end(execution: Execution) -> str:
    """A sentence for an end that the code did not choose."""
    death = execution.death
    if execution.status == "timeout":
        rest = f" {death.detail[:1].upper()}{death.detail[1:]}." if death is not None else " Its variables are kept."
        return f"The code ran longer than it may and was stopped.{rest} Start long work with startCommandExecution."
    if execution.status == "interrupted":
        return "The code was interrupted."
    if death is not None:
        return f"The code ended with its kernel: {death.detail}. Files are kept; run what made missing variables again."
    return ""


def _find_exit_code(execution: Execution) -> int:
    death = execution.death
    if execution.status == "died" and death is not None and death.exit_code is not None:
        return death.exit_code
    return EXIT_CODES.get(execution.status, 1)


def _measure_seconds(execution: Execution) -> float:
    """How long the code ran."""
    if execution.started_at is None or execution.ended_at is None:
        return 0.0
    ended, started = datetime.fromisoformat(execution.ended_at), datetime.fromisoformat(execution.started_at)
    return max((ended - started).total_seconds(), 0.0)
