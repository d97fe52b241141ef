"""From a notebook's cells to what a replay does with each of them. Pure.

Cells of our own records say more than their source: that they were shell commands, JavaScript, that they asked for a
blank kernel, on which generation of the kernel they ran, how they ended. Of a foreign cell only its source and outputs
are known.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.services.sessions.session_variables import RESTORED
from kernel_gateway.storage.executions import WrittenFiles
from kernel_gateway.storage.sessions import Undone
from kernels.errors import InvalidNotebook
from kernels.execution.outputs import Output
from kernels.languages import BUILT_IN, PYTHON, RUNTIMES
from kernels.notebook.notebook_file import CodeCell, NotebookFile, read_outputs
from kernels.notebook.revised import find_written_outputs, revisers
from kernels.replay import missing_name
from workspace_sync.workspaces.file_info import FileInfo

BASH: Final = "%%bash\n"
UNRUN: Final = frozenset({"queued", "running", "rejected"})
STOPPED: Final = frozenset({"timeout", "interrupted"})
"""How executions end that the clock or a person stopped: they are stopped again, after as long."""
TICK_SECONDS: Final = time.clock_getres(5)
"""How old the time of a file mostly is when it is written: that of the last tick, of Linux's CLOCK_REALTIME_COARSE."""
LAG_SECONDS: Final = 1.0
"""How old it may be: ticks come late on a busy host. Measured: 6 ms on an idle one with 4 ms from tick to tick, 10."""
SHORTEST_SECONDS: Final = 1.0
LANGUAGE_OF: Final = {"deno": "javascript", "nodejs": "javascript"}


@dataclass(frozen=True)
class Step:
    """One cell to run. `number` is its place in the notebook from 1; `skipped` says why it is not to be run.

    `recorded` is None when the notebook does not say what the cell shows. `timeout_seconds` is None when the replay's
    own counts. `digests` are of streams that are cut, by their names. `together` are the sources that ran on the same
    kernel, of which this is number `place`. `as_written` is what it showed before the cells `revised_by` updated
    displays of it; None when none did, or when that is not on record. `face` is the protocol it came through. An empty
    `runtime` is the one that the session has for the language.
    `recorded_generation` is that of the kernel it ran on, `generation` as which that one counts: one that had its
    state or its variables of one before counts as that. `carried`: it is the first on a kernel that had the variables.
    """

    number: int
    id: str
    kind: Literal["code", "command", "task"]
    source: str
    recorded: list[Output] | None
    status: str | None = None
    language: str = "python"
    runtime: str = "python"
    clear_context: bool = False
    generation: int | None = None
    recorded_generation: int | None = None
    carried: bool = False
    exit_code: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    digests: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    skipped: str = ""
    ours: bool = False
    face: str | None = None
    as_written: list[Output] | None = None
    revised_by: frozenset[str] = frozenset()
    place: int = 0
    together: list[str] = field(default_factory=list)

    def missing_name(self, outputs: Sequence[Output]) -> str | None:
        """The name for want of which it failed, when no recorded cell of its kernel defines it."""
        return missing_name(outputs, self.together, self.place)


def steps_of(notebook: NotebookFile, undone: Sequence[Undone] = ()) -> list[Step]:
    """A step for each code cell, in order; those that were undone are not to be run."""
    cells = notebook.document["cells"]
    steps = [_step(cell, cells[cell.index]["metadata"].get("language"), notebook.language) for cell in notebook.cells]
    return _put_together(_count(_leave_out(steps, undone), undone, _find_restored(cells)))


def _leave_out(steps: list[Step], undone: Sequence[Undone]) -> list[Step]:
    """Skip what was undone."""
    places = {step.id: place for place, step in enumerate(steps)}
    for each in undone:
        after, last = places.get(each.after) if each.after else -1, places.get(each.last)
        if after is not None and last is not None:
            for place in range(after + 1, last + 1):
                steps[place] = replace(steps[place], skipped=steps[place].skipped or UNDONE)
    return steps


