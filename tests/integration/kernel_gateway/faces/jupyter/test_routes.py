"""The routes: their success codes, the fields that clients read, who may do what, and errors in the form they read."""

from __future__ import annotations

import http.client
import re
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.integration.kernel_gateway.faces.jupyter.conftest import Face, http_of
from tests.integration.kernel_gateway.faces.jupyter.test_bad_frames import until
from tests.running_service import RunningService

UUID = re.compile(r"\w+-\w+-\w+-\w+-\w+")
STATES = {"starting", "idle", "busy", "restarting", "dead"}
NEEDS_TOKEN = [
    ("GET", "/api"),
    ("GET", "/api/status"),
    ("GET", "/api/kernelspecs"),
    ("GET", "/api/kernelspecs/python"),
    ("GET", "/kernelspecs/python/logo-64x64.png"),
    ("GET", "/api/kernels"),
    ("POST", "/api/kernels"),
    ("GET", "/api/kernels/{id}"),
    ("DELETE", "/api/kernels/{id}"),
    ("POST", "/api/kernels/{id}/interrupt"),
    ("POST", "/api/kernels/{id}/restart"),
    ("GET", "/api/kernels/{id}/channels"),
    ("GET", "/api/sessions"),
    ("POST", "/api/sessions"),
    ("GET", "/api/sessions/{id}"),
    ("PATCH", "/api/sessions/{id}"),
    ("DELETE", "/api/sessions/{id}"),
    ("GET", "/api/contents"),
]


@pytest.fixture(scope="module")
def stranger(service: RunningService) -> Iterator[httpx.Client]:
    """Another principal."""
    with service.client() as client:
        token = client.create_token("stranger").token
    assert token is not None
    with http_of(service.url, token) as found:
        yield found


@pytest.fixture(scope="module")
def other_id(owner: Face) -> Iterator[str]:
    """Another session of the same owner, started as JupyterLab starts a kernel."""
    answer = owner.http.post(
        "/api/kernels", json={"name": "python", "env": {"KERNEL_USERNAME": "ada", "KERNEL_SECRET": "x"}}
    )
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/api/kernels/{answer.json()['id']}"
    yield answer.json()["id"]
    owner.http.delete(f"/api/kernels/{answer.json()['id']}")


