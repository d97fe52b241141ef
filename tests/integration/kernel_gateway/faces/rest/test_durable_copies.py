"""Copies, links and removal of whole workspaces over plain HTTP, with S3: whose they are, and what is recorded."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.integration.kernel_gateway.faces.rest.test_durable_files import workspace_of
from tests.running_service import RunningService

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def s3_service(
    tmp_path_factory: pytest.TempPathFactory, make_service: Callable[..., RunningService]
) -> Iterator[RunningService]:
    """A service whose workspaces are in S3."""
    with s3_server("rclone", tmp_path_factory.mktemp("rclone")) as endpoint:
        credentials = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ACCESS_KEY, strict=True))
        service = make_service(
            extra_environment=credentials,
            store=f"s3://{BUCKET}/below?endpoint_url={endpoint}",
            invocations_per_second=1000,
            log_level="info",
        )
        yield service
        service.stop()


def client_of(service: RunningService, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {token}"}, timeout=180, trust_env=False
    )


@pytest.fixture(scope="module")
def me(s3_service: RunningService) -> Iterator[httpx.Client]:
    with client_of(s3_service, s3_service.token) as client:
        yield client


@pytest.fixture(scope="module")
def stranger(s3_service: RunningService, me: httpx.Client) -> Iterator[httpx.Client]:
    token = me.post("/v1/tokens", json={"principal": "stranger"}).json()["token"]
    with client_of(s3_service, token) as client:
        yield client


@pytest.fixture(scope="module")
def one(me: httpx.Client) -> str:
    """A workspace with files in it."""
    workspace = workspace_of(me)
    for path, data in {"out/plot.png": b"png", "out/table.csv": b"a,b\n", "notes": b"text"}.items():
        assert me.put(f"/v1/workspaces/{workspace}/files/{path}", content=data).status_code == 200
    return workspace


@pytest.fixture(scope="module")
def two(me: httpx.Client) -> str:
    return workspace_of(me)


@pytest.fixture(scope="module")
def theirs(stranger: httpx.Client) -> str:
    return workspace_of(stranger)


def listed(http: httpx.Client, workspace: str) -> list[str]:
    answer = http.get(f"/v1/workspaces/{workspace}/files", params={"recursive": True})
    return [each["path"] for each in answer.json()["items"] if each["kind"] == "file"]


def test_files_are_copied_to_another_workspace(me: httpx.Client, one: str, two: str) -> None:
    address = f"/v1/workspaces/{one}/copy"
    body = {"to": two, "paths": ["out"], "to_path": "from"}
    told = me.post(address, json={**body, "dry_run": True})
    assert (told.status_code, told.json()["dry_run"], told.json()["file_count"]) == (200, True, 2)
    assert listed(me, two) == []
    done = me.post(address, json=body).json()
    assert (done["paths"], done["size_bytes"]) == (["from/out", "from/out/plot.png", "from/out/table.csv"], 7)
    assert listed(me, two) == ["from/out/plot.png", "from/out/table.csv"]
    assert me.post(address, json=body).json()["unchanged"] == 2
    me.put(f"/v1/workspaces/{two}/files/from/out/plot.png", content=b"other")
    refused = me.post(address, json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert "from/out/plot.png" in refused.json()["error"]["message"]
    assert me.post(address, json={**body, "overwrite": True}).json()["overwritten"] == 1
    assert me.get(f"/v1/workspaces/{two}/files/from/out/plot.png").content == b"png"


def test_nobody_else_is_copied_from_or_to(
    me: httpx.Client, stranger: httpx.Client, one: str, two: str, theirs: str
) -> None:
    """What is another's and what is not there are answered alike."""
    answers = []
    for http, source, target in (
        (me, one, theirs),
        (me, theirs, two),
        (stranger, one, theirs),
        (stranger, theirs, one),
        (me, one, NOBODY),
        (me, NOBODY, two),
    ):
        for rehearsed in (True, False):
            answer = http.post(f"/v1/workspaces/{source}/copy", json={"to": target, "dry_run": rehearsed})
            answers.append((answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["message"]))
    assert set(answers) == {(404, "not_found", "there is no such workspace")}
    assert listed(stranger, theirs) == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_request"),
        ({"to": ""}, 400, "invalid_request"),
        ({"to": "SAME"}, 400, "invalid_request"),
        ({"to": "TWO", "paths": ["../x"]}, 400, "invalid_path"),
        ({"to": "TWO", "to_path": "/etc"}, 400, "invalid_path"),
        ({"to": "TWO", "paths": ["absent"]}, 404, "not_found"),
        ({"to": "TWO", "paths": [""]}, 400, "invalid_path"),
        ({"to": "TWO", "paths": ["a"] * 1001}, 400, "invalid_request"),
        ({"to": "TWO", "colour": "red"}, 400, "invalid_request"),
    ],
    ids=["no-target", "empty", "itself", "up", "absolute", "absent", "no-path", "many", "unknown"],
)
def test_a_copy_that_makes_no_sense(
    me: httpx.Client, one: str, two: str, body: dict[str, object], status: int, code: str
) -> None:
    body = {name: {"SAME": one, "TWO": two}.get(str(value), value) for name, value in body.items()}
    answer = me.post(f"/v1/workspaces/{one}/copy", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_live_source_is_flushed_and_a_live_target_refused(me: httpx.Client, one: str, two: str) -> None:
    session = me.post("/v1/sessions", json={"workspace_id": two}).json()
    refused = me.post(f"/v1/workspaces/{one}/copy", json={"to": two})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "workspace_in_use")
    assert refused.json()["error"]["session_id"] == session["id"]
    code = {"code": "open('just written', 'w').write('x' * 100)"}
    assert me.post(f"/v1/sessions/{session['id']}/executions", json=code).json()["status"] == "ok"
    copied = me.post(f"/v1/workspaces/{two}/copy", json={"to": one, "paths": ["just written"]})
    assert (copied.status_code, copied.json()["size_bytes"]) == (200, 100)
    assert me.get(f"/v1/workspaces/{one}/files/just written").content == b"x" * 100
    for method, address in (("DELETE", f"/v1/workspaces/{two}"), ("PUT", f"/v1/workspaces/{two}/files/x")):
        assert me.request(method, address).json()["error"]["code"] == "workspace_in_use"
    assert me.delete(f"/v1/sessions/{session['id']}").status_code == 200


