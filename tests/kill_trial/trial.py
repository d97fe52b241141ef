"""The trial: load, kills, and then the verdict on all that was acknowledged meanwhile."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.kill_trial.callers import Caller, Load, Worker
from tests.kill_trial.cells import LATE_LINE, Cell
from tests.kill_trial.kills import KINDS, Kills
from tests.running_service import RunningService

RUNNING_SURVIVES = True
"""Whether code that runs when the service dies goes on as the same execution; else it may end as `died`, with the cause
`gateway_restart` and a part of its output."""
PAGE = 100
LATE_SECONDS = 120
"""How long the end of what nobody waits for is waited for; late output is written down after 30 s at the latest."""
NUMBER = re.compile(r"# cell (\d+)\n")


@dataclass(frozen=True)
class Plan:
    """How hard it is tried: kills, sessions, the longest pause between two kills, and of which kinds they are."""

    seed: int
    kills: int
    sessions: int = 8
    pause_seconds: float = 4.0
    kinds: tuple[str, ...] = tuple(KINDS)


@dataclass
class Verdict:
    """What was seen, and `findings`: what should not have been."""

    plan: Plan
    kills: dict[str, int]
    seconds: float = 0
    seen: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def table(self) -> str:
        """One row for what was done, one for each thing that was counted."""
        done = ", ".join(f"{kind} {count}" for kind, count in self.kills.items())
        rows = {
            "seed": self.plan.seed,
            "sessions": self.plan.sessions,
            "kills": f"{sum(self.kills.values())} ({done})",
            "seconds": f"{self.seconds:.0f}",
            **dict(sorted(self.seen.items())),
            "findings": len(self.findings),
        }
        return "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def run_trial(service: RunningService, plan: Plan) -> Verdict:
    """Load the service, harm it as often as planned, and look at everything afterwards."""
    began, stop, chance = time.monotonic(), threading.Event(), random.Random(plan.seed)
    workers = [Worker(service, number, plan.seed, stop) for number in range(plan.sessions)]
    kills = Kills(service, chance, plan.kinds)
    try:
        for worker in workers:
            worker.start()
        for _ in range(plan.kills):
            time.sleep(chance.uniform(0, plan.pause_seconds))
            kills.one()
        kills.revive()
    finally:
        stop.set()
        for worker in workers:
            if worker.ident is not None:
                worker.join()
    verdict = Verdict(plan, kills.counts)
    with_caller = Caller(service)
    for worker in workers:
        _judge(with_caller, worker, verdict)
        worker.close()
    with_caller.close()
    verdict.seconds = time.monotonic() - began
    return verdict


def _judge(caller: Caller, worker: Worker, verdict: Verdict) -> None:
    load = worker.load
    found = [*load.findings]
    token, agree, *noted = _split_report(worker.report())
    rows = _list_rows(caller, load)
    if token != load.token or agree != "True":
        found.append(f"the kernel says {token!r}, {agree!r}")
    found += [f"cell {number} ran {count} times" for number, count in Counter(noted).items() if count > 1]
    generation = caller.get(f"/v1/sessions/{load.session_id}")["generation"]
    verdict.seen["kernels alive"] += generation == 1
    if generation != 1:
        found.append(f"the kernel was replaced: generation {generation}")
    acknowledged = load.told.keys() | load.begun | rows.keys()
    verdict.seen["cells acknowledged"] += len(acknowledged)
    verdict.seen["cells acknowledged that did not run"] += sum(str(number) not in noted for number in acknowledged)
    verdict.seen["cells that ran twice"] += sum(count > 1 for count in Counter(noted).values())
    for number, cell in load.cells.items():
        found += _judge_cell(load, cell, rows.get(number, []), str(number) in noted, verdict.seen)
    found += _judge_late_output(caller, load, rows, verdict.seen)
    found += _judge_files(caller, load, verdict.seen)
    found += _judge_notebook(caller, load, rows)
    verdict.findings += [f"session {load.number}: {each}" for each in found]


def _split_report(words: list[str]) -> list[str]:
    """The token has blanks."""
    return [" ".join(words[:3]), *words[3:]] if len(words) > 3 else [" ".join(words), ""]


def _list_rows(caller: Caller, load: Load) -> dict[int, list[dict[str, Any]]]:
    """The executions of the session's record, by the number of their cell."""
    rows: dict[int, list[dict[str, Any]]] = {}
    cursor = ""
    while True:
        more = f"&cursor={cursor}" if cursor else ""
        page = caller.get(f"/v1/sessions/{load.session_id}/executions?limit={PAGE}{more}")
        for row in page["items"]:
            if number := NUMBER.match(row["code"]):
                rows.setdefault(int(number[1]), []).append(row)
        cursor = page.get("next_cursor")
        if not cursor:
            return rows