def check_kernel(model: dict[str, Any]) -> None:
    assert UUID.fullmatch(model["id"])
    assert model["name"] == "python"
    assert datetime.strptime(model["last_activity"], "%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: DTZ007 - as the clients parse it
    assert model["execution_state"] in STATES
    assert int(model["connections"]) >= 0


def test_kernelspecs_have_every_field_that_clients_read(owner: Face) -> None:
    answer = owner.http.get("/api/kernelspecs", params={"user": "ada"})
    assert answer.status_code == 200
    found = answer.json()
    assert found["default"] == "python"
    for name, model in found["kernelspecs"].items():
        assert model["name"] == name
        assert model["spec"]["argv"] == ["remote"]
        assert model["spec"]["language"] == "python"
        assert model["spec"]["display_name"]
        assert isinstance(model["resources"], dict)
    assert owner.http.get("/api/kernelspecs/python").json() == found["kernelspecs"]["python"]
    assert owner.http.get("/api/kernelspecs/none").status_code == 404


def test_the_debugger_is_there_where_the_image_has_it(owner: Face) -> None:
    assert owner.http.get("/api/kernelspecs/python").json()["spec"]["metadata"] == {"debugger": True}


def test_the_id_of_a_kernel_is_not_the_clients_to_choose(owner: Face) -> None:
    refused = owner.http.post("/api/kernels", json={"name": "python", "id": str(uuid.uuid4())})
    assert (refused.status_code, refused.json()["reason"]) == (400, "invalid_request")
    assert "leave it out" in refused.json()["message"]


def test_paths_of_the_service_are_nobodys(owner: Face) -> None:
    """JupyterLab asks where a file of a traceback is on its server: there is none here, and nothing is made up."""
    answer = owner.http.get("/api/resolvePath", params={"path": "/workspace/a.py", "kernel": owner.kernel_id})
    assert (answer.status_code, answer.json()["reason"]) == (404, "unknown_route")


def test_logos_are_pictures(owner: Face) -> None:
    resources = owner.http.get("/api/kernelspecs/python").json()["resources"]
    types = {path: owner.http.get(path).headers["Content-Type"] for path in resources.values()}
    assert types == {
        "/kernelspecs/python/logo-32x32.png": "image/png",
        "/kernelspecs/python/logo-64x64.png": "image/png",
        "/kernelspecs/python/logo-svg.svg": "image/svg+xml",
    }
    assert owner.http.get("/kernelspecs/python/logo-64x64.png").content.startswith(b"\x89PNG")
    assert owner.http.get("/kernelspecs/python/kernel.json").status_code == 404


def test_an_attach_token_sees_one_kernelspec(guest: Face) -> None:
    assert list(guest.http.get("/api/kernelspecs").json()["kernelspecs"]) == ["python"]


def test_a_live_session_is_a_kernel(owner: Face, other_id: str) -> None:
    models = {each["id"]: each for each in owner.http.get("/api/kernels?1700000000000").json()}
    assert {owner.kernel_id, other_id} <= set(models)
    for model in models.values():
        check_kernel(model)
    one = owner.http.get(f"/api/kernels/{owner.kernel_id}")
    assert one.status_code == 200
    check_kernel(one.json())


def test_an_attach_token_sees_its_kernel_alone(guest: Face, other_id: str) -> None:
    assert [each["id"] for each in guest.http.get("/api/kernels").json()] == [guest.kernel_id]
    assert [each["id"] for each in guest.http.get("/api/sessions").json()] == [guest.kernel_id]
    assert guest.http.get("/api/status").json()["kernels"] == 1


def test_connections_are_counted(owner: Face, guest: Face) -> None:
    with owner.wire() as wire:
        wire.finished(wire.send("shell", "kernel_info_request", {}))
        assert guest.http.get(f"/api/kernels/{owner.kernel_id}").json()["connections"] == 1


def test_vs_code_finds_a_session_by_its_title(owner: Face) -> None:
    models = {each["id"]: each for each in owner.http.get("/api/sessions").json()}
    model = models[owner.kernel_id]
    assert (model["path"], model["name"], model["type"]) == ("analysis of Q3", "analysis of Q3", "notebook")
    assert model["notebook"] == {"path": "analysis of Q3", "name": "analysis of Q3"}
    check_kernel(model["kernel"])
    assert owner.http.get(f"/api/sessions/{owner.kernel_id}").json()["id"] == owner.kernel_id


@pytest.mark.parametrize("who", ["owner", "guest"])
def test_a_session_for_a_live_kernel_is_that_kernels(request: pytest.FixtureRequest, who: str) -> None:
    face: Face = request.getfixturevalue(who)
    body = {"path": "a.ipynb", "name": "", "type": "notebook", "kernel": {"id": face.kernel_id, "name": "python"}}
    answer = face.http.post("/api/sessions", json=body)
    assert answer.status_code == 201
    assert answer.json()["kernel"]["id"] == face.kernel_id


def test_an_owner_gives_a_title_and_a_guest_does_not(owner: Face, guest: Face) -> None:
    address = f"/api/sessions/{owner.kernel_id}"
    assert owner.http.patch(address, json={"path": "b.ipynb", "name": "b"}).json()["path"] == "b.ipynb"
    moved = owner.http.patch(address, json={"path": "c.py", "type": "console"}).json()
    assert (moved["path"], moved["name"], moved["type"]) == ("c.py", "b", "console")
    assert owner.http.patch(address, json={"type": "notebook"}).json()["type"] == "notebook"
    owner.http.patch(address, json={"path": "b.ipynb"})
    answer = guest.http.patch(address, json={"path": "mine.ipynb"})
    assert (answer.status_code, answer.json()["path"]) == (200, "b.ipynb")
    owner.http.patch(address, json={"path": "analysis of Q3", "name": "analysis of Q3"})


def test_changing_the_kernel_is_going_to_another_session(owner: Face, other_id: str) -> None:
    answer = owner.http.patch(f"/api/sessions/{owner.kernel_id}", json={"kernel": {"id": other_id}})
    assert (answer.status_code, answer.json()["kernel"]["id"]) == (200, other_id)


def test_a_session_starts_a_kernel_for_its_owner_and_its_end_ends_it(owner: Face) -> None:
    body = {"path": "new.ipynb", "type": "notebook", "name": "", "kernel": {"name": "python3"}}
    answer = owner.http.post("/api/sessions", json=body)
    assert answer.status_code == 201
    made = answer.json()
    assert made["path"] == "new.ipynb"
    assert answer.headers["Location"] == f"/api/sessions/{made['id']}"
    with owner.wire(kernel_id=made["id"]) as wire:
        messages = wire.run("import os; sorted(name for name in os.environ if 'KERNEL' in name)")
    assert messages[-1]["content"]
    assert owner.http.delete(f"/api/sessions/{made['id']}").status_code == 204
    for address in (f"/api/sessions/{made['id']}", f"/api/kernels/{made['id']}"):
        assert owner.http.get(address).status_code == 404
    assert owner.http.delete(f"/api/kernels/{made['id']}").status_code == 404
    assert owner.http.get(f"/api/kernels/{made['id']}/channels").status_code == 404


def test_a_session_that_ended_by_itself_is_a_dead_kernel(owner: Face, service: RunningService) -> None:
    with service.client() as client:
        session = client.start_session("python", timeout_seconds=1)
        until(lambda: client.get_session(session.id).status == "TERMINATED")
    answer = owner.http.get(f"/api/kernels/{session.id}")
    assert answer.status_code == 200
    check_kernel(answer.json())
    assert answer.json()["execution_state"] == "dead"
    assert "time-to-live" in answer.json()["reason"]
    assert session.id not in [each["id"] for each in owner.http.get("/api/kernels").json()]
    assert owner.http.post(f"/api/kernels/{session.id}/interrupt", json={}).status_code == 404


def test_starting_is_the_owners(guest: Face) -> None:
    started = guest.http.post("/api/kernels", json={"name": "python"})
    by_session = guest.http.post("/api/sessions", json={"path": "x", "kernel": {"name": "python"}})
    by_change = guest.http.patch(f"/api/sessions/{guest.kernel_id}", json={"kernel": {"name": "python"}})
    assert [each.status_code for each in (started, by_session, by_change)] == [403, 403, 403]


def test_nothing_a_guest_deletes_is_gone(guest: Face, owner: Face) -> None:
    for address in (f"/api/kernels/{guest.kernel_id}", f"/api/sessions/{guest.kernel_id}"):
        answer = guest.http.delete(address)
        assert (answer.status_code, answer.content) == (204, b"")
    assert owner.http.get(f"/v1/sessions/{guest.kernel_id}", headers=bearer(owner)).json()["status"] == "READY"


def test_a_restart_is_granted_by_the_owner(owner: Face, guest: Face, service: RunningService) -> None:
    address = f"/api/kernels/{owner.kernel_id}/restart"
    assert guest.http.post(address, json={}).status_code == 403
    with service.client() as client:
        token = client.create_attach_token(owner.kernel_id, name="Grace", can=["restart"]).token
        before = client.get_session(owner.kernel_id).generation
        assert token is not None
        with http_of(service.url, token) as granted:
            answer = granted.post(address, json={})
        assert answer.status_code == 200
        check_kernel(answer.json())
        assert client.get_session(owner.kernel_id).generation == before + 1
        assert b"asked for by `Grace`" in client.notebook(owner.kernel_id)
        assert owner.http.post(address, json={}).status_code == 200


@pytest.mark.parametrize("who", ["owner", "guest"])
def test_an_interrupt_reaches_the_running_cell(request: pytest.FixtureRequest, who: str) -> None:
    face: Face = request.getfixturevalue(who)
    with face.wire() as wire:
        msg_id = wire.execute("print('there'); import time; time.sleep(600)")
        wire.until_shown("there")
        assert face.http.get(f"/api/kernels/{face.kernel_id}").json()["execution_state"] == "busy"
        assert face.http.post(f"/api/kernels/{face.kernel_id}/interrupt", json={}).status_code == 204
        errors = [each for each in wire.finished(msg_id) if each["header"]["msg_type"] == "error"]
    assert [each["content"]["ename"] for each in errors] == ["KeyboardInterrupt"]


@pytest.mark.parametrize(("method", "path"), NEEDS_TOKEN)
def test_without_a_token_that_counts_there_is_nothing(owner: Face, method: str, path: str) -> None:
    for headers in (
        {},
        {"Authorization": "token"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic eA=="},
    ):
        answer = httpx.request(
            method, owner.url + path.format(id=owner.kernel_id), headers={**headers, "Origin": "http://elsewhere"}
        )
        assert answer.status_code == 401
        assert set(answer.json()) == {"message", "reason"}
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("route", [each for each in NEEDS_TOKEN if "{id}" in each[1]], ids=" ".join)
def test_a_kernel_out_of_reach_is_not_there(
    owner: Face, guest: Face, stranger: httpx.Client, other_id: str, route: tuple[str, str]
) -> None:
    method, path = route
    body = {"json": {}} if method in ("POST", "PATCH") else {}
    absent = owner.http.request(method, path.format(id=uuid.UUID(int=7)), **body)
    for each in (guest.http, stranger):
        answer = each.request(method, path.format(id=other_id), **body)
        assert (answer.status_code, answer.json()["reason"]) == (404, "not_found")
    assert absent.status_code == 404


def test_a_kernel_out_of_reach_is_nothing_to_make_a_session_for(guest: Face, other_id: str) -> None:
    assert guest.http.post("/api/sessions", json={"path": "x", "kernel": {"id": other_id}}).status_code == 404


@pytest.mark.parametrize("path", ["/", "/tree", "/tree?"])
def test_no_password_is_asked_for(owner: Face, path: str) -> None:
    answer = httpx.get(owner.url + path)
    assert answer.status_code == 404
    assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize("form", ["token", "Token", "bearer", "query", "both"])
def test_a_token_comes_in_each_form(guest: Face, form: str) -> None:
    headers = {} if form == "query" else {"Authorization": f"{'token' if form == 'both' else form} {guest.token}"}
    params = {"token": guest.token} if form in ("query", "both") else {}
    answer = httpx.get(f"{guest.url}/api/kernels", headers=headers, params=params)
    assert answer.status_code == 200
    assert "Set-Cookie" not in answer.headers


def test_an_empty_header_is_none(guest: Face) -> None:
    connection = http.client.HTTPConnection(guest.url.removeprefix("http://"), timeout=120)
    connection.request("GET", f"/api/kernels?token={guest.token}", headers={"Authorization": "token "})
    assert connection.getresponse().status == 200
    connection.close()


def test_an_attach_token_is_for_this_face_alone(guest: Face) -> None:
    for path in ("/v1/sessions", f"/v1/sessions/{guest.kernel_id}", f"/v1/sessions/{guest.kernel_id}/attach-tokens"):
        assert httpx.get(guest.url + path, headers=bearer(guest)).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/contents", None, 404),
        ("GET", "/api/kernels/{id}/nothing", None, 404),
        ("GET", "/kernelspecs", None, 404),
        ("PUT", "/api/kernels", b"{}", 405),
        ("POST", "/api/kernels/{id}/channels", b"{}", 405),
        ("POST", "/api/kernels", b"{", 400),
        ("POST", "/api/kernels", b"[]", 400),
        ("POST", "/api/kernels", b'{"name": 7}', 400),
        ("POST", "/api/kernels", b'{"name": "no such kernel"}', 404),
        ("POST", "/api/kernels", b"x" * 100_000, 413),
        ("POST", "/api/sessions", b"{}", 400),
        ("POST", "/api/sessions", b'{"kernel": {"id": "x"}}', 404),
        ("GET", "/api/kernels/{id}/channels", None, 400),
        ("GET", "/api/kernels?" + "&".join(f"a{n}=1" for n in range(100)), None, 400),
    ],
)
def test_bad_input_gets_an_object_with_a_message_and_a_reason(
    owner: Face, method: str, path: str, body: bytes | None, status: int
) -> None:
    answer = owner.http.request(method, path.format(id=owner.kernel_id), content=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"message", "reason"}
    assert all(isinstance(each, str) and each for each in answer.json().values())


