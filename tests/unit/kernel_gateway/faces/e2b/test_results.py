"""Events of an execution as lines of E2B's stream."""

from __future__ import annotations

from typing import Any

from kernel_gateway.faces.e2b.results import Lines, make_result
from sandcell.models.executions import Death, Event, Execution


def execution(status: str = "ok", **more: Any) -> Execution:
    return Execution("e", "s", status, "python", "1", 1, "now", **more)  # type: ignore[arg-type]


def read(*events: tuple[str, dict[str, Any]], ended: Execution) -> list[dict[str, Any]]:
    lines = Lines()
    found = [line for kind, data in events for line in lines.read(Event(1, kind, data), "now")]
    return [*found, *lines.close(ended)]


def test_output_and_a_result() -> None:
    found = read(
        ("started", {}),
        ("stream", {"name": "stderr", "text": "x"}),
        ("result", {"data": {"text/plain": "'a'"}}),
        ("ended", {}),
        ended=execution(execution_count=3),
    )
    assert found == [
        {"type": "stderr", "text": "x", "timestamp": "now"},
        {"type": "result", "is_main_result": True, "text": "a", "extra": {}},
        {"type": "number_of_executions", "execution_count": 3},
        {"type": "end_of_execution"},
    ]


def test_a_result_s_media() -> None:
    bundle = {
        "image/png": "AA==\n",
        "application/json": {"a": 1},
        "e2b/data": '{"a":[1]}',
        "x/y": 1,
        "text/html": "<b>",
    }
    assert make_result(bundle, is_main=False) == {
        "type": "result",
        "is_main_result": False,
        "png": "AA==",
        "json": {"a": 1},
        "data": {"a": [1]},
        "html": "<b>",
        "extra": {"x/y": 1},
    }


def test_an_error_is_said_once_and_every_bad_end_has_one() -> None:
    told = ("error", {"name": "E", "value": "v", "traceback": ["a", "b"]})
    once = read(told, ended=execution("error"))
    assert [line for line in once if line["type"] == "error"] == [
        {"type": "error", "name": "E", "value": "v", "traceback": "a\nb"}
    ]
    died = read(ended=execution("died", death=Death("oom", "no memory")))
    assert died[0] == {"type": "error", "name": "UnexpectedEndOfExecution", "value": "no memory", "traceback": ""}
    assert read(ended=execution("interrupted"))[0]["name"] == "KeyboardInterrupt"
