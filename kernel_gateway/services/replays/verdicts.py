"""From what a cell showed when it was recorded and when it ran again to what is said of it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kernel_gateway.services.replays.stage import CellOutcome
from kernel_gateway.services.replays.steps import STOPPED, Step
from kernels.execution.outputs import Output
from kernels.notebook.transcript import trim_output
from kernels.replay import CellVerdict, Clock, Showing, Verdict, judge, text_of
from sandcell.models.replays import CellReplay, Replay

AS_RECORDED: Final = frozenset({"same", "new", "not_run"})
"""Verdicts that do not say that something came out otherwise."""
MOST_TOLD: Final = 50
CARRIED: Final = (
    "In the record it ran on a new kernel, which had the variables of the one before: here the same one goes on."
)
MARKER_BYTES: Final = 64
"""More than the line takes that stands where text was cut."""


def verdict_of(
    step: Step,
    ran: CellOutcome,
    caps: Sequence[int],
    second: CellOutcome | None = None,
    *,
    began: Sequence[str | None] = (None, None, None),
    strict: bool = False,
) -> CellReplay:
    """The verdict on a cell that ran. What is recorded is cut as what ran was: to each of `caps`, bytes, in turn.

    `began`: when the recorded run, the first replay and the second one began.
    """
    stopped = ran.status == "timeout" and step.status in STOPPED  # by a person or the clock: now after as long
    found = judge(
        _find_recorded(step, caps, began[0]),
        ran.status,
        _showing(ran, began[1]),
        None if second is None else _showing(second, began[2]),
        step.missing_name(ran.outputs) if ran.status == "error" else None,
        recorded_status=ran.status if stopped else step.status,
        second_status=None if second is None else second.status,
        strict=strict,
    )
    if stopped and step.status != ran.status and found.verdict is Verdict.SAME:
        found = replace(
            found, why=f"It was stopped after as long as in the record, where it was interrupted. {found.why}"
        )
    return _cell(step, _with_exit(found, step, ran), ran)


def _find_recorded(step: Step, caps: Sequence[int], began: str | None) -> Showing | None:
    if step.recorded is None:
        return None
    digests = {**_digests(step.recorded, caps), **step.digests}
    cut = [_cut(each, caps) for each in step.recorded]
    return Showing(cut, Clock.of(began, step.started_at, step.ended_at), digests)


def _digests(recorded: Sequence[Output], caps: Sequence[int]) -> dict[str, str]:
    """The SHA-256 of streams that are to be cut here and are in full in the record, as those of others are."""
    found = {}
    for name in ("stdout", "stderr"):
        texts = [text_of(each.get("text")) for each in recorded if each.get("name") == name]
        data = "".join(texts).encode("utf-8", "replace")
        if len(data) > min(caps) + MARKER_BYTES:
            found[name] = hashlib.sha256(data).hexdigest()
    return found


def _showing(ran: CellOutcome, began: str | None) -> Showing:
    return Showing(ran.outputs, Clock.of(began, ran.started_at, ran.ended_at), ran.digests)


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


def summarize(replay: Replay) -> str:
    """A replay that gave a session its state again, in Markdown: what it ran, and what came out otherwise."""
    odd = [each for each in replay.verdicts if each.verdict not in AS_RECORDED or (each.verdict == "not_run")]
    same = len(replay.verdicts) - len(odd)
    text = f"**The session `{replay.of}` was replayed:** {same:,} of its {replay.cells:,} cells came out as recorded."
    lines = [f"- cell {each.number}: {each.verdict.replace('_', ' ')}. {each.why}" for each in odd[:MOST_TOLD]]
    more = [f"- and {len(odd) - MOST_TOLD:,} more"] if len(odd) > MOST_TOLD else []
    return "\n".join([text, *lines, *more])


def _with_exit(found: CellVerdict, step: Step, ran: CellOutcome) -> CellVerdict:
    if step.kind != "command" or found.verdict is not Verdict.SAME or step.exit_code in (None, ran.exit_code):
        return found
    return CellVerdict(Verdict.DIFFERENT, f"The command's exit code is {ran.exit_code}, and was {step.exit_code}.")


def add_sentence(why: str, more: str) -> str:
    """What is said of a cell already, and one sentence more; full stops and its first letter may be missing."""
    sentences = [each if each.endswith((".", "!", "?")) else f"{each}." for each in (why, more) if each]
    sentences[-1] = f"{sentences[-1][0].upper()}{sentences[-1][1:]}"
    return " ".join(sentences)


def _cell(step: Step, found: CellVerdict, ran: CellOutcome) -> CellReplay:
    why = found.why
    if ran.why and found.verdict is not Verdict.SAME:
        why = add_sentence(why, ran.why)
    if step.carried:
        why = add_sentence(why, CARRIED)
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
