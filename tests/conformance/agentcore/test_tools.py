"""The nine tools beyond what every client's script does: arguments, paths, sizes, ends, and turns."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.agentcore.accounts import Account, Session
from tests.conformance.agentcore.signed_requests import invocation, send, signed
from tests.integration.kernel_gateway.server.eventually import eventually

Start = Callable[..., Session]
MEBIBYTE = 1024 * 1024


def words(result: Any) -> str:
    """Every text of a result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("executeCode", None, "code"),
        ("executeCode", {"language": "python"}, "code"),
        ("executeCode", {"code": 5}, "code"),
        ("executeCode", {"code": "1", "language": "ruby"}, "language"),
        ("executeCode", {"code": "1", "language": "python", "runtime": "node"}, "runtime"),
        ("executeCode", {"code": "1", "language": "python", "runtime": "deno"}, "runtime"),
        ("executeCode", {"code": "1", "language": "javascript", "runtime": "python"}, "runtime"),
        ("executeCode", {"code": "1", "clearContext": "yes"}, "clearContext"),
        ("executeCommand", {}, "command"),
        ("executeCommand", {"command": ""}, "command"),
        ("startCommandExecution", {}, "command"),
        ("startCommandExecution", {"command": ["ls"]}, "command"),
        ("getTask", {}, "taskId"),
        ("stopTask", {}, "taskId"),
        ("readFiles", {}, "paths"),
        ("readFiles", {"paths": []}, "paths"),
        ("readFiles", {"paths": "a.txt"}, "paths"),
        ("readFiles", {"paths": [5]}, "paths"),
        ("removeFiles", {}, "paths"),
        ("writeFiles", {}, "content"),
        ("writeFiles", {"content": []}, "content"),
        ("writeFiles", {"content": [{"text": "no path"}]}, "content"),
        ("writeFiles", {"content": [{"path": "neither"}]}, "content"),
        ("writeFiles", {"content": [{"path": "both", "text": "", "blob": ""}]}, "content"),
        ("writeFiles", {"content": [{"path": "a", "blob": "no base64!"}]}, "content"),
        ("writeFiles", {"content": {"path": "a", "text": ""}}, "content"),
        ("listFiles", {"path": 5}, "path"),
        ("execute", {"code": "1"}, "name"),
        ("ExecuteCode", {"code": "1"}, "name"),
        ("", {}, "name"),
        (None, {}, "name"),
        (5, {}, "name"),
        ("executeCode", "code", "arguments"),
        ("executeCode", [], "arguments"),
    ],
)
def test_what_a_tool_lacks_is_named_before_anything_runs(
    account: Account, session: Session, tool: Any, arguments: Any, named: str
) -> None:
    body = {"name": tool, "arguments": arguments} if arguments is not None else {"name": tool}
    reply = send(account, signed(account, invocation(session.id, body)))
    assert (reply.status, reply.code) == (400, "ValidationException"), reply
    assert named in reply.json["fieldList"][0]["name"], reply.json
    assert named in reply.json["message"], reply.json


def test_list_files_needs_no_arguments(data: Any, session: Session) -> None:
    answer = data.invoke_code_interpreter(
        codeInterpreterIdentifier=session.identifier, sessionId=session.id, name="listFiles"
    )
    (event,) = list(answer["stream"])
    assert event["result"]["isError"] is False


def test_members_that_nobody_knows_are_passed_over(account: Account, session: Session) -> None:
    body = {"name": "executeCode", "arguments": {"code": "print(1)", "newArgument": {}}, "newMember": 1}
    assert send(account, signed(account, invocation(session.id, body))).status == 200


@pytest.mark.parametrize(
    "path",
    ["../outside", "a/../../outside", "/..", "nul\0byte", "a" * 5000, "d/" * 2200 + "f", "", "/", ".", "workspace/.."],
    ids=["parent", "inner parent", "root's parent", "nul", "5,000 characters", "deep", "empty", "slash", "dot", "back"],
)
def test_a_path_that_makes_no_sense_is_a_result_that_says_so(session: Session, path: str) -> None:
    written = session.call("writeFiles", content=[{"path": path, "text": "x"}])
    assert written["isError"] is True
    assert words(written)
    read = session.call("readFiles", paths=[path])
    assert read["isError"] is True
    assert words(read)
    removed = session.call("removeFiles", paths=[path])
    assert removed["isError"] is True
    assert words(removed)


def test_a_path_of_4096_characters_is_answered(session: Session) -> None:
    """It is as long as the system takes; what the system says of it comes back."""
    path = "/".join(["d" * 200] * 20) + "/" + "f" * 75
    assert len(path) == 4095
    for tool, arguments in (
        ("writeFiles", {"content": [{"path": path, "text": ""}]}),
        ("readFiles", {"paths": [path]}),
        ("listFiles", {"path": path}),
        ("removeFiles", {"paths": [path]}),
    ):
        assert isinstance(session.call(tool, **arguments)["isError"], bool)


