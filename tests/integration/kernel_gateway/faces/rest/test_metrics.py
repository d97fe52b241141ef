"""`/metrics`: who may read it, that what is counted is what happened, and that docs and dashboard know every figure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

REPOSITORY = Path(__file__).parents[5]
Sample = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture(scope="module")
def service(make_service: Callable[..., RunningService]) -> RunningService:
    """Of its own: what others do would be counted too."""
    return make_service()


@pytest.fixture
def rest(service: RunningService) -> Iterator[Rest]:
    with Rest(service) as rest:
        yield rest


def scrape(rest: Rest) -> dict[Sample, float]:
    answer = rest.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(found: dict[Sample, float], name: str, **labels: str) -> float:
    return found.get((f"sandcell_{name}", frozenset(labels.items())), 0.0)


def test_what_happens_is_counted(rest: Rest) -> None:
    before = scrape(rest)
    with rest.session() as session:
        assert session.run("1")["status"] == "ok"
        assert session.run("1 / 0")["status"] == "error"
        assert session.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")["status"] == "died"
        rest.post(f"{session.path}/commands", command="true")
        session.works()
        eventually(lambda: value(scrape(rest), "kernel_deaths_total", cause="signal") == 1)
        now = scrape(rest)
        assert value(now, "sessions", state="ready") == 1
        eventually(lambda: value(scrape(rest), "sandboxes_memory_bytes") > 1_000_000)
        rest.http.put(f"{session.path}/files/a.txt", content=b"x" * 1000).raise_for_status()
        eventually(lambda: value(scrape(rest), "store_written_bytes_total") >= 1000)
    eventually(lambda: value(scrape(rest), "sessions", state="ready") == 0)
    after = scrape(rest)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    ended = {status: grown("executions_total", kind="code", status=status) for status in ("ok", "error", "died")}
    assert ended == {"ok": 2, "error": 1, "died": 1}
    assert grown("executions_total", kind="command", status="ok") == 1
    assert grown("execution_run_seconds_count") == 5
    assert (grown("session_starts_total", result="started"), grown("session_starts_total", result="failed")) == (1, 0)
    for phase in ("place", "launch", "restore", "session"):
        assert grown("start_seconds_count", phase=phase) == 1, phase
    assert grown("ended_sessions_cpu_seconds_total") > 0
    assert grown("database_seconds_count") > 5
    assert grown("database_errors_total") == 0


def test_a_refused_start_is_counted(rest: Rest) -> None:
    before = scrape(rest)
    assert rest.http.post("/v1/sessions", json={"workspace_id": "absent"}).status_code == 404
    after = scrape(rest)
    name = "session_starts_total"
    assert value(after, name, result="refused") - value(before, name, result="refused") == 1


def test_it_is_for_administrators_and_tokens_for_it_alone(service: RunningService, rest: Rest) -> None:
    def ask(token: str, path: str = "/metrics") -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.get(service.url + path, headers=headers, trust_env=False, timeout=120).status_code

    def token(principal: str, scope: str) -> str:
        return str(rest.post("/v1/tokens", principal=principal, scope=scope)["token"])

    assert httpx.get(service.url + "/metrics", trust_env=False, timeout=120).status_code == 401
    for principal, scope in (("admin", "run"), ("admin", "read"), ("ann", "admin"), ("ann", "read")):
        assert ask(token(principal, scope)) == 403, (principal, scope)
    scraper = token("prometheus", "metrics")
    assert ask(scraper) == 200
    for path in ("/v1/sessions", "/v1/audit", "/v1/tokens", "/api/kernels"):
        assert ask(scraper, path) == 403, path
    refused = rest.get("/v1/audit?event=GetMetrics&limit=1000")["items"]
    assert {each["allowed"] for each in refused} == {False}, "scrapes are not recorded, refusals are"


def test_the_docs_and_the_dashboard_have_every_figure_and_no_other(rest: Rest) -> None:
    text = rest.http.get("/metrics").text
    families = dict(re.findall(r"^# TYPE (sandcell_\w+) (\w+)$", text, re.MULTILINE))
    table = (REPOSITORY / "docs/reference/metrics.md").read_text()
    assert dict(re.findall(r"^\| `(sandcell_\w+)` \| (\w+) \|", table, re.MULTILINE)) == families
    shown = re.findall(r"sandcell_\w+", (REPOSITORY / "deploy/grafana/sandcell.json").read_text())
    assert {re.sub("_(bucket|sum|count)$", "", each) for each in shown} == families.keys()


def test_the_dashboard_is_one() -> None:
    dashboard = json.loads((REPOSITORY / "deploy/grafana/sandcell.json").read_text())
    assert dashboard["uid"] == "sandcell"
    assert len({each["id"] for each in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