def test_a_link_reads_one_file_and_is_recorded_without_itself(
    me: httpx.Client, stranger: httpx.Client, s3_service: RunningService, one: str
) -> None:
    address = f"/v1/workspaces/{one}/links"
    made = me.post(address, json={"path": "out/plot.png", "lifetime_seconds": 600})
    assert made.status_code == 201, made.text
    link = made.json()
    assert (link["path"], link["size"]) == ("out/plot.png", 3)
    query = parse_qs(urlsplit(link["url"]).query)
    assert query["X-Amz-Expires"] == ["600"]
    fetched = httpx.get(link["url"], trust_env=False)
    assert (fetched.status_code, fetched.content) == (200, b"png")
    other = link["url"].replace("plot.png", "table.csv", 1)
    assert httpx.get(other, trust_env=False).status_code == 403
    assert stranger.post(address, json={"path": "out/plot.png"}).status_code == 404
    for body, status in (
        ({"path": "absent"}, 404),
        ({"path": "out"}, 409),
        ({"path": "notes", "lifetime_seconds": 0}, 400),
        ({"path": "notes", "lifetime_seconds": 86_401}, 400),
        ({"path": "../x"}, 400),
    ):
        assert me.post(address, json=body).status_code == status
    records = me.get("/v1/audit", params={"event": "CreateLink"}).json()["items"]
    (record,) = [each for each in records if each["allowed"]]
    assert record["principal"] == "admin"
    assert record["detail"]["userIdentity"]["userName"] == "admin"
    assert record["detail"]["requestParameters"]["lifetime_seconds"] == 600
    assert record["detail"]["responseElements"]["expires_at"] == link["expires_at"]
    signature = query["X-Amz-Signature"][0]
    assert signature not in json.dumps(records)
    assert signature not in "".join(s3_service.output)


def test_an_archive_and_ranges_come_from_s3_too(me: httpx.Client, one: str) -> None:
    part = me.get(f"/v1/workspaces/{one}/files/out/table.csv", headers={"Range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, b",b")
    answer = me.get(f"/v1/workspaces/{one}/archive", params={"path": "out"})
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.namelist() == ["out/", "out/plot.png", "out/table.csv"]
    assert archive.read("out/plot.png") == b"png"


def test_a_workspace_is_deleted_and_its_notebook_stays(me: httpx.Client, stranger: httpx.Client) -> None:
    workspace = workspace_of(me)
    address = f"/v1/workspaces/{workspace}"
    me.put(f"{address}/files/x", content=b"x")
    assert stranger.delete(address).status_code == 404
    told = me.delete(address, params={"dry_run": True}).json()
    assert (told["dry_run"], told["file_count"], told["paths"]) == (True, 1, ["x"])
    assert "history.ipynb" in told["kept"]
    assert me.get(f"{address}/files/x").content == b"x"
    done = me.delete(address)
    assert (done.status_code, done.json()["pending"], done.json()["paths"]) == (200, False, ["x"])
    assert me.delete(address).status_code == 404
    assert me.get(f"{address}/files/x").status_code == 404
    assert me.post("/v1/sessions", json={"workspace_id": workspace}).status_code == 404
    assert me.get(f"/v1/sessions/{workspace}/notebook").status_code == 200


def test_a_directory_gives_no_links(http: httpx.Client) -> None:
    workspace = workspace_of(http)
    http.put(f"/v1/workspaces/{workspace}/files/x", content=b"x")
    answer = http.post(f"/v1/workspaces/{workspace}/links", json={"path": "x"})
    assert (answer.status_code, answer.json()["error"]["reason"]) == (409, "no_links")
    assert "download" in answer.json()["error"]["message"]
