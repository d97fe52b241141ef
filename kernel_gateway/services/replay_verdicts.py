"""From what a cell showed when it was recorded and when it ran again to what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kernel_gateway.replay_shapes import CellReplay, Replay
from kernel_gateway.services.replay_stage import Ran
from kernel_gateway.services.replay_steps import STOPPED, Step
from kernels.outputs import Output
from kernels.replay import CellVerdict, Verdict, judge
from kernels.transcript import trim_output

AS_RECORDED: Final = frozenset({"same", "new", "not_run"})
"""Verdicts that do not say that something came out otherwise."""
MOST_TOLD: Final = 50
MARKER_BYTES: Final = 64
"""More than the line takes that stands where text was cut."""


def verdict_of(step: Step, ran: Ran, caps: Sequence[int], second: Ran | None = None) -> CellReplay:
    """The verdict on a cell that ran. What is recorded is cut as what ran was: to each of `caps`, bytes, in turn."""
    recorded = None if step.recorded is None else [_cut(each, caps) for each in step.recorded]
    found = judge(
        recorded,
        ran.status,
        ran.outputs,
        None if second is None else second.outputs,
        step.missing_name(ran.outputs) if ran.status == "error" else None,
        recorded_status=step.status,
        recorded_at=step.started_at,
        replayed_at=ran.started_at,
    )
    return _cell(step, _with_exit(_stopped_again(found, step, ran), step, ran), ran)


def _cut(output: Output, caps: Sequence[int]) -> Output:
    """What was cut before is longer than the cap by the line that says so, and is left as it is."""
    for cap in caps:
        kept, cut = trim_output(output, cap)
        if cut > MARKER_BYTES:
            output = kept
    return output


def not_run(step: Step, why: str) -> CellReplay:
    """The verdict on a cell that did not run."""
    return CellReplay(step.number, step.id, Verdict.NOT_RUN.value, why)


def told(replay: Replay) -> str:
    """A replay that gave a session its state again, in Markdown: what it ran, and what came out otherwise."""
    odd = [each for each in replay.verdicts if each.verdict not in AS_RECORDED or (each.verdict == "not_run")]
    same = len(replay.verdicts) - len(odd)
    text = f"**The session `{replay.of}` was replayed:** {same:,} of its {replay.cells:,} cells came out as recorded."
    lines = [f"- cell {each.number}: {each.verdict.replace('_', ' ')}. {each.why}" for each in odd[:MOST_TOLD]]
    more = [f"- and {len(odd) - MOST_TOLD:,} more"] if len(odd) > MOST_TOLD else []
    return "\n".join([text, *lines, *more])


def _stopped_again(found: CellVerdict, step: Step, ran: Ran) -> CellVerdict:
    """What the clock or a person stopped runs on for ever if it is let: stopped after as long, it has done the same."""
    if ran.status == "timeout" and step.status in STOPPED and found.verdict is Verdict.TIMED_OUT:
        return CellVerdict(Verdict.SAME, f"it was stopped after as long as in the record, where it was {_how(step)}")
    return found


def _how(step: Step) -> str:
    return "interrupted" if step.status == "interrupted" else "out of time"


def _with_exit(found: CellVerdict, step: Step, ran: Ran) -> CellVerdict:
    if step.kind != "command" or found.verdict is not Verdict.SAME or step.exit_code in (None, ran.exit_code):
        return found
    return CellVerdict(Verdict.DIFFERENT, f"the command's exit code is {ran.exit_code}, and was {step.exit_code}")


def _cell(step: Step, found: CellVerdict, ran: Ran) -> CellReplay:
    why = found.why
    if ran.why and found.verdict is not Verdict.SAME:
        why = f"{why}; {ran.why}" if why else ran.why
    return CellReplay(
        number=step.number,
        id=step.id,
        verdict=found.verdict.value,
        why=why,
        diff=found.diff,
        status=ran.status,
        execution_id=ran.execution_id,
        seconds=ran.seconds,
    )