def _find_restored(cells: Iterable[Mapping[str, Any]]) -> set[int]:
    """The kernels that had the variables of the one before: the session was woken, or they were kept past a death."""
    found = set()
    for cell in cells:
        about = cell["metadata"].get("sandcell")
        if isinstance(about, dict) and about.get("kind") == "variables":
            generation = _whole(about.get("generation"))
            if generation is not None and str(cell.get("source", "")).startswith(RESTORED):
                found.add(generation)
    return found


def _count(steps: list[Step], undone: Sequence[Undone], restored: Iterable[int]) -> list[Step]:
    """The kernel that has a state again counts as the one that had it first, and so one with variables restored."""
    ran_on = {step.id: step.recorded_generation for step in steps if step.recorded_generation is not None}
    first = ran_on[""] = min(ran_on.values(), default=0)  # before the first of them
    again = {each.generation: ran_on[each.after] for each in undone if each.after in ran_on and each.last in ran_on}
    carried = {each for each in restored if each > first}
    since, less = list[int](), list[int]()

    def count(generation: int) -> int:
        place = bisect_right(since, generation)
        return generation - less[place - 1] if place else generation

    for generation in sorted(again.keys() | carried):
        less.append(generation - count(again.get(generation, generation - 1)))
        since.append(generation)
    counted = list[Step]()
    for step in steps:
        kernel = step.recorded_generation
        if kernel is None:
            counted.append(step)
            continue
        first_on_it = kernel in carried - again.keys() and not step.skipped
        counted.append(replace(step, generation=count(kernel), carried=first_on_it))
        carried -= {kernel} if first_on_it else set()
    return counted


def count_generation(generation: int, steps: Sequence[Step], undone: Sequence[Undone]) -> int:
    """As which generation a kernel of the record counts in these steps, of which some were undone."""
    counted = {step.id: step.generation for step in steps}
    counted[""] = min((each for each in counted.values() if each is not None), default=None)
    ran = [(step.recorded_generation, step.generation) for step in steps]
    again = [(each.generation, counted.get(each.after)) for each in undone]
    known = {kernel: count for kernel, count in [*ran, *again] if kernel is not None and count is not None}
    since = max((each for each in known if each <= generation), default=generation)
    return known.get(since, since) + generation - since


def stands_after(generation: int, steps: Sequence[Step], undone: Sequence[Undone]) -> bool:
    """Whether the kernel of this generation had, or had again, what the last of these steps left."""
    last = next((step.generation for step in reversed(steps) if not step.skipped), None)
    return last is None or count_generation(generation, steps, undone) == last


def _put_together(steps: Iterable[Step]) -> list[Step]:
    """Tell each of the sources that ran on the same kernel."""
    made: list[Step] = []
    together: list[str] = []
    generation: int | None = None
    for step in steps:
        if step.skipped != UNDONE:
            if step.clear_context or (made and step.generation != generation):
                together = []
            generation = step.generation
        made.append(replace(step, place=len(together), together=together))
        together.append(step.source if step.kind == "code" and step.runtime == "python" and not step.skipped else "")
    return made


def last_step(steps: Sequence[Step], until: int | str | None, *, field: str = "until") -> int:
    """How many steps there are to the one that is named by its id or number, it included.

    Raises InvalidRequest, which names the `field` of the request.
    """
    if until is None:
        return len(steps)
    for place, step in enumerate(steps, 1):
        if step.id == until:
            return place
    number = int(until) if isinstance(until, int) or (until.isascii() and until.isdigit() and len(until) < 10) else None
    for place, step in enumerate(steps, 1):
        if step.number == number:
            return place
    named = f"cell {number}" if number is not None else f"cell with the id {str(until)[:64]!a}"
    numbers = ", ".join(str(step.number) for step in steps[:20]) + (", ..." if len(steps) > 20 else "")
    raise InvalidRequest(
        f"the notebook has no code {named}: its code cells are {numbers or 'none'} (numbers count all cells from 1)",
        field=field,
    )


def is_unchanged_since(moment: float | None, later: WrittenFiles, file: FileInfo) -> bool:
    """Whether a file is the one that was there then, and not one that `later` cells left.

    Its time alone does not tell: it may be of the tick before, and programs set it, as those that unpack archives do.
    """
    return moment is None or (file.modified <= moment - TICK_SECONDS and file.path not in later.paths)


