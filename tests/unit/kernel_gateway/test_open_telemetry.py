"""The end of a process whose collector is not there."""

from __future__ import annotations

import socket
import threading

import pytest

from kernel_gateway import open_telemetry
from kernel_gateway.open_telemetry import Tracer


def test_the_end_does_not_wait_for_a_collector_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_telemetry, "_CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(open_telemetry, "_SEND_SECONDS", 1)
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tracer = Tracer(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces", "")
        span, trace_id = tracer.begin_request({})
        tracer.end_request(span, "ListSessions", 200, {"sandcell.session": None})
        assert len(trace_id) == 32
        closing = threading.Thread(target=tracer.close)
        closing.start()
        closing.join(60)
        assert not closing.is_alive()
    for thread in (
        set(threading.enumerate()) - before
    ):  # it tries again by chance, which other tests would take for theirs
        thread.join(60)
        assert not thread.is_alive()
