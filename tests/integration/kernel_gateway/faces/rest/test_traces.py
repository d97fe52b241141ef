"""Traces as a collector gets them: a real one's protocol, decoded by OpenTelemetry's own messages."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TOKEN = "a collector's own"


class Collector(ThreadingHTTPServer):
    """Keeps the spans that it is sent with its `token`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.spans: list[Span] = []
        self.refused = 0
        self.token = TOKEN
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/traces"

    def named(self, name: str, trace: str = TRACE) -> list[Span]:
        return [each for each in list(self.spans) if each.name == name and each.trace_id.hex() == trace]

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join(60)


class _Taker(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.headers["Authorization"] == f"Bearer {self.server.token}"
        self.server.refused += not known
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans if known else ():
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_about: object) -> None:
        """Not on the tests' output."""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def service(make_service: Callable[..., RunningService], collector: Collector) -> RunningService:
    return make_service(otlp_endpoint=collector.endpoint, otlp_token=TOKEN)


@pytest.fixture
def rest(service: RunningService) -> Iterator[Rest]:
    with Rest(service) as rest:
        yield rest


def attributes(span: Span) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


def test_a_trace_goes_from_the_callers_request_to_the_flush(
    service: RunningService, rest: Rest, collector: Collector
) -> None:
    rest.http.headers["traceparent"] = f"00-{TRACE}-{CALLER}-01"
    with rest.session() as session:
        assert session.run("open('kept.txt', 'w').write('secret-in-code')")["status"] == "ok"
        assert session.run("1 / 0")["status"] == "error"
        eventually(lambda: len(collector.named("flush")) == 2)
        rest.post(f"{session.path}/commands", command="true")
        eventually(lambda: bool(collector.named("command")))
        eventually(lambda: len(collector.named("code")) == 2 and bool(collector.named("ExecuteCode")))
        for code in collector.named("code"):
            inside = {each.name: each for each in list(collector.spans) if each.parent_span_id == code.span_id}
            assert set(inside) == {"queue", "run", "flush"}
            assert inside["queue"].start_time_unix_nano == code.start_time_unix_nano
            assert inside["queue"].end_time_unix_nano == inside["run"].start_time_unix_nano
            assert inside["run"].end_time_unix_nano == code.end_time_unix_nano <= inside["flush"].end_time_unix_nano
            assert attributes(code)["sandcell.session"] == session.id
            (request,) = [each for each in list(collector.spans) if each.span_id == code.parent_span_id]
            assert request.kind == Span.SPAN_KIND_SERVER
            assert request.parent_span_id.hex() == CALLER
    failed = {attributes(each)["sandcell.status"]: each.status.code for each in collector.named("code")}
    assert failed == {"ok": 0, "error": 2}
    assert collector.named("start launch"), "a start says how long its phases took"
    assert not [each for each in collector.spans if "secret-in-code" in str(each)]
    # Log lines say which trace they are of.
    eventually(lambda: re.search(rf"request .*trace={TRACE}", "".join(service.output)))


def test_a_caller_who_wants_none_gets_none_and_one_who_says_nothing_gets_his_own(
    rest: Rest, collector: Collector
) -> None:
    unwanted, wanted = "1" * 32, "2" * 32
    for trace, flags in ((unwanted, "00"), (wanted, "01")):
        rest.http.get("/v1/sessions", headers={"traceparent": f"00-{trace}-{CALLER}-{flags}"})
    rest.http.get("/v1/environments", headers={"traceparent": "nonsense"})
    eventually(lambda: bool(collector.named("ListSessions", wanted)))
    eventually(lambda: any(each.name == "ListEnvironments" for each in list(collector.spans)))
    (own,) = [each for each in collector.spans if each.name == "ListEnvironments"]
    assert not own.parent_span_id
    assert not [each for each in collector.spans if each.trace_id.hex() == unwanted]


def test_a_collector_that_takes_nothing_delays_no_code(rest: Rest, collector: Collector) -> None:
    refused = collector.refused
    collector.token = "another"
    with rest.session() as session:
        session.works()
        eventually(lambda: collector.refused > refused)
        session.works()
    collector.token = TOKEN
