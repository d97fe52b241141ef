"""What a made environment is in a real sandbox: its resources, its network, its role, over restarts of the service."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import pytest

from kernels.oci.cgroups import Cgroups
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.integration.kernel_gateway.services.environments.conftest import ARN, Place

MEGABYTE = 2**20
S3 = """
import math
import os
if "SANDCELL_S3_URI" in os.environ:
    import boto3
    bucket = os.environ["SANDCELL_S3_URI"].split("/")[2]
    s3 = boto3.client("s3")
    s3.put_object(Bucket=bucket, Key="team/a/x", Body=b"stored")
    print(s3.get_object(Bucket=bucket, Key="team/a/x")["Body"].read().decode())
else:
    print("no role")
"""


def make(rest: Rest, name: str, **body: Any) -> str:
    return str(rest.post("/v1/environments", name=name, **body)["id"])


def said(session: LiveSession, code: str) -> str:
    outcome = session.run(code)
    assert outcome["status"] == "ok", outcome
    return str(outcome["stdout"]).strip()


def fetched(session: LiveSession, url: str) -> str:
    code = f"""
import urllib.request
try:
    print(urllib.request.urlopen({url!r}, timeout=120).read().decode())
except OSError as error:
    print("not reached:", type(error).__name__)
"""
    return said(session, code)


@pytest.mark.parametrize(
    ("memory_mb", "storage_mb", "vcpus"), [(1_769, 512, None), (3_538, 1_024, 0.75), (10_240, 10_240, None)]
)
def test_a_session_has_the_resources_of_its_environment(
    rest: Rest, place: Place, memory_mb: int, storage_mb: int, vcpus: float | None
) -> None:
    name = f"size{memory_mb}"
    environment = make(rest, name, memory_mb=memory_mb, storage_mb=storage_mb, vcpus=vcpus)
    with rest.session(environment=name) as session:
        shown = session.show()
        assert shown["environment"] == environment
        assert shown["usage"]["memory_limit_bytes"] == memory_mb * MEGABYTE
        assert 0.85 < shown["usage"]["storage_limit_bytes"] / (storage_mb * MEGABYTE) <= 1
        left, _ = Cgroups("").processors_left(top=False)
        there = math.ceil(min(vcpus or memory_mb / 1_769, len(os.sched_getaffinity(0)), left))
        assert said(session, "import os; print(len(os.sched_getaffinity(0)))") == str(there)
    assert rest.http.delete(f"/v1/environments/{name}").json()["status"] == "DELETED"


def test_a_network_and_a_role_are_those_of_the_environment(rest: Rest, place: Place) -> None:
    open_one = make(rest, "public", network="PUBLIC", role_arn=ARN)
    closed = make(rest, "closed", role_arn=ARN + "-that-nobody-declared")
    with rest.session(environment=open_one) as session:
        assert fetched(session, place.site("/made")) == "you asked for /made"
        assert said(session, S3) == "stored"
        network = session.show()["network"]
        assert (network["mode"], network["role"]["prefix"]) == ("PUBLIC", "team/a/")
    with rest.session(environment=closed) as session:
        assert fetched(session, place.site("/made")).startswith("not reached")
        assert said(session, S3) == "no role"
        network = session.show()["network"]
        assert (network["mode"], network["role"]) == ("SANDBOX", None)
    assert rest.get(f"/v1/environments/{closed}")["role_arn"] == ARN + "-that-nobody-declared"


def test_the_runtime_and_the_processes_are_the_operators_whatever_is_made_of_them(rest: Rest, place: Place) -> None:
    made = rest.post("/v1/environments", name="fortified", image="strong", memory_mb=2_000)
    assert (made["runtime"], made["pids"], made["network"]["mode"]) == ("runsc", 256, "SANDBOX")
    with rest.session(environment="fortified") as session:
        assert session.show()["runtime"] == "runsc"
        assert said(session, "import os; print(os.uname().release)") != os.uname().release, "gVisor brings its own"
        assert fetched(session, place.site("/made")).startswith("not reached")


def test_a_role_is_for_those_whom_the_operator_names(rest: Rest, place: Place) -> None:
    token = rest.post("/v1/tokens", principal="dora")["token"]
    with Rest(place.service, token) as dora:
        shown = dora.post("/v1/environments", name="etl", role_arn=ARN)
        assert (shown["role_arn"], shown["network"]["role"]) == (ARN, None)
        with dora.session(environment="etl") as session:
            assert said(session, S3) == "no role"


@pytest.mark.sample("kills")
def test_over_a_kill_a_session_keeps_what_its_environment_gave_it(place: Place) -> None:
    with Rest(place.service) as rest:
        environment = make(rest, "kept", network="PUBLIC", role_arn=ARN, memory_mb=1_800)
        rest.http.put("/v1/agents/bot", json={"environment": "kept"}).raise_for_status()
        session = rest.session(agent="bot")
        session.run("x = 41")
    place.service.kill()
    place.service.start()
    again = place.again(session)
    assert said(again, "print(x + 1)") == "42"
    assert fetched(again, place.site("/again")) == "you asked for /again"
    assert said(again, S3) == "stored"
    shown = again.show()
    assert (shown["environment"], shown["agent"], shown["generation"]) == (environment, "bot", 1)
    refused = again.rest.http.delete(f"/v1/environments/{environment}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "has_dependents")
    assert refused.json()["error"]["dependents"] == {"agents": ["bot"], "sessions": [session.id]}
    process = int((place.service.data_dir / "sandboxes" / session.id / "bundle" / "pid").read_text())
    place.service.kill()
    os.kill(process, 9)
    place.service.start()
    restarted = place.again(session)
    assert fetched(restarted, place.site("/again")) == "you asked for /again"
    assert said(restarted, S3) == "stored"
    shown = restarted.show()
    assert (shown["generation"], shown["usage"]["memory_limit_bytes"]) == (2, 1_800 * MEGABYTE)
    restarted.stop()


@pytest.mark.sample("kills")
def test_an_operator_who_takes_a_network_away_takes_it_from_what_runs_and_what_starts(
    make_place: Callable[..., Place],
) -> None:
    place = make_place()
    with Rest(place.service) as rest:
        environment = make(rest, "wide", network="PUBLIC")
        session = rest.session(environment="wide")
        assert fetched(session, place.site("/before")) == "you asked for /before"
    place.service.kill()
    place.service.start(made_network_modes="SANDBOX")
    again = place.again(session)
    assert fetched(again, place.site("/after")).startswith("not reached")
    assert again.show()["network"]["mode"] == "SANDBOX"
    shown = again.rest.get(f"/v1/environments/{environment}")
    assert (shown["status"], shown["network"]["mode"]) == ("UNAVAILABLE", "PUBLIC")
    assert "network PUBLIC" in shown["failure"]
    refused = again.rest.http.post("/v1/sessions", json={"environment": "wide"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "environment_unavailable")
    again.stop()
    assert again.rest.http.delete("/v1/environments/wide").json()["status"] == "DELETED"
    assert place.service.stop() == 0