@pytest.mark.parametrize("path", ["with blank.txt", "ünï/cödé.txt", "q'u\"o$te.txt", "%2e%2e", "new\nline", "a?b#c"])
def test_any_name_that_a_system_takes_is_written_listed_and_read(session: Session, path: str) -> None:
    assert session.call("writeFiles", content=[{"path": f"names/{path}", "text": path}])["isError"] is False
    (block,) = session.call("readFiles", paths=[f"names/{path}"])["content"]
    assert (block["resource"]["text"], block["resource"]["uri"]) == (path, f"file:///names/{path}")
    directory = f"names/{path}".rpartition("/")[0]
    listed = session.call("listFiles", directoryPath=directory)["content"]
    assert path.rpartition("/")[2] in [block.get("name") for block in listed]
    assert session.call("removeFiles", paths=[f"names/{path}"])["isError"] is False


def test_every_tool_sees_the_same_files(session: Session) -> None:
    session.call("writeFiles", content=[{"path": "/seen/by.txt", "text": "all"}])
    assert session.code("print(open('seen/by.txt').read())") == "all"
    assert words(session.call("executeCommand", command="cat seen/by.txt")) == "all"
    assert session.code("console.log(Deno.readTextFileSync('seen/by.txt'))", "javascript") == "all"
    session.code("open('seen/.hidden', 'w').write('h')")
    links = session.call("listFiles", path="seen")["content"]
    assert {link["name"]: link.get("size") for link in links if "name" in link} == {"by.txt": 3, ".hidden": 1}


def test_files_that_are_there_are_read_though_others_are_missing(session: Session) -> None:
    session.call("writeFiles", content=[{"path": "there.txt", "text": "here"}])
    partly = session.call("readFiles", paths=["there.txt", "missing.txt"])
    assert partly["isError"] is False
    assert [block["resource"]["text"] for block in partly["content"] if "resource" in block] == ["here"]
    nothing = session.call("readFiles", paths=["missing.txt"])
    assert nothing["isError"] is True
    assert "missing.txt" in words(nothing)


@pytest.mark.parametrize("tool", ["readFiles", "removeFiles"])
def test_a_missing_file_is_named(session: Session, tool: str) -> None:
    result = session.call(tool, paths=["never/was.txt"])
    assert result["isError"] is True
    assert "never/was.txt" in words(result)


def test_a_missing_directory_is_named(session: Session) -> None:
    result = session.call("listFiles", directoryPath="never/was")
    assert result["isError"] is True
    assert "never/was" in words(result)


@pytest.mark.parametrize("task_id", ["unknown", "6f1c9f5e-52a7-4c0b-9d37-0d2f4b8f3c11", "../x", "", "a" * 1000])
def test_a_task_that_never_was_is_a_result_or_refused(account: Account, session: Session, task_id: str) -> None:
    for tool in ("getTask", "stopTask"):
        reply = send(account, signed(account, invocation(session.id, {"name": tool, "arguments": {"taskId": task_id}})))
        assert reply.status == (200 if task_id else 400), reply


def test_an_unknown_task_is_an_error_in_words(session: Session) -> None:
    for tool in ("getTask", "stopTask"):
        result = session.call(tool, taskId=str(uuid.uuid4()))
        assert result["isError"] is True
        assert "not found" in words(result)


def test_a_failed_task_says_its_exit_code(session: Session) -> None:
    task = session.call("startCommandExecution", command="echo out; exit 7")["structuredContent"]["taskId"]
    give_up = time.monotonic() + 120
    while (found := session.call("getTask", taskId=task))["structuredContent"]["taskStatus"] == "working":
        assert time.monotonic() < give_up
        time.sleep(0.1)
    structured = found["structuredContent"]
    assert (structured["taskStatus"], structured["exitCode"], found["isError"]) == ("failed", 7, True)
    assert "out" in structured["stderr"]


def test_code_may_have_any_text(session: Session) -> None:
    text = "NUL is written \\0 here; 漢字 🙂 \u2028"
    assert session.code(f"print({text!r})") == text
    failed = session.call("executeCode", code="print('a\0b')")
    assert failed["isError"] is True
    assert words(failed)
    assert session.call("executeCode", code="")["isError"] is False


def test_carriage_returns_do_not_reach_a_result_of_code(session: Session) -> None:
    result = session.call("executeCode", code="print('a\\rb\\r\\nc')")
    assert "\r" not in json.dumps(result["content"])


