"""Kernels that an image declares run as languages of its sessions, beside Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest

from tests.doubles.declared_kernels import NAME, build_image
from tests.integration.kernel_gateway.faces.jupyter.wire import reply_of, text_of, wire
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

DECLARED = ("gone", "loud", "shout")


@pytest.fixture(scope="module")
def many(
    make_service: Callable[..., RunningService], environments_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunningService:
    place = tmp_path_factory.mktemp("many")
    place.chmod(0o755)
    return make_service(
        environments_dir=build_image(place, environments_dir),
        invocations_per_second=1000,
        interrupt_grace_seconds=2.0,
        keep_sessions_on_shutdown=True,
    )


@pytest.fixture(scope="module")
def session(many: RunningService) -> Iterator[LiveSession]:
    with Rest(many) as rest:
        session = rest.session(environment=NAME)
        yield session
    with Rest(many) as rest:  # it may have started again meanwhile
        rest.http.delete(session.path)


def shout(session: LiveSession, code: str, **how: Any) -> Any:
    return session.run(code, **{"language": "shout", **how})


def said(session: LiveSession, code: str, **how: Any) -> str:
    outcome = shout(session, code, **how)
    assert outcome["status"] == "ok", outcome
    return str(outcome["stdout"]).strip()


@pytest.mark.sample("doors")
def test_its_kernels_run_beside_python_and_keep_their_state(session: LiveSession) -> None:
    session.run("shared = 1; open('from-python', 'w').close()")
    assert (said(session, "hello"), said(session, "again", language="Shout")) == ("HELLO", "AGAIN")
    assert said(session, "count", runtime="shout") == "2"
    assert said(session, "where") == "/workspace 1000 hello user"
    loud = session.run("print(volume, 'shared' in globals())", language="python", runtime="loud")
    assert (loud["stdout"], loud["language"], loud["runtime"]) == ("11 False\n", "python", "loud")
    assert session.run("'volume' in globals()")["outputs"][0]["data"]["text/plain"] == "False"
    failed = shout(session, "fail badly")
    assert (failed["status"], failed["error"]["name"], failed["error"]["value"]) == ("error", "Hoarse", "badly")
    assert session.show()["generation"] == 1


def test_a_language_that_the_image_has_not_is_refused_with_those_it_has(session: LiveSession) -> None:
    def refused(**body: Any) -> Any:
        answer = session.rest.http.post(f"{session.path}/executions", json={"code": "1", **body})
        return answer.status_code, answer.json()["error"].get("field"), answer.json()["error"]["message"]

    there = "python, javascript, typescript, gone, shout"
    assert refused(language="cobol") == (400, "language", f"no language 'cobol'; there are: {there}")
    assert refused(language="shout", runtime="deno") == (400, "language", "shout runs on shout, not on 'deno'")
    assert refused(runtime="shout") == (400, "runtime", "python runs on python or loud, not on 'shout'")
    assert "clear_context is for Python" in refused(runtime="loud", clear_context=True)[2]
    with session.rest.session() as plain:
        answer = plain.rest.http.post(f"{plain.path}/executions", json={"code": "1", "language": "shout"})
        message = answer.json()["error"]["message"]
        assert (answer.status_code, message) == (400, "no language 'shout'; there are: python, javascript, typescript")
    nowhere = shout(session, "1", language="gone")
    assert (nowhere["status"], nowhere["error"]["name"]) == ("error", "RuntimeNotFound")
    assert "no-such-program" in nowhere["error"]["value"]


def test_an_environment_lists_its_languages(session: LiveSession) -> None:
    listed = session.rest.get(f"/v1/environments/{NAME}")["languages"]
    found = {each["name"]: each["runtimes"] for each in listed}
    assert (found["python"], found["shout"], found["gone"]) == (["python", "loud"], ["shout"], ["gone"])
    made = session.rest.post("/v1/environments", name="own", image=NAME)
    assert made["languages"] == listed
    plain = session.rest.get("/v1/environments/python")["languages"]
    assert "python" in [each["name"] for each in plain]
    assert "shout" not in [each["name"] for each in plain]


@pytest.mark.parametrize(("language", "runtime"), [("shout", "shout"), ("python", "loud")])
def test_interrupts_and_deadlines_stop_its_code_and_keep_its_state(
    session: LiveSession, language: str, runtime: str
) -> None:
    """One is interrupted by a signal, the other by a message."""
    how = {"language": language, "runtime": runtime}
    code = "wait" if runtime == "shout" else "import time; kept = 7; time.sleep(600)"
    if runtime == "shout":
        before = said(session, "count", **how)
    late = session.run(code, timeout_seconds=1, **how)
    assert (late["status"], late["death"]) == ("timeout", None)
    running = session.submit(code, **how)
    session.rest.post(f"{session.path}/executions/{running['id']}/interrupt")
    assert session.outcome(running["id"])["status"] == "interrupted"
    if runtime == "shout":
        quiet = session.submit("wait quietly", **how)
        session.rest.post(f"{session.path}/executions/{quiet['id']}/interrupt")
        assert session.outcome(quiet["id"])["status"] == "interrupted", "although its kernel says that all is well"
        assert said(session, "count", **how) == before
    else:
        assert session.run("kept", **how)["outputs"][0]["data"]["text/plain"] == "7"


@pytest.mark.sample("doors")
def test_one_that_ends_takes_nothing_along_and_the_next_is_blank(session: LiveSession) -> None:
    session.run("still = 'here'")
    said(session, "one more")
    died = shout(session, "leave 3")
    assert (died["status"], died["death"]["cause"], died["death"]["exit_code"]) == ("died", "exit", 3)
    assert said(session, "count") == "0"
    assert session.run("still")["outputs"][0]["data"]["text/plain"] == "'here'"
    said(session, "one")
    session.rest.post(f"{session.path}/restart")
    assert said(session, "count") == "0"


def test_its_cells_say_so_in_the_notebook(session: LiveSession) -> None:
    said(session, "for the record")
    book = nbformat.from_dict(session.rest.get(f"{session.path}/notebook"))
    nbformat.validate(book)
    cell = [each for each in book.cells if each.get("metadata", {}).get("language") == "shout"][-1]
    assert (cell.source, cell.metadata.sandcell.runtime, cell.metadata.vscode.languageId) == (
        "for the record",
        "shout",
        "shout",
    )


@pytest.mark.long
def test_its_cells_are_replayed_by_it(session: LiveSession) -> None:
    with session.rest.session(environment=NAME) as fresh:
        said(fresh, "hello")
        fresh.run("1 + 1")
        document = fresh.rest.get(f"{fresh.path}/notebook")
    replay = session.rest.post("/v1/notebooks/replay", notebook=document, environment=NAME, wait=True)
    assert (replay["status"], replay["counts"]) == ("done", {"same": 2}), replay
    stranger = nbformat.v4.new_notebook(metadata={"language_info": {"name": "Shout"}})
    output = nbformat.v4.new_output("stream", text="HELLO\n")
    stranger.cells = [nbformat.v4.new_code_cell("hello", execution_count=1, outputs=[output])]
    replay = session.rest.post("/v1/notebooks/replay", notebook=stranger, environment=NAME, wait=True)
    assert (replay["status"], replay["counts"]) == ("done", {"same": 1}), replay
    replay = session.rest.post("/v1/notebooks/replay", notebook=stranger, environment="python", wait=True)
    assert "no language 'shout'; there are: python" in str(replay), replay


def test_the_command_takes_it_as_a_language(session: LiveSession, many: RunningService) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "sandcell", "run", "--session", session.id, "--language", "shout", "by hand"],
        env={"SANDCELL_URL": many.url, "SANDCELL_TOKEN": many.token, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (ran.stdout.strip(), ran.returncode) == ("BY HAND", 0), ran.stderr
    with many.client() as client:
        assert client.run(session.id, "by library", language="shout").stdout == "BY LIBRARY\n"


@pytest.fixture(scope="module")
def people(many: RunningService) -> Iterator[httpx.Client]:
    """A Jupyter client's HTTP, of who owns the sessions."""
    headers = {"Authorization": f"token {many.token}"}
    with httpx.Client(base_url=many.url, headers=headers, timeout=180, trust_env=False) as http:
        yield http