def test_a_page_in_a_browser_may_come_with_a_token(guest: Face) -> None:
    asked = httpx.options(
        f"{guest.url}/api/kernels",
        headers={"Origin": "http://elsewhere", "Access-Control-Request-Method": "POST"},
    )
    assert asked.status_code == 204
    assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
    assert {"GET", "POST", "PATCH", "DELETE"} <= set(asked.headers["Access-Control-Allow-Methods"].split(", "))
    for path in ("/api/kernels", "/api/nothing"):
        answer = guest.http.get(path, headers={"Origin": "http://elsewhere"})
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers


def test_calls_are_in_the_audit_log(owner: Face, guest: Face, service: RunningService) -> None:
    guest.http.get(f"/api/kernels/{guest.kernel_id}", params={"token": guest.token})
    with guest.wire(in_query=True) as wire:
        wire.finished(wire.send("shell", "kernel_info_request", {}))
    with service.client() as client:
        records = client.list_audit(session_id=owner.kernel_id, limit=200).items
    ours = [each for each in records if each.detail.get("eventSource") == "jupyter.sandcell"]
    assert {"GetKernel", "OpenChannels"} <= {each.event for each in ours}
    shown = next(
        each for each in ours if each.event == "GetKernel" and each.detail["requestParameters"].get("attached")
    )
    assert shown.detail["userIdentity"]["userName"] == "admin"
    assert all(guest.token not in str(each) for each in records)


def bearer(face: Face) -> dict[str, str]:
    return {"Authorization": f"Bearer {face.token}"}
