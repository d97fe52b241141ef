"""What reaches standard error, from a process that logs as the service does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import structlog

from kernel_gateway.logs import Lines
from kernels.log_text import escape, escape_lines

PROGRAM = """
import logging, sys
import structlog
from kernel_gateway.logs import configure_logs
from kernel_gateway.settings import load

configure_logs(load({"log_json": sys.argv[1] == "json"}, environ={}))
hostile = "/v1/\\x1b]0;owned\\x07\\r\\n2026-01-01 [error] forged\\x9b\\u2028\\u202e\\udcff"
structlog.get_logger("a").warning("asked_for", path=hostile, parts=[hostile], **{hostile: 1})
logging.getLogger("tornado.general").warning("cannot decode %s", hostile)
try:
    raise ValueError(hostile)
except ValueError as error:
    structlog.get_logger("a").error("request_failed", exc_info=error)
"""


AWAY = """
import errno
import structlog
from kernel_gateway.errors import NoSpace, InternalError
from kernel_gateway.logs import configure_logs
from kernel_gateway.settings import load

configure_logs(load({}, environ={}))
for error in (NoSpace("the disk is full"), OSError(errno.ENOSPC, "No space left"), InternalError("a defect")):
    try:
        raise error
    except Exception as raised:
        structlog.get_logger("a").error("sweep_failed", exc_info=raised)
"""


def lines(form: str, program: str = PROGRAM) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program, form], capture_output=True, timeout=120, check=True)
    return done.stderr.decode().removesuffix("\n").split("\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_of_a_request_is_obeyed_by_who_reads_the_log(form: str) -> None:
    found = lines(form)
    assert all(line.isprintable() for line in found)
    assert [line for line in found if "owned" in line and line.startswith("2026-01-01")] == []


def test_each_event_is_one_line_and_a_traceback_is_set_in() -> None:
    found = lines("text")
    assert "asked_for" in found[0]
    assert r"cannot decode /v1/\x1b]0;owned\x07\r\n2026-01-01 [error] forged\x9b\u2028\u202e\udcff" in found[1]
    assert found[2].endswith("request_failed")
    assert found[3] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in found[3:])


def test_a_full_disk_is_one_line_and_a_defect_keeps_its_traceback() -> None:
    full, too, defect, *traceback = lines("text", AWAY)
    assert full.endswith("sweep_failed                   error='the disk is full'")
    assert too.endswith("error='[Errno 28] No space left'")
    assert defect.endswith("sweep_failed")
    assert traceback[0] == "  Traceback (most recent call last):"


def test_json_lines_hold_the_text_as_it_was() -> None:
    events = [json.loads(line) for line in lines("json")]
    assert [event["event"].split()[0] for event in events] == ["asked_for", "cannot", "request_failed"]
    assert events[0]["path"].startswith("/v1/\x1b]0;owned\x07\r\n")


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"status": 200, "milliseconds": 1.25, "principal": None, "path": "/v1/sessions", "method": "POST"},
        {"words": "two words", "quoted": "it's", "sum": "a=b", "é": "ü", "number": -1},
        {"path": "/\x1b]0;owned\x07\n", "\u202e": [1, "\n"]},
        {"exception": "Traceback\n\x1b[31mValueError"},
    ],
)
@pytest.mark.parametrize("level", ["info", "critical"])
def test_a_line_is_what_structlog_writes(said: dict[str, Any], level: str) -> None:
    event = {"event": "request", "timestamp": "2026-01-01T00:00:00Z", "level": level, **said}
    console = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    escaped = {escape(key): escape(each) if isinstance(each, str) else each for key, each in event.items()}
    if "exception" in said:
        escaped["exception"] = escape_lines(said["exception"])
    assert Lines(colors=False)(None, level, event) == console(None, level, escaped)
