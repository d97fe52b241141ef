"""What a failing test prints beside its traceback: what its services logged since it began, and what its sessions ran.

`begin` notes where a test begins, `sections` are what its report gets when it has failed. Both look at every service
that the tests of this process have started, whichever fixture did. Nothing here fails or delays a report for long.
`keep` leaves the reports of a run for scripts/retest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.running_service import RunningService

LINES = 100
"""Of each service's log and of what the test printed, the last ones."""

KEPT_LINES = 40
"""The same for a report that is kept."""

_SESSIONS = 5
_EXECUTIONS = 5
_CHARACTERS = 500
_ASK_SECONDS = 5.0
_ALL_SECONDS = 15.0

Began = tuple[str, dict[RunningService, int]]
_BEGAN = pytest.StashKey[Began]()

Section = tuple[str, str]


def begin(item: pytest.Item) -> None:
    """Note the time, and how much each service has said until now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    item.stash[_BEGAN] = now, {service: len(service.output) for service in RunningService.every}


def sections(item: pytest.Item) -> list[Section]:
    """What the services of a test that has failed know of it; asked before the test's fixtures are torn down."""
    began = item.stash.get(_BEGAN, None)
    if began is None:
        return []
    since, said = began
    give_up = time.monotonic() + _ALL_SECONDS
    found: list[Section] = []
    for service in list(RunningService.every):
        # The log comes second: what the service has just printed reaches us while it is asked.
        in_time = time.monotonic() < give_up
        asked = _describe_sessions(service, since, give_up) if service.running and in_time else ""
        log = cut_lines("".join(service.output[said.get(service, 0) :]))
        name = service.url or "a service that has no address"
        if service.running or log:
            found.append((f"log of the service {name} since the test began", log or "(it printed nothing)"))
        if asked:
            found.append((f"sessions of the service {name} since the test began", asked))
    return found


def keep(config: pytest.Config) -> None:
    """Have the cache of the run know how each test failed, in short."""
    cache, reporter = getattr(config, "cache", None), config.pluginmanager.getplugin("terminalreporter")
    if cache is None or reporter is None:
        return
    kept: dict[str, str] = {}
    for report in (*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())):
        parts = [report.longreprtext, *(f"----- {title}\n{text}" for title, text in report.sections)]
        text = "\n".join(cut_lines(each, KEPT_LINES) for each in parts)
        kept[report.nodeid] = f"{kept[report.nodeid]}\n{text}" if report.nodeid in kept else text
    cache.set("sandcell/failures", kept)


def cut_lines(text: str, most: int = LINES) -> str:
    """The last lines: a test that waits in vain can log for as long as its deadline."""
    lines = [_cut(line) for line in text.splitlines()]
    if len(lines) > most:
        lines[:-most] = [f"({len(lines) - most} lines before these)"]
    return "\n".join(lines)


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]} ... ({len(text) - _CHARACTERS} more)"


def _describe_sessions(service: RunningService, since: str, give_up: float) -> str:
    try:
        with httpx.Client(
            base_url=service.url,
            headers={"Authorization": f"Bearer {service.token}"},
            timeout=_ASK_SECONDS,
            trust_env=False,
            verify=False,
        ) as http:
            return "\n".join(_describe_each(http, since, give_up))
    except Exception as error:  # however it fails, the failure of the test is what counts
        return f"(they could not be asked for: {error!r})"


def _describe_each(http: httpx.Client, since: str, give_up: float) -> Iterator[str]:
    """Everybody's sessions that were begun or used, newest first, each with the end of what it ran."""
    everybody = _get(http, "/v1/admin/sessions", limit=100)["items"]
    touched = [one for one in everybody if max(one["created_at"], one["last_activity_at"]) >= since]
    for session in touched[:_SESSIONS]:
        ended = f", ended: {session['ended']}" if session["ended"] else ""
        state = f"{session['status']}, generation {session['generation']}{ended}"
        yield f"session {session['id']} of {session['principal']}: {state}"
        for execution in _last_executions(http, session["id"], since, give_up):
            yield from _describe_execution(execution)
    if len(touched) > _SESSIONS:
        yield f"({len(touched) - _SESSIONS} more sessions)"


def _last_executions(http: httpx.Client, session_id: str, since: str, give_up: float) -> list[dict[str, Any]]:
    """Those that ran since then; the list of a session is oldest first."""
    ran: deque[dict[str, Any]] = deque(maxlen=_EXECUTIONS)
    page: dict[str, Any] = {"next_cursor": None}
    while time.monotonic() < give_up:
        path = f"/v1/admin/sessions/{session_id}/executions"
        page = _get(http, path, limit=100, cursor=page["next_cursor"], commands="true")
        ran.extend(one for one in page["items"] if (one["ended_at"] or since) >= since)
        if not page["next_cursor"]:
            break
    return list(ran)


def _describe_execution(execution: dict[str, Any]) -> Iterator[str]:
    moments = ("queued_at", "started_at", "ended_at")
    times = ", ".join(f"{name[:-3]} {execution[name]}" for name in moments if execution[name])
    yield f"  execution {execution['id']}: {execution['status']}, {times}"
    for name in ("code", "stdout", "stderr", "error", "death", "why"):
        if execution.get(name):
            yield f"    {name}: {_cut(str(execution[name]))!r}"


def _get(http: httpx.Client, path: str, **query: object) -> dict[str, Any]:
    asked = {name: str(value) for name, value in query.items() if value is not None}
    answer: dict[str, Any] = http.get(path, params=asked).raise_for_status().json()
    return answer
