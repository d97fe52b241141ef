"""JavaScript and TypeScript through the whole service: rows, events, the notebook, the command line, a restart."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest

from sandcell import Client
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]


def value(outcome: dict[str, Any]) -> str:
    assert outcome["status"] == "ok", outcome
    return str(outcome["outputs"][-1]["data"]["text/plain"])


def notebook(session: LiveSession) -> Any:
    text = session.rest.http.get(f"{session.path}/notebook").text
    read = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(read)
    return read


def rows_and_events(session: LiveSession) -> None:
    session.run("x = 'of Python'")
    row = session.run("const x: number = 41; console.log(x); x + 1", language="typescript")
    assert (row["language"], row["runtime"], row["generation"], row["stdout"]) == ("typescript", "deno", 1, "41\n")
    assert value(session.run("x", language="javascript", runtime="deno")) == "41"
    assert value(session.run("x")) == "'of Python'"
    shown = session.rest.get(f"{session.path}/executions/{row['id']}")
    assert (shown["language"], shown["runtime"]) == ("typescript", "deno")
    listed = session.rest.get(f"{session.path}/executions")["items"]
    assert [each["runtime"] for each in listed] == ["python", "deno", "deno", "python"]
    followed = session.rest.http.get(f"{session.path}/executions/{row['id']}/events").text
    kinds = [line.removeprefix("event: ") for line in followed.splitlines() if line.startswith("event: ")]
    assert [kind for kind, _ in itertools.groupby(kinds)] == ["started", "stream", "result", "ended"]


def refusals(session: LiveSession) -> None:
    def refused(**body: Any) -> tuple[int, str]:
        answer: httpx.Response = session.rest.http.post(f"{session.path}/executions", json={"code": "1", **body})
        return answer.status_code, answer.json()["error"]["message"]

    assert refused(language="cobol")[0] == 400
    assert refused(runtime="deno") == (400, "python runs on python, not on 'deno'")
    assert refused(language="javascript", runtime="python")[0] == 400
    assert "clear_context is for Python" in refused(language="typescript", clear_context=True)[1]
    missing = session.run("1", language="javascript", runtime="nodejs")
    assert (missing["status"], missing["error"]["name"]) == ("error", "RuntimeNotFound")


def deaths(session: LiveSession) -> None:
    died = session.run("Deno.exit(3)", language="javascript")
    assert (died["status"], died["death"]["cause"], died["death"]["exit_code"]) == ("died", "exit", 3)
    session.run("globalThis.kept = 1", language="javascript")
    session.rest.post(f"{session.path}/commands", command="pkill -KILL deno")
    give_up = time.monotonic() + 120
    while not any("kernel for JavaScript" in cell.source for cell in notebook(session).cells):
        assert time.monotonic() < give_up
        time.sleep(0.1)
    assert value(session.run("typeof kept", language="javascript")) == '"undefined"'
    assert session.show()["generation"] == 1, "Python's is another kernel"
    assert value(session.run("x")) == "'of Python'"


def cells(session: LiveSession) -> None:
    code = [cell for cell in notebook(session).cells if cell.cell_type == "code"]
    assert [cell.metadata.get("language") for cell in code[:3]] == [None, "typescript", "javascript"]
    assert code[1].metadata.vscode.languageId == "typescript"
    assert code[1].outputs[0].text == "41\n"


def test_one_session_in_three_languages(service: RunningService) -> None:
    with Rest(service) as rest:
        session = rest.session()
        for part in (rows_and_events, refusals, deaths, cells):
            part(session)
        session.stop()


@pytest.mark.sample("kills")
def test_a_restarted_service_takes_the_kernel_for_javascript_up_again(make_service: MakeService) -> None:
    service = make_service()
    with Rest(service) as rest:
        session = rest.session()
        session.run("globalThis.kept = 'of before'", language="javascript")
        code = (
            "console.log('before'); await new Promise(done => setTimeout(done, 4000)); console.log('after');"
            " globalThis.finished = true"
        )
        running = session.submit(code, language="javascript")
        give_up = time.monotonic() + 120
        while rest.get(f"{session.path}/executions/{running['id']}")["status"] != "running":
            assert time.monotonic() < give_up
            time.sleep(0.05)
    service.kill()
    service.start()
    with Rest(service) as rest:
        again = LiveSession(rest, rest.get(session.path))
        gone_on = again.outcome(running["id"])
        assert (gone_on["status"], gone_on["stdout"]) == ("ok", "before\nafter\n")
        assert value(again.run("`${kept} ${finished}`", language="javascript")) == '"of before true"'
        again.stop()
    assert service.stop() == 0


def test_the_client_and_the_command_line_know_languages(service: RunningService, tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        session = client.start_session()
        assert client.run(session.id, "const n: number = 6; n * 7", language="typescript").text == "42"
        queued = client.submit(session.id, "n", language="javascript", runtime="deno")
        assert client.wait(session.id, queued.id).execution.language == "javascript"
        sandcell = Shell(service, tmp_path)
        sandcell.environment["SANDCELL_SESSION"] = session.id
        assert sandcell("run", "--language", "javascript", "n + 1").stdout == "7\n"
        (sandcell.directory / "script.ts").write_text("const m: number = n + 2; console.log(m)")
        assert sandcell("run", "script.ts").stdout == "8\n"
        done = json.loads(sandcell("run", "--json", "--language", "typescript", "--runtime", "nodejs", "1").stdout)
        assert (done["runtime"], done["error"]["name"]) == ("nodejs", "RuntimeNotFound")
        assert sandcell("run", "missing.js").returncode != 0
        client.stop_session(session.id)