def _judge_cell(load: Load, cell: Cell, rows: list[dict[str, Any]], ran: bool, seen: Counter[str]) -> list[str]:
    number = cell.number
    told = load.told.get(number)
    attached = number in load.attached
    if not rows and told is None and number not in load.begun:
        seen["cells that were never acknowledged"] += 1
        return [f"cell {number} ran and is on no record"] if ran else []
    if len(rows) != 1:
        return [f"cell {number} is on record {len(rows)} times"]
    row = rows[0]
    seen[f"{'attached cells' if attached else 'cells'} {row['status']}"] += 1
    found = [] if told is None or told["status"] == row["status"] else [f"cell {number} was {told['status']} before"]
    for each in filter(None, (row, told)):
        if each["status"] == "ok" and cell.is_whole(each["stdout"]) and ran:
            continue
        if not RUNNING_SURVIVES and _is_cut_off(each) and cell.is_begun(each["stdout"]):
            continue
        cause = (each["death"] or {}).get("cause")
        output = f"{len(each['stdout'])} of {len(cell.stdout)} characters"
        found.append(f"cell {number} is {each['status']} ({cause}), ran: {ran}, with {output}")
    return found


def _judge_late_output(
    caller: Caller, load: Load, rows: dict[int, list[dict[str, Any]]], seen: Counter[str]
) -> list[str]:
    """Each line of a thread is shown once: with its execution, or with one that ran meanwhile."""
    ran = [each[0] for each in rows.values() if len(each) == 1]
    expected = {
        (str(number), str(line)) for number, cell in load.cells.items() if number in rows for line in range(cell.late)
    }
    give_up = time.monotonic() + LATE_SECONDS
    while True:
        shown: Counter[tuple[str, str]] = Counter()
        for row in ran:
            whole = caller.get(f"/v1/sessions/{load.session_id}/executions/{row['id']}")
            texts = [whole["stdout"], *("".join(output.get("text", "")) for output in whole["late"])]
            shown.update(found for text in texts for found in LATE_LINE.findall(text))
        # A flood's middle is in no answer, nor is what threads printed in it.
        missing = set() if any(row["truncated"]["stdout"] for row in ran) else expected - set(shown)
        if not missing or time.monotonic() > give_up:
            break
        time.sleep(1)
    seen["lines of threads"] += len(shown)
    found = [f"{len(missing)} lines of threads are missing: {sorted(missing)[:5]}"] if missing else []
    twice = sorted(line for line, count in shown.items() if count > 1)
    return [*found, f"{len(twice)} lines of threads came twice: {twice[:5]}"] if twice else found


def _is_cut_off(row: dict[str, Any]) -> bool:
    return row["status"] == "died" and row["death"]["cause"] == "gateway_restart"


def _judge_files(caller: Caller, load: Load, seen: Counter[str]) -> list[str]:
    files = f"/v1/sessions/{load.session_id}/files"
    found = []
    for name, data in load.uploads.items():
        seen["uploads acknowledged"] += 1
        answer = caller.ask("GET", f"{files}/{name}")
        if answer.content != data:
            found.append(f"{name}: {answer.status_code}, {len(answer.content)} of {len(data)} bytes")
    noted = Counter(caller.ask("GET", f"{files}/commands.txt").text.split()) if load.commands else Counter()
    for number, answered in load.commands.items():
        seen["commands answered" if answered else "commands whose caller was cut off"] += 1
        if (count := noted[str(number)]) > 1 or (answered and count != 1):
            found.append(f"command {number} ran {count} times")
    return found + _judge_commands(caller, load, noted, seen)


def _judge_commands(caller: Caller, load: Load, noted: Counter[str], seen: Counter[str]) -> list[str]:
    """Each command that ran is one cell with its whole output, also where nobody was there to be answered."""
    give_up = time.monotonic() + LATE_SECONDS
    while True:
        notebook = caller.get(f"/v1/sessions/{load.session_id}/notebook")
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        found = []
        for number in load.commands:
            of_it = [cell for cell in cells if f"echo {number} >> commands.txt" in "".join(cell["source"])]
            if len(of_it) != noted[str(number)]:
                found.append(f"command {number} ran {noted[str(number)]} times and has {len(of_it)} cells")
            for cell in of_it:
                text = "".join("".join(output.get("text", "")) for output in cell["outputs"])
                if text != f"done {number}\n":
                    found.append(f"command {number} shows {text!r}")
        if not found or time.monotonic() > give_up:
            seen["commands that ran"] += sum(noted[str(number)] for number in load.commands)
            return found
        time.sleep(1)


def _judge_notebook(caller: Caller, load: Load, rows: dict[int, list[dict[str, Any]]]) -> list[str]:
    """Each execution is one cell of the notebook, and all late output is with one."""
    notebook = caller.get(f"/v1/sessions/{load.session_id}/notebook")
    written = Counter(
        NUMBER.match(source)[1]  # type: ignore[index]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and NUMBER.match(source := "".join(cell["source"]))
    )
    strays = [cell for cell in notebook["cells"] if "output of no known cell" in "".join(cell["source"])]
    return [f"output of no known cell: {str((cell['metadata'], cell['outputs']))[:1000]}" for cell in strays] + [
        f"cell {number} is in the notebook {written[str(number)]} times" for number in rows if written[str(number)] != 1
    ]
