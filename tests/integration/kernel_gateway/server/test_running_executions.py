"""What runs while the service is killed: it goes on as the same execution, and who followed it misses nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.integration.kernel_gateway.faces.jupyter.wire import reply_of, result_of, text_of, wire
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
COUNT = "import time\nfor i in range(30):\n    print(i, flush=True)\n    time.sleep(0.2)"
LARGE = (
    "import time\nfor i in range(80):\n    print(f'{i:05}' * 10_000, flush=True)\n    time.sleep(0.05)\nprint('end')"
)
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"


def follow(session: LiveSession, execution: Any, after: int, most: int = 10_000) -> Iterator[tuple[int, str, Any]]:
    """Events past a number, as a client gets them that was cut off there."""
    headers = {"Last-Event-ID": str(after)}
    address, number, kind = f"{session.path}/executions/{execution['id']}/events", 0, ""
    with session.rest.http.stream("GET", address, headers=headers) as answer:
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            number, kind = (int(value) if name == "id" else number), (value if name == "event" else kind)
            if name == "data":
                yield number, kind, json.loads(value)
                most -= 1
                if not most:
                    return


def again(rest: Rest, session: LiveSession) -> LiveSession:
    return LiveSession(rest, rest.get(session.path))


def begun(session: LiveSession, execution: Any) -> None:
    """The execution has shown something."""
    kinds = [kind for _, kind, _ in follow(session, execution, 0, most=2)]
    assert kinds == ["started", "stream"]


@pytest.fixture(scope="module")
def killed(make_service: MakeService) -> RunningService:
    """A service that these tests kill and start again, one after another."""
    return make_service()


@pytest.fixture
def service(killed: RunningService) -> Iterator[RunningService]:
    """The same, without the sessions of earlier tests: each of its starts would take them up."""
    yield killed
    if not killed.running:
        killed.start()  # the test has failed
    with Rest(killed) as rest:
        for shown in rest.get("/v1/sessions?status=READY")["items"]:
            LiveSession(rest, shown).stop()


def test_executions_go_on_over_a_kill_of_the_service(service: RunningService) -> None:
    with Rest(service) as rest:
        names = ("counts", "large", "interrupted", "timed out", "deno")
        sessions = {name: rest.session() for name in names}
        counts = sessions["counts"].submit(COUNT)
        large = sessions["large"].submit(LARGE)
        stuck = sessions["interrupted"].submit(SLOW)
        late = sessions["timed out"].submit(SLOW, timeout_seconds=8)
        code = "for (let i = 0; i < 20; i++) { console.log(i); await new Promise(done => setTimeout(done, 200)); }"
        deno = sessions["deno"].submit(code, language="javascript")
        for name, execution in zip(names, (counts, large, stuck, late, deno), strict=True):
            begun(sessions[name], execution)
        seen = list(follow(sessions["counts"], counts, 0, most=5))
        queued = sessions["counts"].submit("print(i)")
    service.kill()
    service.start()
    with Rest(service) as rest:
        sessions = {name: again(rest, each) for name, each in sessions.items()}
        seen += list(follow(sessions["counts"], counts, seen[-1][0]))
        assert [number for number, _, _ in seen] == list(range(1, len(seen) + 1))
        texts = "".join(data["text"] for _, kind, data in seen if kind == "stream")
        outcome = sessions["counts"].outcome(counts["id"])
        assert (outcome["status"], outcome["stdout"]) == ("ok", texts)
        assert texts == "".join(f"{i}\n" for i in range(30))
        assert sessions["counts"].outcome(queued["id"])["stdout"] == "29\n", "what waited ran after it"
        outcome = sessions["large"].outcome(large["id"])
        assert outcome["status"] == "ok"
        assert outcome["stdout"].startswith("00000" * 100)
        assert outcome["stdout"].endswith("00079" * 10 + "\nend\n")
        assert outcome["truncated"]["stdout"] == 80 * 50_001 + 4 - 1_000_000
        refused = rest.http.post(f"{sessions['interrupted'].path}/hibernate")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_busy"), "it is still at work"
        rest.post(f"{sessions['interrupted'].path}/executions/{stuck['id']}/interrupt")
        outcome = sessions["interrupted"].outcome(stuck["id"])
        assert (outcome["status"], outcome["stdout"]) == ("interrupted", "begun\n")
        outcome = sessions["timed out"].outcome(late["id"])
        assert (outcome["status"], outcome["stdout"]) == ("timeout", "begun\n")
        outcome = sessions["deno"].outcome(deno["id"])
        assert (outcome["status"], outcome["stdout"]) == ("ok", "".join(f"{i}\n" for i in range(20)))
        for name, each in sessions.items():
            each.works()
            assert each.show()["generation"] == 1
            cells = rest.get(f"{each.path}/notebook")["cells"]
            ran = [cell for cell in cells if cell["cell_type"] == "code"]
            assert len(ran) == (3 if name == "counts" else 2), "each once"
            assert not [cell for cell in cells if "restarted" in "".join(cell["source"])]


STUBBORN = """
import signal, time
print("begun", flush=True)
try:
    time.sleep(1000)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    open("stopping", "w").close()
    time.sleep(1)
    open("stopped", "w").close()
    raise
