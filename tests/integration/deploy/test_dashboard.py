"""The dashboard's queries, asked of a real Prometheus that collects from a real service: no panel is empty.

Grafana itself is on no registry that the tests reach: what a panel looks like is not tried. That Grafana knows all that
the dashboard says is held against the types that Grafana Labs publish for Python.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.faulty_s3 import FaultyS3, Refusal
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.doubles.server_process import answers, free_port, server_process
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

pytestmark = pytest.mark.long
DASHBOARD = json.loads((Path(__file__).parents[3] / "deploy/grafana/sandcell.json").read_text())
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
TYPES = (
    "grafana-foundation-sdk==1769699379!11.6.0",
    "92d7a8144eba0fa802e728fb70e63d74b056fb1195ff116d812ad7a4ccfa5eca",
)
"""Of Grafana 11.6, and the hash of that wheel; under Apache-2.0."""
READ = """
import json, sys
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
plugins.register_default_plugins()
print(encoder.JSONEncoder().encode(Dashboard.from_json(json.load(sys.stdin))))
"""
JOB = "sandcell"
SECONDS = 120


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyS3]:
    with s3_server("rclone", tmp_path_factory.mktemp("s3")) as endpoint, FaultyS3(endpoint) as store:
        yield store


@pytest.fixture(scope="module")
def service(make_service: Callable[..., RunningService], store: FaultyS3, tmp_path_factory: Any) -> RunningService:
    environments = tmp_path_factory.mktemp("environments") / "environments.toml"
    environments.write_text("[python]\nwarm = 1\n")
    return make_service(
        None,
        {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]},
        environments_file=environments,
        store=f"s3://{BUCKET}/dashboard?endpoint_url={store.endpoint}&region=us-east-1",
        audit_http_url=f"http://127.0.0.1:{free_port()}/",  # nobody is there: records wait
    )


@pytest.fixture(scope="module")
def prometheus(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One that has collected since before anything happened, every second."""
    program = shutil.which("prometheus")
    assert program, "Prometheus is not installed: scripts/install long does it"
    place = tmp_path_factory.mktemp("prometheus")
    with Rest(service) as rest:
        (place / "token").write_text(rest.post("/v1/tokens", principal="prometheus", scope="metrics")["token"])
    target = service.url.removeprefix("http://")
    (place / "prometheus.yml").write_text(
        f"scrape_configs:\n- job_name: {JOB}\n  scrape_interval: 1s\n  authorization: {{credentials_file: token}}\n"
        f"  static_configs: [{{targets: ['{target}']}}]\n"
    )
    port = free_port()
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with server_process([program, *options], place, "log") as process:
        assert answers(process, port, SECONDS), (place / "log").read_text()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=SECONDS) as client:
            eventually(lambda: ask(client, f'up{{job="{JOB}"}}') == [1.0])
            yield client


def ask(prometheus: httpx.Client, query: str) -> list[float]:
    answer = prometheus.get("/api/v1/query", params={"query": query})
    assert answer.status_code == 200, answer.text
    return [float(each["value"][1]) for each in answer.json()["data"]["result"]]


@pytest.fixture(scope="module")
def used(service: RunningService, store: FaultyS3, prometheus: httpx.Client) -> None:
    """All that the dashboard shows has happened twice, and was collected between: Prometheus sees no first time."""
    with Rest(service) as rest:
        for _ in range(2):
            with rest.session() as session:
                session.run("open('f', 'a').write('x' * 1000)")
                session.run("import os; os._exit(1)")
                session.works()
                store.fail(Refusal(500, "InternalError"), "PutObject")
                session.run("open('g', 'w').write('y')")
                errors = ask(prometheus, "sum(sandcell_store_errors_total)") or [0.0]
                eventually(lambda errors=errors: ask(prometheus, "sum(sandcell_store_errors_total)") > errors)
                store.heal()
            ended = ask(prometheus, "sandcell_ended_sessions_cpu_seconds_total")
            eventually(lambda ended=ended: ask(prometheus, "sandcell_ended_sessions_cpu_seconds_total") > ended)


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize(("panel", "query"), QUERIES, ids=[f"{title} {n}" for n, (title, _) in enumerate(QUERIES)])
def test_a_panel_has_data(prometheus: httpx.Client, panel: str, query: str) -> None:
    values = ask(prometheus, query.replace("$job", ".+").replace("$__rate_interval", "10m"))
    assert values, panel
    assert not all(map(math.isnan, values)), panel


def test_its_choice_of_a_job_is_that_of_the_service(prometheus: httpx.Client) -> None:
    (query,) = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["name"] == "job"]
    metric = query.removeprefix("label_values(").partition(",")[0]
    answer = prometheus.get("/api/v1/label/job/values", params={"match[]": metric})
    assert answer.json()["data"] == [JOB]


def test_grafana_knows_all_that_it_says(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text(f"{TYPES[0]} --hash=sha256:{TYPES[1]}\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--target", str(tmp_path / "types"), "--requirement", str(tmp_path / "pins.txt")]
    subprocess.run(command, check=True, timeout=300)
    read = subprocess.run(
        [sys.executable, "-c", READ],
        input=json.dumps(DASHBOARD),
        env={"PYTHONPATH": str(tmp_path / "types")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert list(find_unknown(DASHBOARD, json.loads(read.stdout))) == []


def find_unknown(said: Any, known: Any, at: str = "") -> Iterator[str]:
    """Where what is said is not in what was read of it."""
    if isinstance(said, dict) and isinstance(known, dict):
        for name, value in said.items():
            yield from find_unknown(value, known.get(name), f"{at}.{name}")
    elif isinstance(said, list) and isinstance(known, list) and len(said) == len(known):
        for number, (one, other) in enumerate(zip(said, known, strict=True)):
            yield from find_unknown(one, other, f"{at}[{number}]")
    elif said != known:
        yield at