def test_a_death_is_a_result(session: Session) -> None:
    result = session.call("executeCode", code="import os; os._exit(3)")
    assert result["isError"] is True
    assert "kernel" in words(result)
    assert session.code("print('again')") == "again"


def test_javascript_keeps_its_context_though_it_is_to_be_cleared(session: Session) -> None:
    session.code("globalThis.held = 5", "javascript")
    assert session.code("console.log(held)", "javascript", clearContext=True) == "5"


def test_javascript_errors_are_results(session: Session) -> None:
    result = session.call("executeCode", code="throw new TypeError('no')", language="javascript")
    assert result["isError"] is True
    assert "TypeError: no" in words(result)
    assert "\x1b" not in words(result)


def test_a_runtime_that_the_image_lacks_is_an_error_in_words(session: Session) -> None:
    result = session.call("executeCode", code="console.log(1)", language="javascript", runtime="nodejs")
    if session.call("executeCommand", command="command -v node")["isError"]:
        assert result["isError"] is True
        assert "node" in words(result)
    else:
        assert result["structuredContent"]["stdout"] == "1"


@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_files_in_one_call(data: Any, start: Start, number: int) -> None:
    session = start(data, name="many files")
    content = [{"path": f"many/{each % 100}/{each}.txt", "text": str(each)} for each in range(number)]
    written = session.call("writeFiles", content=content)
    assert words(written) == f"Successfully wrote all {number} files"
    count = session.code("from pathlib import Path; print(len(list(Path('many').glob('*/*.txt'))))")
    assert count == str(number)
    assert session.code(f"print(open('many/99/{number - 1}.txt').read())") == str(number - 1)
    session.stop()


def test_two_invocations_at_once_take_turns_in_order(data: Any, start: Start) -> None:
    session = start(data, name="turns")
    session.code("order = []")
    answers: list[Any] = []
    slow = "open('begun', 'w').close(); import time; time.sleep(2); order.append(1); print(order)"
    first = threading.Thread(target=lambda: answers.append(session.code(slow)))
    first.start()
    give_up = time.monotonic() + 120
    while session.call("executeCommand", command="test -e begun")["isError"]:
        assert time.monotonic() < give_up
    assert session.code("order.append(2); print(order)") == "[1, 2]"
    first.join(120)
    assert answers == ["[1]"]
    session.stop()


def test_a_result_that_boto3_could_not_take_says_what_to_do_instead(data: Any, start: Start) -> None:
    session = start(data, name="large results")
    session.code(f"open('large.bin', 'wb').write(bytes({30 * MEBIBYTE}))")
    result = session.call("readFiles", paths=["large.bin"])
    assert result["isError"] is True
    assert "18 MB" in words(result)
    session.code(f"open('fits.bin', 'wb').write(bytes(range(256)) * {15 * MEBIBYTE // 256})")
    (block,) = session.call("readFiles", paths=["fits.bin"])["content"]
    assert len(block["resource"]["blob"]) == 15 * MEBIBYTE
    session.stop()


def test_much_output_is_cut_in_the_middle_and_says_so(session: Session) -> None:
    printed = session.code("print('x' * 5_000_000)")
    assert 500_000 < len(printed) < 1_500_000
    assert not set(printed) <= {"x"}


def test_a_hundred_megabytes_are_written_in_one_call(data: Any, start: Start) -> None:
    session = start(data, name="large files")
    blob = bytes(range(256)) * (100_000_000 // 256)
    assert session.call("writeFiles", content=[{"path": "large.bin", "blob": blob}])["isError"] is False
    assert session.code("import os; print(os.path.getsize('large.bin'))") == str(len(blob))
    session.stop()


def test_a_full_workspace_is_a_result_that_says_so(data: Any, start: Start) -> None:
    session = start(data, name="full")
    filled = session.call("executeCommand", command="head -c 600000000 /dev/zero > full")
    assert filled["isError"] is True
    assert "No space left" in words(filled)
    written = session.call("writeFiles", content=[{"path": "more", "blob": bytes(MEBIBYTE)}])
    assert written["isError"] is True
    assert "space" in words(written)
    assert session.call("removeFiles", paths=["full"])["isError"] is False
    more = [{"path": "more", "blob": bytes(MEBIBYTE)}]
    eventually(lambda: session.call("writeFiles", content=more)["isError"] is False)  # the mirror lets go of the file
    session.stop()


def test_a_blob_above_the_models_bound_is_refused(account: Account, session: Session) -> None:
    blob = base64.b64encode(bytes(100_000_002)).decode()
    body = {"name": "writeFiles", "arguments": {"content": [{"path": "too-large", "blob": blob}]}}
    reply = send(account, signed(account, invocation(session.id, body)))
    assert (reply.status, reply.code) == (400, "ValidationException"), reply
