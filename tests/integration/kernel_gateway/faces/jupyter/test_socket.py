"""The socket: both framings on one live kernel, what belongs to whom, and how a client comes back."""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.integration.kernel_gateway.faces.jupyter.conftest import Face
from tests.integration.kernel_gateway.faces.jupyter.wire import (
    V1,
    Wire,
    is_status,
    packed,
    reply_of,
    result_of,
    text_of,
    unpacked,
)
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.running_service import RunningService

COMM = """
from ipykernel.comm import Comm
comm = Comm(target_name='x', buffers=[bytes(range(256))])
print('after')
"""
TWELVE_MEBIBYTES = """
from IPython.display import display
display({'text/plain': 'x' * (12 << 20)}, raw=True)
print('after')
"""


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
@pytest.mark.parametrize("who", ["owner", "guest"])
def test_a_person_works_on_with_the_agents_variables(request: pytest.FixtureRequest, who: str, v1: bool) -> None:
    face: Face = request.getfixturevalue(who)
    with face.wire(v1=v1) as wire:
        info = wire.finished(wire.send("shell", "kernel_info_request", {}))
        assert reply_of(info)["content"]["language_info"]["name"] == "python"
        messages = wire.run("print('hello'); agents_variable + 1")
    assert text_of(messages) == "hello\n"
    assert result_of(messages) == "42"
    assert reply_of(messages)["content"]["status"] == "ok"
    assert [each["content"]["execution_state"] for each in messages if is_status(each)] == ["busy", "idle"]
    assert {each["parent_header"]["session"] for each in messages} == {wire.session}
    assert {each["parent_header"]["username"] for each in messages} == {"someone"}


@pytest.mark.parametrize(
    ("offered", "answered"),
    [([V1], V1), (["something", V1], V1), (None, None), (["something"], None), ([V1 + "x"], None)],
)
def test_the_framing_is_what_the_client_offers(guest: Face, offered: list[str] | None, answered: str | None) -> None:
    with guest.wire(offered=offered or [], v1=answered is not None) as wire:
        assert wire.socket.subprotocol == answered
        assert wire.socket.response is not None
        assert "Sec-WebSocket-Extensions" not in wire.socket.response.headers
        assert "Set-Cookie" not in wire.socket.response.headers
        assert result_of(wire.run("1 + 1")) == "2"


@pytest.mark.parametrize("options", [{"in_query": True}, {"scheme": "Bearer"}, {"origin": "http://elsewhere"}])
def test_a_valid_token_opens_it_from_anywhere(guest: Face, options: dict[str, Any]) -> None:
    with guest.wire(**options) as wire:
        assert result_of(wire.run("2 + 2")) == "4"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"token": "wrong"}, 401),
        ({"token": "wrong", "in_query": True}, 401),
        ({"token": "sandcell_attach_wrong", "origin": "http://elsewhere"}, 401),
        ({"kernel_id": str(uuid.UUID(int=3))}, 404),
        ({"session": "x" * 200}, 400),
    ],
)
def test_a_handshake_is_refused_with_a_status(guest: Face, options: dict[str, Any], status: int) -> None:
    with pytest.raises(InvalidStatus) as refused, guest.wire(**options):
        pass
    answer = refused.value.response
    assert answer.status_code == status
    assert answer.body is not None
    assert set(json.loads(answer.body)) == {"message", "reason"}


def test_output_is_everybodys_and_a_reply_who_asked(owner: Face, guest: Face) -> None:
    with owner.wire() as one, guest.wire(v1=False) as other:
        ask = one.execute("print('for both'); input('name? ')", allow_stdin=True)
        seen = other.until(lambda each: each["content"].get("execution_state") == "busy")
        seen += other.until_shown("for both\n")
        question = one.until(lambda each: each["header"]["msg_type"] == "input_request")[-1]
        assert (question["channel"], question["content"]["prompt"]) == ("stdin", "name? ")
        one.send("stdin", "input_reply", {"value": "Ada", "status": "ok"})
        assert result_of(one.finished(ask)) == "'Ada'"
        seen += other.until(lambda each: each["content"].get("execution_state") == "idle")
    assert text_of(seen) == "for both\n"
    assert {each["channel"] for each in seen} == {"iopub"}


