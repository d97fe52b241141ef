"""Thirty invocations a second over fifty sessions for a minute, through boto3: how long they take, and that none fails.

Calls are due at fixed times, whatever became of those before; how long one took is counted from when it was due.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.agentcore import p99
from benchmarks.agentcore_client import Interpreter
from tests.running_service import RunningService

PER_SECOND = 30
THREADS = 32
STARTS = 4


def run(service: RunningService, environments_dir: Path, *, rounds: int = 60) -> str:
    """`rounds` seconds of calls; fewer sessions when they are few."""
    sessions_wanted = 50 if rounds >= 30 else 2
    interpreter = Interpreter(service, connections=THREADS)
    with ThreadPoolExecutor(STARTS) as starting:
        sessions = list(starting.map(lambda _: interpreter.start(), range(sessions_wanted)))
        list(starting.map(interpreter.add, sessions))
    seconds, failures = _load(interpreter, sessions, rounds)
    with ThreadPoolExecutor(STARTS) as stopping:
        list(stopping.map(interpreter.stop, sessions))
    assert not failures, f"of {rounds * PER_SECOND} invocations failed: {dict(failures)}"
    return (
        f"{len(seconds)} invocations, {PER_SECOND} a second over {len(sessions)} sessions: p50"
        f" {statistics.median(seconds) * 1000:.0f} ms, p99 {p99(seconds) * 1000:.0f} ms (at most 250), longest"
        f" {max(seconds) * 1000:.0f} ms, {sum(failures.values())} errors"
    )


def _load(interpreter: Interpreter, sessions: list[str], duration: int) -> tuple[list[float], Counter[str]]:
    seconds: list[float] = []
    failures: Counter[str] = Counter()

    def one(session: str, due: float) -> None:
        try:
            interpreter.add(session)
        except Exception as error:
            failures[f"{type(error).__name__}: {error}"[:200]] += 1
        seconds.append(time.perf_counter() - due)

    with ThreadPoolExecutor(THREADS) as calling:
        begun = time.perf_counter()
        for number in range(duration * PER_SECOND):
            due = begun + number / PER_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            calling.submit(one, sessions[number % len(sessions)], due)
    return seconds, failures