"""


def ask_in_vain(rest: Rest, address: str, **body: Any) -> None:
    with suppress(httpx.HTTPError):
        rest.http.post(address, json=body)


@pytest.mark.sample("kills")
def test_code_that_was_told_to_stop_just_before_a_kill_ends_as_what_it_was_told_for(service: RunningService) -> None:
    with Rest(service) as rest:
        sessions = {name: rest.session() for name in ("interrupted", "timeout")}
        stuck = sessions["interrupted"].submit(STUBBORN)
        late = sessions["timeout"].submit(STUBBORN, timeout_seconds=4)
        begun(sessions["interrupted"], stuck)
        files = {
            name: service.data_dir / "sandboxes" / each.id / "storage" / "workspace" for name, each in sessions.items()
        }
        eventually((files["timeout"] / "stopping").exists)
        address = f"{sessions['interrupted'].path}/executions/{stuck['id']}/interrupt"
        asking = threading.Thread(target=ask_in_vain, args=(rest, address))
        asking.start()
        eventually((files["interrupted"] / "stopping").exists)
        service.kill()
        asking.join()
    for each in files.values():
        eventually((each / "stopped").exists)
    service.start()
    with Rest(service) as rest:
        for status, execution in (("interrupted", stuck), ("timeout", late)):
            session = again(rest, sessions[status])
            outcome = session.outcome(execution["id"])
            assert (outcome["status"], outcome["stdout"]) == (status, "begun\n")
            session.works()


@pytest.mark.sample("kills")
def test_a_kernel_that_died_while_no_service_was_there_ends_its_execution_with_what_it_showed(
    service: RunningService,
) -> None:
    with Rest(service) as rest:
        session = rest.session()
        session.run("open('f', 'w').write('file')")
        running = session.submit(
            "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
            "time.sleep(1)\nprint('last words', flush=True)\ntime.sleep(0.5)\nos._exit(7)"
        )
        begun(session, running)
        assert rest.http.put(f"{session.path}/files/go", content=b"").is_success
    service.kill()
    service.start()
    with Rest(service) as rest:
        session = again(rest, session)
        outcome = session.outcome(running["id"])
        assert (outcome["status"], outcome["stdout"]) == ("died", "begun\nlast words\n")
        assert (outcome["death"]["cause"], outcome["death"]["exit_code"]) == ("exit", 7)
        eventually(lambda: session.show()["generation"] == 2)
        assert session.run("print(open('f').read())")["stdout"] == "file\n"


@pytest.mark.sample("kills")
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_what_memory_does_not_hold_is_kept_on_the_sandboxs_disk(make_service: MakeService, runtime: str) -> None:
    """Twelve megabytes while no service is there: past the bound of memory, far below that of the disk."""
    service = make_service(runtime=runtime)
    with Rest(service) as rest:
        session = rest.session()
        running = session.submit(
            "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
            "time.sleep(2)\nfor i in range(240): print(f'{i:05}' * 10_000, flush=True)\n"
            "open('said', 'w').close()\nprint('end')"
        )
        begun(session, running)
        assert rest.http.put(f"{session.path}/files/go", content=b"").is_success
    service.kill()
    said = service.data_dir / "sandboxes" / session.id / "storage" / "workspace" / "said"
    eventually(said.exists)
    service.start()
    with Rest(service) as rest:
        session = again(rest, session)
        outcome = session.outcome(running["id"])
        assert (outcome["status"], outcome.get("why")) == ("ok", None), "nothing was cut"
        assert outcome["stdout"].startswith("begun\n00000000")
        assert outcome["stdout"].endswith("00239" * 10 + "\nend\n")
        assert outcome["truncated"]["stdout"] == 6 + 240 * 50_001 + 4 - 1_000_000
        session.works()


COMMAND = """
echo begun {name} >> ran
for i in $(seq 20); do echo line $i; echo error $i >&2; sleep 0.2; done
echo ended {name} >> ran; exit 3
"""


def cell_of(session: LiveSession, text: str) -> Any:
    """The cell of the notebook with this text in its source; None while there is none."""
    cells = session.rest.get(f"{session.path}/notebook")["cells"]
    return next((each for each in cells if text in "".join(each["source"]) and each["cell_type"] == "code"), None)


@pytest.mark.sample("kills")
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_commands_that_a_caller_waited_for_go_on_over_an_end_of_the_service(
    make_service: MakeService, end: str
) -> None:
    service = make_service(drain_seconds=0.5, keep_sessions_on_shutdown=True)
    with Rest(service) as rest:
        session = rest.session()
        asked = (
            {"command": COMMAND.format(name="waits")},
            {"command": COMMAND.format(name="merged"), "merge_output": True},
            {"command": "echo begun unwanted >> ran; sleep 1000; echo ended unwanted >> ran", "stop_when_gone": True},
        )
        asking = [
            threading.Thread(target=ask_in_vain, args=(rest, f"{session.path}/commands"), kwargs=each) for each in asked
        ]
        for each in asking:
            each.start()
        workspace = service.data_dir / "sandboxes" / session.id / "storage" / "workspace"
        eventually(lambda: (workspace / "ran").exists() and (workspace / "ran").read_text().count("begun") == 3)
        getattr(service, end)()
        for each in asking:
            each.join()
    service.start()
    with Rest(service) as rest:
        session = again(rest, session)
        eventually(lambda: all(cell_of(session, each) for each in ("ended waits", "ended merged", "ended unwanted")))
        texts = {
            output["name"]: "".join(output["text"])
            for output in cell_of(session, "ended waits")["outputs"]
            if output["output_type"] == "stream"
        }
        assert texts["stdout"] == "".join(f"line {i}\n" for i in range(1, 21)), "all of it, from before the end too"
        assert texts["stderr"].startswith("".join(f"error {i}\n" for i in range(1, 21)))
        merged = "".join(cell_of(session, "ended merged")["outputs"][0]["text"])
        assert merged == "".join(f"line {i}\nerror {i}\n" for i in range(1, 21))
        ran = session.run("print(sorted(open('ran').read().splitlines()))")["stdout"]
        assert [ran.count(each) for each in ("begun waits", "ended waits", "begun merged", "ended merged")] == [1] * 4
        assert "ended unwanted" not in ran, "its caller had asked that it be stopped then"
        session.works()
        session.stop()  # the end of the service would keep it


@pytest.mark.sample("kills")
def test_a_command_is_asked_for_again_by_its_key_after_a_kill(service: RunningService) -> None:
    """As MCP's tools do: its caller had asked that it be stopped when it leaves, and has come back."""
    with Rest(service) as rest:
        session = rest.session()
        body = {"command": COMMAND.format(name="asked"), "stop_when_gone": True}
        asking = threading.Thread(target=ask_by_key, args=(rest, session, body))
        asking.start()
        ran = service.data_dir / "sandboxes" / session.id / "storage" / "workspace" / "ran"
        eventually(ran.exists)
        service.kill()
        asking.join()
    service.start()
    with Rest(service) as rest:
        answer = ask_by_key(rest, session, body)
        assert answer is not None
        assert answer.is_success, answer.text
        done = answer.json()
        assert (done["status"], done["exit_code"]) == ("done", 3)
        assert done["stdout"] == "".join(f"line {i}\n" for i in range(1, 21)), "all of it, from before the kill too"
        assert ran.read_text() == "begun asked\nended asked\n", "once"
        later = ask_by_key(rest, session, body)
        assert later is not None
        assert later.json() == {**done, "sync": later.json()["sync"]}
        other = ask_by_key(rest, session, {"command": "true"})
        assert other is not None
        assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")