def is_of_pause(pause: tuple[float, float], later: WrittenFiles, file: FileInfo) -> bool:
    """Whether a file was changed from outside between two cells, and not by the second or `later` ones.

    What a cell writes first may have a time before its start, and what is uploaded just before it hardly an older one.
    """
    ended, started = pause
    if not ended < file.modified <= started:
        return False
    if file.modified <= started - LAG_SECONDS:
        return True
    return file.path not in later.paths if later.complete else file.modified <= started - TICK_SECONDS


def _step(cell: CodeCell, written_in: Any, otherwise: str) -> Step:
    about = cell.about
    status = _text(about.get("status"))
    command = about.get("kind") == "command" and cell.source.startswith(BASH)
    ours = isinstance(about.get("execution_id"), str)
    said = _text(about.get("runtime")) or (PYTHON if ours or otherwise == PYTHON else None)
    language, runtime = (otherwise, "") if said is None else _find_runtime(said, _text(written_in))
    started = _text(about.get("started_at"))
    ran = status not in UNRUN if status is not None else bool(cell.outputs or cell.execution_count is not None)
    shown = {"outputs": cell.outputs, "metadata": {"sandcell": about}}
    by = revisers(shown)
    return Step(
        number=cell.index + 1,
        id=cell.id,
        kind="code" if not command else "task" if isinstance(about.get("task"), str) else "command",
        source=cell.source.removeprefix(BASH) if command else cell.source,
        recorded=cell.outputs if ran else None,
        status=status,
        language=language,
        runtime=runtime,
        clear_context=about.get("clear_context") is True and runtime == PYTHON,
        generation=_whole(about.get("generation")),
        recorded_generation=_whole(about.get("generation")),
        exit_code=_whole(about.get("exit_code")),
        started_at=started,
        ended_at=_text(about.get("ended_at")),
        digests=digests_of(about.get("full")),
        timeout_seconds=_measure_seconds(started, about.get("ended_at")) if status in STOPPED else None,
        skipped=LATE if about.get("kind") == "late" else _explain_skip(status, started),
        face=_text(about.get("face")),
        ours=ours,
        as_written=_as_written(shown) if ran and by else None,
        revised_by=by,
    )


def _find_runtime(runtime: str, written_in: str | None) -> tuple[str, str]:
    """The language of a cell and what ran it; a kernel of its image's is for the session to know, or to refuse."""
    if runtime in BUILT_IN:
        fits = written_in is not None and runtime in RUNTIMES.get(written_in, ())
        return (written_in or PYTHON) if fits else LANGUAGE_OF.get(runtime, PYTHON), runtime
    return written_in or PYTHON, runtime


def _as_written(shown: Mapping[str, Any]) -> list[Output] | None:
    """The record of an uploaded notebook may say anything."""
    try:
        return read_outputs(find_written_outputs(shown))
    except InvalidNotebook:
        return None


UNDONE: Final = "it was undone"
LATE: Final = "it is output that came late, which no code of its own shows"


def digests_of(full: Any) -> dict[str, str]:
    """The SHA-256 of streams that are kept in full, by their names, from what a cell says of them."""
    found = [each for each in full if isinstance(each, dict)] if isinstance(full, list) else []
    digests = {_text(each.get("stream")): _text(each.get("sha256")) for each in found if not each.get("omitted_bytes")}
    return {name: digest for name, digest in digests.items() if name is not None and digest is not None}


def began(document: Mapping[str, Any]) -> str | None:
    """When the recorded run began, as far as its cells and notes say."""
    said = [cell["metadata"].get("sandcell") for cell in document["cells"]]
    times = [_text(each.get(name)) for each in said if isinstance(each, dict) for name in ("at", "started_at")]
    return min((time for time in times if time is not None), default=None)


def _explain_skip(status: str | None, started: str | None) -> str:
    if status == "interrupted" and started is None:
        return "it was interrupted before it ran"
    return f"it was {status} and never ran" if status in UNRUN else ""


def _measure_seconds(started: Any, ended: Any) -> float:
    """How long it ran before it was stopped, so that it is stopped after as long."""
    try:
        seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
    except (TypeError, ValueError):
        seconds = 0.0
    return max(seconds, SHORTEST_SECONDS)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None