def test_jupyter_clients_see_it_as_a_kernelspec(people: httpx.Client) -> None:
    listed = people.get("/api/kernelspecs").json()["kernelspecs"]
    assert [name for name in listed if name.startswith(NAME)] == [NAME, *(f"{NAME}.{each}" for each in DECLARED)]
    assert listed[NAME]["spec"]["language"] == "python"
    shout = listed[f"{NAME}.shout"]
    assert shout["spec"]["language"] == "Shout"
    assert shout["spec"]["display_name"] == f"Shout (sandcell: {NAME})"
    assert shout["spec"]["metadata"]["sandcell"] == {"environment": NAME, "runtime": "shout"}
    assert people.get(f"/api/kernelspecs/{NAME}.shout").json() == shout
    before = people.get("/api/kernels").json()
    for name in ("gone", "nothing"):  # one cannot start, one is not declared
        refused = people.post("/api/kernels", json={"name": f"{NAME}.{name}"})
        assert refused.status_code in (404, 503), refused.text
    assert people.get("/api/kernels").json() == before


@pytest.mark.sample("doors")
def test_a_jupyter_client_attaches_to_it(many: RunningService, people: httpx.Client) -> None:
    kernel = people.post("/api/sessions", json={"path": "a.ipynb", "kernel": {"name": f"{NAME}.shout"}}).json()[
        "kernel"
    ]
    assert kernel["name"] == f"{NAME}.shout"
    address = f"/api/kernels/{kernel['id']}"
    with wire(many.url, kernel["id"], many.token) as client:
        info = client.finished(client.send("shell", "kernel_info_request", {}))
        assert reply_of(info)["content"]["language_info"]["name"] == "shout"
        assert text_of(client.run("hello")) == "HELLO\n"
        assert reply_of(client.run("fail badly", stop_on_error=False))["content"]["ename"] == "Hoarse"
        asked = {"code": "impor", "cursor_pos": 5}
        completed = client.finished(client.send("shell", "complete_request", asked))
        assert reply_of(completed)["content"]["matches"] == []  # Python knows `import`
        waiting = client.execute("wait", stop_on_error=False)
        client.until_shown("waiting\n")
        assert people.post(f"{address}/interrupt").status_code == 204
        assert reply_of(client.finished(waiting))["content"]["ename"] == "Stopped"
        assert text_of(client.run("count", stop_on_error=False)) == "1\n"
        died = client.run("leave 3", stop_on_error=False)
        assert reply_of(died)["content"]["ename"] == "KernelDied"
        client.until(lambda each: each["content"].get("execution_state") == "starting")
        assert text_of(client.run("count", stop_on_error=False)) == "0\n"
        assert text_of(client.run("and again")) == "AND AGAIN\n"
        assert people.post(f"{address}/restart").json()["name"] == kernel["name"]
        client.until(lambda each: each["content"].get("execution_state") == "starting")
        assert text_of(client.run("count", stop_on_error=False)) == "0\n"
    with Rest(many) as rest:
        live = LiveSession(rest, rest.get(f"/v1/sessions/{kernel['id']}"))
        assert said(live, "count") == "0"
        shout = {"name": "shout", "display_name": "Shout", "language": "Shout"}
        assert rest.get(f"{live.path}/notebook")["metadata"]["kernelspec"] == shout, "nothing else has run in it"
        assert live.run("1 + 1")["outputs"][0]["data"]["text/plain"] == "2"
        assert rest.get(f"{live.path}/notebook")["metadata"]["kernelspec"]["name"] == "python3"
        cells = [cell for cell in rest.get(f"{live.path}/notebook")["cells"] if cell["cell_type"] == "code"]
        assert ("".join(cells[0]["source"]), cells[0]["metadata"]["language"]) == ("hello", "shout")
    assert people.delete(address).status_code == 204


@pytest.mark.sample("doors")
def test_it_outlives_a_restart_of_the_service(session: LiveSession, many: RunningService) -> None:
    said(session, "before the restart")
    count = said(session, "count")
    many.stop()
    many.start()
    with Rest(many) as rest:
        again = LiveSession(rest, rest.get(session.path))
        assert said(again, "count") == count