def ask_by_key(rest: Rest, session: LiveSession, body: dict[str, Any]) -> httpx.Response | None:
    """The answer, None when its connection is lost."""
    with suppress(httpx.HTTPError):
        return rest.http.post(f"{session.path}/commands", json=body, headers={"Idempotency-Key": "asked once"})
    return None


@pytest.mark.sample("kills")
def test_events_of_code_that_got_a_blank_kernel_have_the_same_ids(service: RunningService) -> None:
    with Rest(service) as rest:
        session = rest.session()
        running = session.submit(COUNT, clear_context=True)
        seen = list(follow(session, running, 0, most=6))
    service.kill()
    service.start()
    with Rest(service) as rest:
        session = again(rest, session)
        events = list(follow(session, running, 0))
        assert events[: len(seen)] == seen
        assert [kind for _, kind, _ in seen[:3]] == ["generation", "started", "stream"]
        assert [number for number, _, _ in events] == list(range(1, len(events) + 1))


DEAF = """
import time
for i in range(50):
    try:
        print(i, flush=True)
        time.sleep(0.2)
    except KeyboardInterrupt:
        pass
"""


@pytest.mark.sample("kills")
def test_events_after_one_that_is_not_of_the_output_have_the_same_ids(make_service: MakeService) -> None:
    service = make_service(interrupt_grace_seconds=1)
    with Rest(service) as rest:
        session = rest.session()
        running = session.submit(DEAF)
        begun(session, running)
        rest.post(f"{session.path}/executions/{running['id']}/interrupt")
        told = next(number for number, kind, _ in follow(session, running, 0) if kind == "interrupt")
        seen = list(follow(session, running, 0, most=told + 3))
    service.kill()
    service.start()
    with Rest(service) as rest:
        session = again(rest, session)
        assert "no effect" in rest.get(f"{session.path}/executions/{running['id']}")["why"]
        rest_of_it = list(follow(session, running, seen[-1][0]))
        events = list(follow(session, running, 0))
        assert events == seen + rest_of_it
        assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
        assert [kind for _, kind, _ in events].count("interrupt") == 1
        assert session.outcome(running["id"])["status"] == "ok"


