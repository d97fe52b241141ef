"""The face by hand: what clients do not send, whose things are whose, and errors."""

from __future__ import annotations

import datetime
import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.integration.kernel_gateway.faces.agent_engine.google import (
    PLACE,
    Google,
    chunk,
    done,
    read_outputs,
    refusal,
)

NOT_FOUND = (404, "NOT_FOUND")
INVALID = (400, "INVALID_ARGUMENT")


def test_every_way_to_write_an_address(google: Google) -> None:
    short = google.sandbox.removeprefix("projects/some/locations/where/")
    body = {"inputs": [chunk(b'{"code": "print(1)"}')]}
    for version in ("v1", "v1beta1"):
        for name in (google.sandbox, short):
            assert google.http.get(f"/{version}/{name}").json()["name"] == google.sandbox
            for verb in (":execute", "/:execute"):
                assert read_outputs(google.http.post(f"/{version}/{name}{verb}", json=body)).out == "1\n"


def test_what_a_short_address_makes_is_where_its_engine_is(google: Google) -> None:
    short = google.engine.removeprefix("projects/some/locations/where/")
    template = done(google.http.post(f"/v1/{short}/sandboxEnvironmentTemplates"))["response"]["name"]
    assert template.startswith(f"{google.engine}/sandboxEnvironmentTemplates/")
    assert google.http.get(f"/v1/{template}").json()["name"] == template
    sandbox = done(google.http.post(f"/v1/{short}/sandboxEnvironments"))["response"]["name"]
    assert google.http.get(f"/v1/{sandbox}").json()["name"] == sandbox
    done(google.http.delete(f"/v1/{sandbox}"))
    done(google.http.delete(f"/v1/{template}"))


def test_what_is_another_principals_is_not_found(google: Google, stranger: httpx.Client) -> None:
    body = {"inputs": [chunk(b'{"code": "print(1)"}')]}
    template = done(google.http.post(f"/v1/{google.engine}/sandboxEnvironmentTemplates"))["response"]["name"]
    for name in (google.engine, google.sandbox, template):
        assert refusal(stranger.get(f"/v1/{name}")) == NOT_FOUND
        assert refusal(stranger.get(f"/v1/{name}/operations/create")) == NOT_FOUND
        assert refusal(stranger.delete(f"/v1/{name}", params={"force": "true"})) == NOT_FOUND
    for kind in ("sandboxEnvironments", "sandboxEnvironmentTemplates", "sandboxEnvironmentSnapshots"):
        assert refusal(stranger.get(f"/v1/{google.engine}/{kind}")) == NOT_FOUND
        assert refusal(stranger.post(f"/v1/{google.engine}/{kind}")) == NOT_FOUND
    assert refusal(stranger.post(f"/v1/{google.sandbox}:execute", json=body)) == NOT_FOUND
    for verb in ("pause", "snapshot"):
        assert refusal(stranger.post(f"/v1/{google.sandbox}:{verb}")) == NOT_FOUND
    assert stranger.get(f"{PLACE}/reasoningEngines").json() == {"reasoningEngines": []}
    mine = done(stranger.post(f"{PLACE}/reasoningEngines"))["response"]["name"]
    asked = {"sandboxEnvironmentTemplate": template}
    assert refusal(stranger.post(f"/v1/{mine}/sandboxEnvironments", json=asked)) == NOT_FOUND
    borrowed = template.replace(google.engine, mine)
    asked = {"sandboxEnvironmentTemplate": borrowed}
    assert refusal(stranger.post(f"/v1/{mine}/sandboxEnvironments", json=asked)) == NOT_FOUND
    assert google.http.get(f"/v1/{template}").status_code == 200
    done(stranger.delete(f"/v1/{mine}"))


def test_a_sandbox_is_found_in_its_own_engine_and_place_alone(google: Google) -> None:
    other = done(google.http.post(f"{PLACE}/reasoningEngines"))["response"]["name"]
    assert refusal(google.http.get(f"/v1/{google.sandbox.replace(google.engine, other)}")) == NOT_FOUND
    assert refusal(google.http.get(f"/v1/{google.sandbox.replace('/some/', '/any/')}")) == NOT_FOUND
    assert refusal(google.http.get(f"/v1/{google.engine}/sandboxEnvironmentTemplates/1")) == NOT_FOUND
    done(google.http.delete(f"/v1/{other}"))


