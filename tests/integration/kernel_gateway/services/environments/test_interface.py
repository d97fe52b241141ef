"""Environments and agents over REST, from the client and from the command line, and who may do what when."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandcell import Conflict, NotFound
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.integration.kernel_gateway.server.rest import Rest
from tests.integration.kernel_gateway.services.environments.conftest import Place

ID = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,47}-[a-zA-Z0-9]{10}")


def refusal(rest: Rest, method: str, path: str, **body: Any) -> tuple[int, str]:
    answer = rest.http.request(method, path, json=body or None)
    return answer.status_code, answer.json()["error"]["code"]


def test_the_life_of_an_environment(rest: Rest) -> None:
    answer = rest.http.post("/v1/environments", json={"name": "life", "description": "d", "tags": {"team": "a"}})
    assert answer.status_code == 201
    made = answer.json()
    assert ID.fullmatch(made["id"])
    assert (made["kind"], made["status"], made["name"], made["runtime"]) == ("made", "READY", "life", "runc")
    assert made["created_at"] == made["updated_at"]
    for name in ("life", made["id"]):
        assert rest.get(f"/v1/environments/{name}") == made
    listed = [each["id"] for each in rest.get("/v1/environments")["items"]]
    assert listed.index("python") < listed.index(made["id"])
    assert made["id"] in [each["id"] for each in rest.get("/v1/environments?kind=made")["items"]]
    assert [each["id"] for each in rest.get("/v1/environments?kind=host")["items"]] == ["python", "strong"]
    changed = rest.post("/v1/environments/life/tags", set={"new": "1"}, remove=["team"])
    assert changed["tags"] == {"new": "1"}
    assert rest.http.delete("/v1/environments/life").json()["status"] == "DELETED"
    assert refusal(rest, "GET", f"/v1/environments/{made['id']}") == (404, "unknown_environment")
    assert refusal(rest, "DELETE", "/v1/environments/life") == (404, "unknown_environment")


@pytest.mark.parametrize(
    ("method", "path", "body", "refused"),
    [
        ("POST", "", {"name": "no-hyphen"}, (400, "invalid_request")),
        ("POST", "", {"name": "x", "memory_mb": 10_241}, (400, "invalid_request")),
        ("POST", "", {"name": "x", "memory_mb": "much"}, (400, "invalid_request")),
        ("POST", "", {"name": "x", "network": "VPC"}, (400, "invalid_request")),
        ("POST", "", {"name": "x", "image": "none"}, (400, "invalid_request")),
        ("POST", "", {"name": "x", "nme": "x"}, (400, "invalid_request")),
        ("POST", "", {"name": "python"}, (409, "conflict")),
        ("GET", "/nowhere", {}, (404, "unknown_environment")),
        ("GET", "/" + "x" * 200, {}, (404, "not_found")),
        ("GET", "/a%00b", {}, (404, "not_found")),
        ("GET", "?kind=other", {}, (400, "invalid_request")),
        ("GET", "?limit=0", {}, (400, "invalid_request")),
        ("GET", "?cursor=%25", {}, (400, "invalid_request")),
        ("DELETE", "/python", {}, (403, "forbidden")),
        ("POST", "/python/tags", {"set": {"a": "b"}}, (403, "forbidden")),
        ("GET", "/nowhere/dependents", {}, (404, "unknown_environment")),
        ("POST", "/nowhere/attach", {"detached_from": "python"}, (404, "unknown_environment")),
    ],
)
def test_what_makes_no_sense_is_refused(
    rest: Rest, method: str, path: str, body: dict[str, Any], refused: tuple[int, str]
) -> None:
    assert refusal(rest, method, f"/v1/environments{path}", **body) == refused


def test_another_principal_sees_nothing_of_it(rest: Rest, place: Place) -> None:
    made = rest.post("/v1/environments", name="mine")["id"]
    token = rest.post("/v1/tokens", principal="eve")["token"]
    with Rest(place.service, token) as eve:
        unknown = (404, "unknown_environment")
        assert refusal(eve, "GET", f"/v1/environments/{made}") == unknown
        assert refusal(eve, "DELETE", f"/v1/environments/{made}") == unknown
        assert refusal(eve, "POST", f"/v1/environments/{made}/tags", set={"a": "b"}) == unknown
        assert refusal(eve, "POST", f"/v1/environments/{made}/detach") == unknown
        assert refusal(eve, "POST", "/v1/sessions", environment=made) == unknown
        assert refusal(eve, "PUT", "/v1/agents/bot", environment=made) == unknown
        assert eve.get("/v1/environments?kind=made")["items"] == []
        eve.post("/v1/environments", name="mine")
    rest.http.delete(f"/v1/environments/{made}").raise_for_status()


def test_agents_are_detached_and_come_back_and_start_sessions_meanwhile_or_not(rest: Rest) -> None:
    made = rest.post("/v1/environments", name="lab")["id"]
    for agent in ("a.one", "b@two"):
        said = rest.http.put(f"/v1/agents/{agent}", json={"environment": "lab"})
        assert (said.status_code, said.json()["environment"]) == (200, made)
    with rest.session(agent="a.one") as session:
        assert (session.show()["environment"], session.show()["agent"]) == (made, "a.one")
        needs = rest.get("/v1/environments/lab/dependents")
        assert (needs["agents"], needs["sessions"], needs["environment"]) == (["a.one", "b@two"], [session.id], made)
        moved = rest.http.post("/v1/environments/lab/detach").json()
        assert (moved["agents"], moved["count"]) == (["a.one", "b@two"], 2)
        session.works()
        assert refusal(rest, "POST", "/v1/sessions", agent="b@two") == (409, "agent_detached")
        assert refusal(rest, "POST", "/v1/sessions", agent="b@two", environment="python") == (409, "agent_detached")
        assert refusal(rest, "DELETE", "/v1/environments/lab") == (409, "has_dependents")
        assert rest.post("/v1/environments/lab/attach")["count"] == 2
        shown = rest.get(f"/v1/sessions?environment={made}&status=READY")["items"]
        assert [each["id"] for each in shown] == [session.id]
    rest.http.post("/v1/environments/lab/detach").raise_for_status()
    rest.http.delete("/v1/environments/lab").raise_for_status()
    again = rest.post("/v1/environments", name="lab")["id"]
    assert rest.post("/v1/environments/lab/attach", detached_from=made)["agents"] == ["a.one", "b@two"]
    assert rest.get("/v1/agents/a.one")["environment"] == again
    for agent in ("a.one", "b@two"):
        assert rest.http.delete(f"/v1/agents/{agent}").status_code == 204
    assert refusal(rest, "GET", "/v1/agents/a.one") == (404, "not_found")
    rest.http.delete("/v1/environments/lab").raise_for_status()


def test_a_name_that_nobody_registered_stays_a_label(rest: Rest) -> None:
    with rest.session(agent="some label of mine") as session:
        assert (session.show()["environment"], session.show()["agent"]) == ("python", "some label of mine")


def test_starts_and_a_delete_at_the_same_time_never_both_succeed_on_one_environment(rest: Rest) -> None:
    """Whichever is first, no live session is left whose environment is gone."""
    for number in range(4):
        name = f"race{number}"
        made = rest.post("/v1/environments", name=name)["id"]
        calls = [("POST", "/v1/sessions", {"environment": made}), ("DELETE", f"/v1/environments/{made}", None)] * 2
        with ThreadPoolExecutor(4) as pool:
            asked = calls if number % 2 else calls[::-1]
            answers = list(pool.map(lambda call: rest.http.request(call[0], call[1], json=call[2]), asked))
        started = [each for each in answers if each.request.method == "POST"]
        deleted = [each for each in answers if each.request.method == "DELETE"]
        live = [answer.json()["id"] for answer in started if answer.status_code == 201]
        assert {answer.status_code for answer in started} <= {201, 404}, [answer.text for answer in started]
        gone = [answer.status_code for answer in deleted].count(200)
        if live:
            assert gone == 0
            assert rest.get(f"/v1/environments/{made}/dependents")["session_count"] == len(live)
        else:
            assert gone == 1
        for session_id in live:
            rest.http.delete(f"/v1/sessions/{session_id}").raise_for_status()
        if not gone:
            rest.http.delete(f"/v1/environments/{made}").raise_for_status()


def test_quotas_are_told_apart_from_rates(make_place: Callable[..., Place]) -> None:
    place = make_place(environments_per_principal=1, agents_per_principal=1)
    with Rest(place.service) as rest:
        rest.post("/v1/environments", name="one")
        assert refusal(rest, "POST", "/v1/environments", name="two") == (409, "quota_reached")
        rest.http.put("/v1/agents/one", json={"environment": "one"}).raise_for_status()
        assert refusal(rest, "PUT", "/v1/agents/two", environment="one") == (409, "quota_reached")
    assert place.service.stop() == 0


def test_the_client_has_a_method_for_each(place: Place) -> None:
    with place.service.client() as client:
        made = client.create_environment("client", memory_mb=1_900, vcpus=0.75, tags={"a": "1"})
        assert made.vcpus == 0.75
        assert client.get_environment("client") == made
        assert made in client.list_environments(kind="made").items
        assert client.tag_environment("client", {"b": "2"}, remove=["a"]).tags == {"b": "2"}
        assert client.put_agent("bot", "client", description="d").environment == made.id
        assert client.get_agent("bot") in client.list_agents().items
        assert client.environment_dependents("client").agents == ["bot"]
        with pytest.raises(Conflict) as refused:
            client.delete_environment("client")
        assert refused.value.code == "has_dependents"
        with client.session(agent="bot") as session:
            assert session.info.environment == made.id
        assert client.detach_agents("client").agents == ["bot"]
        assert client.attach_agents("client").agents == ["bot"]
        client.delete_agent("bot")
        assert client.delete_environment("client").status == "DELETED"
        with pytest.raises(NotFound):
            client.get_environment("client")


@pytest.mark.sample("doors")
def test_the_command_line_makes_shows_and_deletes(place: Place, tmp_path: Path) -> None:
    sandcell = Shell(place.service, tmp_path)
    created = sandcell("environments", "create", "cli", "--memory-mb", "1800", "--tag", "team=x", "--network", "PUBLIC")
    assert created.returncode == 0, created.stderr
    made = created.stdout.strip()
    assert ID.fullmatch(made)
    row = next(line for line in sandcell("environments", "ls").stdout.splitlines() if line.startswith(made))
    assert row.split("\t")[1:7] == ["python", "runc", "PUBLIC", "1800", "512", "READY"]
    assert made not in sandcell("environments", "ls", "--kind", "host").stdout
    assert sandcell("agents", "set", "bot", "--environment", "cli").returncode == 0
    assert f"bot\t{made}" in sandcell("agents", "ls").stdout
    session = sandcell("session", "new", "--agent", "bot").stdout.strip()
    assert json.loads(sandcell("session", "show", "--json").stdout)["environment"] == made
    same = sandcell("run", "--environment", "cli", "import os; print(os.getpid() > 0)")
    assert (same.returncode, same.stdout, same.stderr) == (0, "True\n", ""), "its own name is that of its environment"
    shown = sandcell("environments", "show", "cli").stdout
    assert sandcell("environments", "tag", "cli", "new=1", "--remove", "none").stdout == "team\tx\nnew\t1\n"
    for part in (made, "1,800 MB", "team=x", "bot", session):
        assert part in shown
    refused = sandcell("environments", "rm", "cli")
    assert refused.returncode == 7
    assert "1 agent and 1 live session" in refused.stderr
    assert "detached 1 agent (bot) from" in sandcell("environments", "detach", "cli").stderr
    assert sandcell("session", "new", "--agent", "bot").returncode == 7
    assert sandcell("session", "stop").returncode == 0
    assert sandcell("environments", "rm", "cli").returncode == 0
    assert sandcell("agents", "rm", "bot").returncode == 0
    wrong = sandcell("environments", "create", "cli", "--tag", "nothing")
    assert (wrong.returncode, "KEY=VALUE" in wrong.stderr) == (2, True)


def test_what_is_installed_is_listed_page_by_page(rest: Rest, place: Place, tmp_path: Path) -> None:
    whole = rest.get("/v1/environments/python/packages?limit=1000")["items"]
    pandas = next(each for each in whole if each["name"] == "pandas")
    assert (pandas["kind"], pandas["source"]) == ("python", "pip")
    assert {"python", "system"} == {each["kind"] for each in whole}
    paged, cursor = [], ""
    while cursor is not None:
        page = rest.get(f"/v1/environments/python/packages?limit=50{cursor and f'&cursor={cursor}'}")
        paged, cursor = paged + page["items"], page["next_cursor"]
    assert paged == whole
    sandcell = Shell(place.service, tmp_path)
    made = rest.post("/v1/environments", name="listing")["id"]
    assert rest.get(f"/v1/environments/{made}/packages?name=Pandas")["items"] == [pandas]
    assert refusal(rest, "GET", "/v1/environments/nowhere/packages") == (404, "unknown_environment")
    assert refusal(rest, "GET", "/v1/environments/python/packages?cursor=eA") == (400, "invalid_request")
    printed = sandcell("environments", "packages", "listing", "--name", "pandas").stdout
    assert printed.split() == ["pandas", pandas["version"], "python", "pip"]
    assert json.loads(sandcell("environments", "packages", "python", "--json").stdout) == whole
    assert rest.http.delete(f"/v1/environments/{made}").status_code == 200


def test_images_are_shown_by_the_client_and_on_the_command_line(place: Place, tmp_path: Path) -> None:
    with place.service.client() as client:
        (python,) = [each for each in client.list_images().items if each.name == "python"]
        assert {"python", "strong"} <= set(python.environments)
        assert python.digest == client.get_environment("python").digest
        for name in (python.digest, "python", "strong"):
            assert client.get_image(name).image == python
        for ask in (client.get_image, client.get_image_sbom):
            with pytest.raises(NotFound):
                ask("ruby")
    sandcell = Shell(place.service, tmp_path)
    row = next(line for line in sandcell("environments", "images").stdout.splitlines() if line.startswith("python\t"))
    assert row.split("\t")[1] == python.digest[7:19]
    assert json.loads(sandcell("environments", "images", "strong", "--json").stdout)["image"]["digest"] == python.digest
    assert sandcell("environments", "images", "--sbom").returncode == 2