@pytest.mark.sample("kills")
def test_an_attached_client_comes_back_to_its_cell_after_a_kill(service: RunningService) -> None:
    with Rest(service) as rest:
        session = rest.session()
        whole = "".join(f"{i}\n" for i in range(30))
        with wire(service.url, session.id, service.token, session="hers") as client:
            cell = client.execute(COUNT)
            seen = text_of(client.until_shown("3\n"))
            service.kill()
            client.closed()
        service.start()
        with wire(service.url, session.id, service.token, session="hers") as client:
            rest_of_it = client.finished(cell)
            assert reply_of(rest_of_it)["content"]["status"] == "ok"
            shown = text_of(rest_of_it)
            assert shown
            assert whole.endswith(shown)
            assert len(seen) + len(shown) <= len(whole), "what the client had before is not sent again"
            assert result_of(client.run("i")) == "29"
    with Rest(service) as rest:
        cells = [cell for cell in rest.get(f"{session.path}/notebook")["cells"] if cell["cell_type"] == "code"]
        assert "".join(text for output in cells[0]["outputs"] for text in output["text"]) == whole


@pytest.mark.sample("kills")
def test_input_is_answered_after_a_kill(service: RunningService) -> None:
    with Rest(service) as rest:
        session = rest.session()
        with wire(service.url, session.id, service.token, session="hers") as client:
            cell = client.execute("name = input('name? ')\nprint('hello', name)", allow_stdin=True)
            client.until(lambda each: each["header"]["msg_type"] == "input_request")
            service.kill()
            client.closed()
        service.start()
        with wire(service.url, session.id, service.token, session="hers") as client:
            (question,) = client.until(lambda each: each["header"]["msg_type"] == "input_request")[-1:]
            assert (question["channel"], question["content"]["prompt"]) == ("stdin", "name? ")
            client.send("stdin", "input_reply", {"value": "Ada", "status": "ok"})
            messages = client.finished(cell)
            assert text_of(messages) == "hello Ada\n"
            assert reply_of(messages)["content"]["status"] == "ok"
            assert result_of(client.run("name")) == "'Ada'"


THREAD = """
import threading, time
def show():
    for i in range(60):
        print(i, flush=True)
        time.sleep(0.1)
threading.Thread(target=show).start()
"""


def late_text(session: LiveSession, execution: Any) -> str:
    late = session.rest.get(f"{session.path}/executions/{execution['id']}")["late"]
    return "".join(output["text"] for output in late)


@pytest.mark.sample("kills")
def test_late_output_that_was_not_stored_when_another_cell_ended_outlives_a_kill_of_the_service(
    service: RunningService,
) -> None:
    with Rest(service) as rest:
        session = rest.session()
        thread = session.run(THREAD)
        eventually(lambda: late_text(session, thread).count("\n") > 10)
        another = session.run("1")  # what the thread prints while it runs is its output
    service.kill()
    service.start()
    with Rest(service) as rest:
        session = again(rest, session)
        eventually(lambda: late_text(session, thread).endswith("59\n"))
        told = (thread["stdout"] + late_text(session, thread) + another["stdout"]).split()
        assert sorted(int(each) for each in told) == list(range(60))
        cells = rest.get(f"{session.path}/notebook")["cells"]
        assert not [cell for cell in cells if "no known cell" in "".join(cell["source"])]