def test_an_agents_execution_is_seen_by_who_is_attached(owner: Face, guest: Face, service: RunningService) -> None:
    with guest.wire() as wire, service.client() as client:
        wire.finished(wire.send("shell", "kernel_info_request", {}))
        client.attach(owner.kernel_id).run("print('from the agent')")
        wire.until_shown("from the agent\n")


def test_cells_are_in_the_notebook_with_who_ran_them(owner: Face, guest: Face, service: RunningService) -> None:
    with guest.wire() as wire:
        wire.run("'run by a person'")
    with service.client() as client:
        # A client hears that its kernel is idle before the end is written down.
        eventually(lambda: client.list_executions(owner.kernel_id, newest_first=True).items[0].status == "ok")
        notebook = json.loads(client.notebook(owner.kernel_id))
    (cell,) = [each for each in notebook["cells"] if "".join(each["source"]) == "'run by a person'"]
    about = cell["metadata"]["sandcell"]
    assert (about["author"], about["face"]) == ("Ada", "jupyter")


@pytest.mark.parametrize("channel", ["shell", "control"])
def test_a_guest_cannot_shut_the_kernel_down(guest: Face, channel: str) -> None:
    with guest.wire(v1=False) as wire:
        wire.send(channel, "shutdown_request", {"restart": False})
        assert result_of(wire.run("6 * 7")) == "42"


def test_a_legacy_client_is_not_cut_off_by_buffers(guest: Face) -> None:
    with guest.wire(v1=False) as legacy, guest.wire(v1=True) as v1:
        ask = legacy.execute(COMM)
        seen = legacy.finished(ask)
        told = v1.until_shown("after\n")
    assert text_of(seen) == "after\n"
    (opened,) = [each for each in seen if each["header"]["msg_type"] == "comm_open"]
    assert opened["buffers"] == []
    (whole,) = [each for each in told if each["header"]["msg_type"] == "comm_open"]
    assert whole["buffers"] == [bytes(range(256))]


def test_a_legacy_client_is_not_cut_off_by_a_large_message(guest: Face) -> None:
    with guest.wire(v1=False) as wire:
        seen = wire.run(TWELVE_MEBIBYTES)
    assert text_of(seen) == "after\n"
    assert "too large" in text_of(seen, "stderr")
    assert max(len(json.dumps(each)) for each in seen) < 10_000


def test_a_client_that_comes_back_misses_nothing(guest: Face) -> None:
    session = uuid.uuid4().hex
    # Long enough after what it sees last: what comes before the service sees the end of the connection is lost with it.
    pause = "4 if number == 3 else 0.05"
    code = f"import time\nfor number in range(30):\n    print('tick', number, flush=True)\n    time.sleep({pause})"
    with guest.wire(session=session) as wire:
        ask = wire.execute(code)
        before = wire.until_shown("tick 3\n")
        wire.socket.socket.close()  # as a cable that is cut: no goodbye
    time.sleep(2)
    with guest.wire(session=session) as wire:
        after = wire.finished(ask)
    ticks = [int(each) for each in re.findall(r"tick (\d+)", text_of(before) + text_of(after))]
    assert sorted(set(ticks)) == list(range(30))
    assert text_of(after).count("tick 29\n") == 1
    assert reply_of(after)["content"]["status"] == "ok"


def test_the_newer_connection_of_a_client_takes_the_place_of_the_older(guest: Face) -> None:
    session = uuid.uuid4().hex
    with guest.wire(session=session) as older:
        older.finished(older.send("shell", "kernel_info_request", {}))
        with guest.wire(session=session) as newer:
            assert older.closed()[0] == 1001
            assert result_of(newer.run("3 + 4")) == "7"