def test_a_sandbox_is_a_session_that_lives_for_two_weeks_at_most(google: Google) -> None:
    asked = {"ttl": "31536000s", "spec": {"shell_environment": {}}}
    sandbox = done(google.http.post(f"/v1/{google.engine}/sandboxEnvironments", json=asked))["response"]
    begun, end = (datetime.datetime.fromisoformat(sandbox[each]) for each in ("createTime", "expireTime"))
    assert end - begun == datetime.timedelta(days=14)
    assert sandbox["spec"] == {"shellEnvironment": {}}
    done(google.http.delete(f"/v1/{sandbox['name']}"))
    again = done(google.http.get(f"/v1/{sandbox['name']}/operations/delete"))
    assert again["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    assert refusal(google.http.get(f"/v1/{sandbox['name']}")) == NOT_FOUND


def test_a_sandbox_begins_as_another_was(google: Google) -> None:
    google.run("tried = [1]; open('tried.txt', 'w').write('one')")
    asked = {"displayName": "first", "owner": "me", "ttl": "3600s"}
    first = done(google.http.post(f"/v1/{google.sandbox}:snapshot", json=asked))["response"]
    assert (first["displayName"], first["owner"], "parentSnapshot" in first) == ("first", "me", False)
    assert first["sourceSandboxEnvironment"] == google.sandbox
    assert int(first["sizeBytes"]) > 3
    google.run("tried.append(2); open('tried.txt', 'w').write('two')")
    second = done(google.http.post(f"/v1/{google.sandbox}:snapshot", json={"postSnapshotAction": "PAUSE"}))["response"]
    assert second["parentSnapshot"] == first["name"]
    shown = google.http.get(f"/v1/{google.sandbox}").json()
    assert (shown["state"], shown["latestSandboxEnvironmentSnapshot"]) == ("STATE_PAUSED", second["name"])
    found = google.http.get(f"/v1/{google.engine}/sandboxEnvironmentSnapshots").json()
    assert [each["name"] for each in found["sandboxEnvironmentSnapshots"]] == [second["name"], first["name"]]
    begun = done(
        google.http.post(f"/v1/{google.engine}/sandboxEnvironments", json={"sandboxEnvironmentSnapshot": first["name"]})
    )["response"]
    assert (begun["state"], begun["sandboxEnvironmentSnapshot"]) == ("STATE_RUNNING", first["name"])
    assert begun["spec"] == shown["spec"]
    other = Google(google.http, google.engine, begun["name"])
    assert other.run("print(tried, open('tried.txt').read())").out == "[1] one\n"
    assert google.run("print(tried, open('tried.txt').read())").out == "[1, 2] two\n"
    for name in (first["name"], second["name"], begun["name"]):
        done(google.http.delete(f"/v1/{name}"))
        assert refusal(google.http.get(f"/v1/{name}")) == NOT_FOUND
        assert google.http.get(f"/v1/{name}/operations/delete").json()["done"] is True


def test_files_go_in_and_what_changed_comes_out(google: Google) -> None:
    files = {"in/one.bin": bytes(range(256)), "same.txt": b"same"}
    said = google.run("import os; os.makedirs('out', exist_ok=True); print(sorted(os.listdir('in')))", files)
    assert (said.out, said.err, said.files) == ("['one.bin']\n", "", {})
    said = google.run("open('out/two.bin', 'wb').write(open('in/one.bin', 'rb').read()[::-1]); open('same.txt').read()")
    assert (said.out, said.files) == ("", {"out/two.bin": bytes(range(256))[::-1]})
    assert google.run("1 / 0").err.endswith("ZeroDivisionError: division by zero\n")
    alone = {"inputs": [chunk(b"alone", "alone.txt")]}
    assert read_outputs(google.http.post(f"/v1/{google.sandbox}:execute", json=alone)).out == ""
    assert google.run("print(open('alone.txt').read())").out == "alone\n"


def test_executions_at_once_run_one_after_the_other_each_with_its_files(google: Google) -> None:
    code = "import os, shutil; word = open('word').read(); open(f'said-{word}', 'w').write(word); print(word)"
    words = [f"{number}" for number in range(6)]
    with ThreadPoolExecutor(len(words)) as pool:
        every = list(pool.map(lambda word: google.run(code, {"word": word.encode()}), words))
    assert [(said.out, said.files) for said in every] == [(f"{w}\n", {f"said-{w}": w.encode()}) for w in words]


def test_large_files_of_an_answer_come_while_they_are_read(google: Google) -> None:
    said = google.run(
        "import os; c = os.urandom(3_000_001); open('large', 'wb').write(c); open('few', 'wb').write(b'x')"
    )
    assert (len(said.files["large"]), said.files["few"]) == (3_000_001, b"x")
    assert google.run("print(open('large', 'rb').read() == c)").out == "True\n"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1beta1/nothing", None, NOT_FOUND),
        ("GET", "/v1beta1/projects/some/locations/where/nothing", None, NOT_FOUND),
        ("PATCH", "{engine}", {}, NOT_FOUND),
        ("GET", "/v1/projects/a.b/locations/l/reasoningEngines", None, INVALID),
        ("POST", f"{PLACE}/reasoningEngines", {"spec": {"packageSpec": {}}}, (501, "UNIMPLEMENTED")),
        ("POST", "{engine}/sandboxEnvironments", {"ttl": "an hour"}, INVALID),
        ("POST", "{engine}/sandboxEnvironments", {"ttl": "0s"}, INVALID),
        ("POST", "{engine}/sandboxEnvironments", {"ttl": "9s", "expireTime": "2100-01-01T00:00:00Z"}, INVALID),
        ("POST", "{engine}/sandboxEnvironments", {"expireTime": "2001-01-01T00:00:00Z"}, INVALID),
        ("POST", "{engine}/sandboxEnvironments", {"spec": {"computerUseEnvironment": {}}}, (501, "UNIMPLEMENTED")),
        ("POST", "{engine}/sandboxEnvironments", {"sandboxEnvironmentSnapshot": "s"}, INVALID),
        ("POST", "{engine}/sandboxEnvironments", {"sandboxEnvironmentSnapshot": "{snapshots}/1"}, NOT_FOUND),
        ("POST", "{engine}/sandboxEnvironments", {"sandboxEnvironmentTemplate": "s"}, INVALID),
        ("GET", "{engine}/sandboxEnvironments?pageToken=none", None, INVALID),
        ("GET", "{engine}/sandboxEnvironments?filter=size>1", None, INVALID),
        ("GET", "{engine}/sandboxEnvironmentSnapshots/1", None, NOT_FOUND),
        ("DELETE", "{engine}/sandboxEnvironmentSnapshots/1", None, NOT_FOUND),
        ("POST", "{sandbox}:snapshot", {"ttl": "0s"}, INVALID),
        ("POST", "{sandbox}:snapshot", {"postSnapshotAction": "DELETE"}, INVALID),
        ("POST", "{sandbox}:execute", {}, INVALID),
        ("POST", "{sandbox}:execute", {"inputs": [{"data": "%"}]}, INVALID),
        ("POST", "{sandbox}:execute", {"inputs": [chunk(b"", "../x")]}, INVALID),
        ("POST", "{sandbox}:execute", {"inputs": [chunk(b"", "/etc/x")]}, INVALID),
        ("DELETE", "{engine}", None, (400, "FAILED_PRECONDITION")),
    ],
)
def test_errors_have_googles_shape(
    google: Google, method: str, path: str, body: object, status: tuple[int, str]
) -> None:
    address = path.replace("{engine}", f"/v1/{google.engine}").replace("{sandbox}", f"/v1/{google.sandbox}")
    snapshots = f"{google.engine}/sandboxEnvironmentSnapshots"
    content = None if body is None else json.dumps(body).replace("{snapshots}", snapshots)
    answer = google.http.request(method, address, content=content, headers={"Content-Type": "application/json"})
    assert refusal(answer) == status


def test_a_body_that_is_too_large_is_refused_before_it_comes(google: Google) -> None:
    url = google.http.base_url
    connection = http.client.HTTPConnection(url.host, url.port, timeout=120)
    headers = {**google.http.headers, "Content-Type": "application/json", "Content-Length": str(10**9)}
    connection.request("POST", f"/v1/{google.sandbox}:execute", headers=headers)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["status"]) == INVALID
    connection.close()


def test_an_execution_is_on_record_without_what_was_in_it(google: Google) -> None:
    google.run("print('a-word-of-the-code')", {"recorded.txt": b"a-word-of-the-file"})
    headers = {"Authorization": f"Bearer {google.http.headers['x-goog-api-key']}"}
    answer = google.http.get("/v1/audit", params={"event": "ExecuteSandboxEnvironment", "limit": 1}, headers=headers)
    (found,) = answer.json()["items"]
    assert found["detail"]["eventSource"] == "aiplatform.googleapis.com"
    assert found["session_id"]
    assert "a-word-of-the" not in answer.text
    assert google.sandbox.rpartition("/")[2] in answer.text
