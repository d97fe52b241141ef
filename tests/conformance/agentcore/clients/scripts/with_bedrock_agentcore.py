"""Everything of the AWS SDK's own helper, `bedrock_agentcore.tools.code_interpreter_client`."""

import time
import uuid
from typing import Any

from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter, code_session
from steps import Steps, equal, holds
from wheel import FILE, NAME, OFFLINE, wheel

REGION = "us-west-2"
steps = Steps("bedrock-agentcore")
client = CodeInterpreter(REGION)
kept: dict[str, str] = {}


def result(answer: Any) -> Any:
    """The one result in a stream."""
    results = [event["result"] for event in answer["stream"]]
    equal(len(results), 1)
    return results[0]


def printed(answer: Any) -> str:
    found = result(answer)
    assert not found["isError"], found
    return str(found["structuredContent"]["stdout"])


@steps("StartCodeInterpreterSession")
def start() -> None:
    kept["session"] = client.start(name="by the helper", session_timeout_seconds=600)
    equal(client.identifier, "aws.codeinterpreter.v1")
    with code_session(REGION) as session:
        equal(printed(session.execute_code("print(1)")), "1")
        inner = session.session_id
    equal(client.get_session(session_id=inner)["status"], "TERMINATED")


@steps("GetCodeInterpreterSession")
def get() -> None:
    answer = client.get_session()
    equal((answer["name"], answer["status"], answer["sessionTimeoutSeconds"]), ("by the helper", "READY", 600))


@steps("ListCodeInterpreterSessions")
def list_sessions() -> None:
    found = client.list_sessions(status="READY", max_results=100)["items"]
    assert kept["session"] in [item["sessionId"] for item in found], found


@steps("executeCode: Python")
def python() -> None:
    printed(client.execute_code("x = 20"))
    equal(printed(client.execute_code("print(x + 1)")), "21")


@steps("executeCode: clearContext")
def clear_context() -> None:
    printed(client.execute_code("kept = 1"))
    printed(client.clear_context())
    equal(printed(client.execute_code("print('kept' in globals())")), "False")
    printed(client.execute_code("kept = 1"))
    equal(printed(client.execute_code("print('kept' in globals())", clear_context=True)), "False")


@steps("executeCode: JavaScript")
def javascript() -> None:
    printed(client.execute_code("let total = 20", language="javascript"))
    equal(printed(client.execute_code("console.log(total + 1)", language="javascript")), "21")


@steps("executeCode: TypeScript")
def typescript() -> None:
    printed(client.execute_code("const names: string[] = ['a', 'b']", language="typescript"))
    equal(printed(client.execute_code("console.log(names.join('-'))", language="typescript")), "a-b")


@steps("executeCode: an error of the code")
def error() -> None:
    found = result(client.execute_code("1/0"))
    equal(found["isError"], True)
    holds(found["content"][-1]["text"], "ZeroDivisionError: division by zero")


@steps("executeCode: an image")
def image() -> None:
    drawn = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"
    (said,) = result(client.execute_code(drawn))["content"]
    holds(said["text"], "<Figure size ", "(saved as figure-1.png)")
    equal(client.download_file("figure-1.png")[:4], b"\x89PNG")


@steps("executeCommand")
def command() -> None:
    equal(printed(client.execute_command("echo hello")), "hello\r\n")


@steps("startCommandExecution")
def start_command() -> None:
    kept["short"], kept["long"] = (
        result(client.invoke("startCommandExecution", {"command": command}))["structuredContent"]["taskId"]
        for command in ("true", "sleep 500")
    )


@steps("getTask")
def get_task() -> None:
    until = time.monotonic() + 120
    while True:
        found = result(client.invoke("getTask", {"taskId": kept["short"]}))
        if found["structuredContent"]["taskStatus"] == "completed":
            break
        assert time.monotonic() < until, found
        time.sleep(0.1)
    equal(found["structuredContent"]["exitCode"], 0)


@steps("stopTask")
def stop_task() -> None:
    equal(result(client.invoke("stopTask", {"taskId": kept["long"]}))["isError"], False)


@steps("writeFiles")
def write_files() -> None:
    equal(result(client.upload_file("data/one.csv", "a,b\n1,2\n", "two columns"))["isError"], False)
    files = [{"path": "data/two.txt", "content": "zwei: ö"}, {"path": "data/three.bin", "content": b"\xff\0\xfe"}]
    equal(result(client.upload_files(files))["content"][0]["text"], "Successfully wrote all 2 files")


@steps("readFiles")
def read_files() -> None:
    equal(client.download_file("data/one.csv"), "a,b\n1,2\n")
    equal(client.download_file("data/three.bin"), b"\xff\0\xfe")
    found = client.download_files(["data/one.csv", "data/two.txt"])
    equal(found, {"/data/one.csv": "a,b\n1,2\n", "/data/two.txt": "zwei: ö"})
    try:
        client.download_file("data/none")
    except FileNotFoundError:
        return
    raise AssertionError("a file that is not there was read")


@steps("listFiles")
def list_files() -> None:
    found = result(client.invoke("listFiles", {"path": "data"}))["content"]
    names = {block["name"] for block in found if block["type"] == "resource_link"}
    equal(names, {"one.csv", "two.txt", "three.bin"})


@steps("removeFiles")
def remove_files() -> None:
    found = result(client.invoke("removeFiles", {"paths": ["data/one.csv"]}))
    equal(found["content"][0]["text"], "Successfully removed all 1 files")


@steps("install packages")
def install() -> None:
    client.upload_file(FILE, wheel())
    printed(client.execute_command(OFFLINE))
    printed(client.install_packages([NAME]))
    printed(client.install_packages([f"{NAME}==1.0"], upgrade=True))
    equal(printed(client.execute_code(f"import {NAME}; print({NAME}.HELLO)")), "hello from a package")


@steps("StopCodeInterpreterSession")
def stop() -> None:
    equal(client.stop(), True)
    equal(client.session_id, None)


@steps("typed errors")
def errors() -> None:
    client.identifier, client.session_id = "aws.codeinterpreter.v1", kept["session"]
    try:
        client.execute_code("1")
    except client.data_plane_client.exceptions.ResourceNotFoundException:
        return
    finally:
        client.identifier = client.session_id = None
    raise AssertionError("a stopped session takes an invocation")


@steps("CreateCodeInterpreter")
def create() -> None:
    answer = client.create_code_interpreter(
        name=f"helper_{uuid.uuid4().hex[:8]}",
        execution_role_arn="arn:aws:iam::123456789012:role/Nobody",
        network_configuration={"networkMode": "SANDBOX"},
        description="made by the helper",
        tags={"team": "two"},
    )
    kept["id"] = answer["codeInterpreterId"]


@steps("GetCodeInterpreter")
def get_interpreter() -> None:
    equal(client.get_code_interpreter(kept["id"])["description"], "made by the helper")


@steps("ListCodeInterpreters")
def list_interpreters() -> None:
    found = client.list_code_interpreters(interpreter_type="CUSTOM", max_results=100)["codeInterpreterSummaries"]
    assert kept["id"] in [item["codeInterpreterId"] for item in found], found


@steps("a session of a custom code interpreter")
def custom() -> None:
    with code_session(REGION, identifier=kept["id"]) as session:
        equal(printed(session.execute_code("print(6 * 7)")), "42")


@steps("DeleteCodeInterpreter")
def delete() -> None:
    equal(client.delete_code_interpreter(kept["id"])["codeInterpreterId"], kept["id"])


steps.report()