def test_a_restart_is_told_on_the_open_socket(owner: Face) -> None:
    with owner.wire() as wire:
        wire.finished(wire.send("shell", "kernel_info_request", {}))
        assert owner.http.post(f"/api/kernels/{owner.kernel_id}/restart", json={}).status_code == 200
        seen = wire.until(lambda each: each["content"].get("execution_state") == "starting")
        assert "restarting" not in [each["content"].get("execution_state") for each in seen]
        assert reply_of(wire.run("agents_variable"))["content"]["ename"] == "NameError"


def test_a_large_output_reaches_a_client_that_reads(guest: Face) -> None:
    with guest.wire() as wire:
        seen = wire.run("from IPython.display import HTML, display\ndisplay(HTML('x' * 12_000_000))")
        (shown,) = [each for each in seen if each["header"]["msg_type"] == "display_data"]
        assert len(shown["content"]["data"]["text/html"]) == 12_000_000


def debug(wire: Wire, command: str, **arguments: Any) -> dict[str, Any]:
    """The body of the answer to a request of JupyterLab's debugger."""
    content = {"type": "request", "seq": 1, "command": command, "arguments": arguments}
    asked = wire.send("control", "debug_request", content)
    reply = wire.until(
        lambda each: each["header"]["msg_type"] == "debug_reply" and each["parent_header"]["msg_id"] == asked
    )[-1]["content"]
    assert reply["success"], reply
    return dict(reply.get("body") or {})


def test_a_cell_is_debugged(guest: Face) -> None:
    """As JupyterLab does it, for which the kernelspec has `metadata.debugger`."""
    code = "x = 20\ny = x + 1\nprint(y * 2)\n"
    with guest.wire() as wire:
        debug(wire, "initialize", adapterID="python", clientID="jupyterlab", linesStartAt1=True, pathFormat="path")
        debug(wire, "attach")
        source = {"path": debug(wire, "dumpCell", code=code)["sourcePath"]}
        (point,) = debug(wire, "setBreakpoints", source=source, breakpoints=[{"line": 2}])["breakpoints"]
        assert point["verified"]
        debug(wire, "configurationDone")
        cell = wire.execute(code)
        stopped = wire.until(lambda each: each["content"].get("event") == "stopped")[-1]["content"]["body"]
        frame = debug(wire, "stackTrace", threadId=stopped["threadId"])["stackFrames"][0]
        assert (frame["source"]["path"], frame["line"]) == (source["path"], 2)
        assert debug(wire, "evaluate", expression="x", frameId=frame["id"])["result"] == "20"
        content = {"type": "request", "seq": 1, "command": "continue", "arguments": {"threadId": stopped["threadId"]}}
        wire.send("control", "debug_request", content)  # whose answer may come after the cell's end
        assert text_of(wire.finished(cell)) == "42\n"
        debug(wire, "disconnect", restart=False, terminateDebuggee=False)


def test_the_end_of_a_session_is_told_and_nobody_comes_back(service: RunningService, owner: Face) -> None:
    with service.client() as client, client.session("python") as session:
        token = client.create_attach_token(session.id).token
        with owner.wire(kernel_id=session.id, token=token) as wire:
            wire.finished(wire.send("shell", "kernel_info_request", {}))
            session.stop()
            seen = wire.until(lambda each: each["content"].get("execution_state") == "dead")
            assert is_status(seen[-1])
            assert wire.closed()[0] == 1000
        with pytest.raises(InvalidStatus) as refused, owner.wire(kernel_id=session.id, token=token):
            pass
        assert refused.value.response.status_code == 401  # the token has died with its session
        with pytest.raises(InvalidStatus) as refused, owner.wire(kernel_id=session.id):
            pass
        assert refused.value.response.status_code == 404


def test_the_two_framings_of_the_tests_are_each_others() -> None:
    parts = [b'{"msg_id": "1"}', b"{}", b"{}", b'{"a": 1}', b"buffer"]
    assert unpacked(packed("shell", parts))["buffers"] == [b"buffer"]
