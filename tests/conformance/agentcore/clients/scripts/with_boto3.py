"""Everything that boto3 offers of Code Interpreter, through boto3: the same for the newest and the oldest."""

import base64
import os
import time
import uuid
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from steps import Steps, equal, holds
from wheel import FILE, NAME, OFFLINE, wheel

SYSTEM = "aws.codeinterpreter.v1"
data = boto3.client("bedrock-agentcore")
control = boto3.client("bedrock-agentcore-control")
steps = Steps("boto3")
kept: dict[str, str] = {"interpreter": SYSTEM}
TAGS = hasattr(control, "tag_resource")
"""The oldest release knows of no tags."""


def call(tool: str, client: Any = data, /, **arguments: Any) -> Any:
    """The one result of an invocation."""
    answer = client.invoke_code_interpreter(
        codeInterpreterIdentifier=kept["interpreter"], sessionId=kept["session"], name=tool, arguments=arguments
    )
    equal(answer["sessionId"], kept["session"])
    kept["retries"] = str(answer["ResponseMetadata"]["RetryAttempts"])
    results = [event["result"] for event in answer["stream"]]
    equal(len(results), 1)
    return results[0]


def code(text: str, language: str = "python", client: Any = data, /, **arguments: Any) -> str:
    """What code printed; it did not fail."""
    result = call("executeCode", client, code=text, language=language, **arguments)
    assert not result["isError"], result
    equal(result["structuredContent"]["exitCode"], 0)
    return str(result["structuredContent"]["stdout"])


@steps("StartCodeInterpreterSession")
def start() -> None:
    token = f"conformance-{uuid.uuid4()}"
    named = {"codeInterpreterIdentifier": SYSTEM, "name": "a session", "clientToken": token}
    answer = data.start_code_interpreter_session(**named, sessionTimeoutSeconds=600)
    kept["session"] = answer["sessionId"]
    equal(answer["codeInterpreterIdentifier"], SYSTEM)
    again = data.start_code_interpreter_session(**named, sessionTimeoutSeconds=600)
    equal((again["sessionId"], again["createdAt"]), (answer["sessionId"], answer["createdAt"]))


@steps("GetCodeInterpreterSession")
def get() -> None:
    answer = data.get_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, sessionId=kept["session"])
    wanted = {"sessionId": kept["session"], "name": "a session", "status": "READY", "sessionTimeoutSeconds": 600}
    equal({name: answer.get(name) for name in wanted}, wanted)


@steps("ListCodeInterpreterSessions")
def list_sessions() -> None:
    found, more = [], {}
    while True:
        page = data.list_code_interpreter_sessions(
            codeInterpreterIdentifier=SYSTEM, status="READY", maxResults=1, **more
        )
        assert len(page["items"]) <= 1
        found += [item["sessionId"] for item in page["items"]]
        if "nextToken" not in page:
            break
        more = {"nextToken": page["nextToken"]}
    assert kept["session"] in found, found
    equal(len(found), len(set(found)))


@steps("executeCode: Python")
def python() -> None:
    code("x = 20")
    result = call("executeCode", code="print(x + 1)\nprint('und ö')", language="python")
    equal(result["content"], [{"type": "text", "text": "21\nund ö"}])
    equal(result["structuredContent"]["stdout"], "21\nund ö")
    equal(result["structuredContent"]["stderr"], "")
    assert isinstance(result["structuredContent"]["executionTime"], float)


@steps("executeCode: clearContext")
def clear_context() -> None:
    code("kept = 1")
    equal(code("print('kept' in globals())", "python"), "True")
    equal(code("print('kept' in globals())", "python", clearContext=True), "False")


@steps("executeCode: JavaScript")
def javascript() -> None:
    code("globalThis.total = 20; const word = 'hello'", "javascript")
    equal(code("console.log(total + 1, word)", "javascript"), "21 hello")


@steps("executeCode: TypeScript")
def typescript() -> None:
    code("interface Point { x: number }\nconst point: Point = { x: 3 }", "typescript")
    equal(code("console.log(point.x)", "typescript"), "3")


if "runtime" in data.meta.service_model.shape_for("ToolArguments").members:

    @steps("executeCode: runtime")
    def runtime() -> None:
        equal(code("print(1)", "python", runtime="python"), "1")
        equal(code("console.log(1)", "javascript", runtime="deno"), "1")


@steps("executeCode: an error of the code")
def error() -> None:
    result = call("executeCode", code="print('hi')\n1/0", language="python")
    equal(result["isError"], True)
    equal(result["content"][0], {"type": "text", "text": "hi"})
    holds(result["content"][1]["text"], "ZeroDivisionError: division by zero")
    equal(len(result["content"]), 2)
    structured = result["structuredContent"]
    equal((structured["stdout"], structured["exitCode"]), ("hi", 1))
    equal(structured["stderr"], result["content"][1]["text"])


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg==")


@steps("executeCode: an image")
def image() -> None:
    result = call("executeCode", code=f"from IPython.display import Image, display\ndisplay(Image(data={PNG!r}))")
    assert not result["isError"], result
    images = [block for block in result["content"] if block["type"] == "image"]
    equal([(block["mimeType"], block["data"]) for block in images], [("image/png", PNG)])


@steps("executeCommand")
def command() -> None:
    result = call("executeCommand", command="echo hello; pwd >/dev/null")
    equal(result["content"], [{"type": "text", "text": "hello\r\n"}])
    equal((result["structuredContent"]["stdout"], result["structuredContent"]["exitCode"]), ("hello\r\n", 0))
    failed = call("executeCommand", command="echo out; echo err >&2; exit 3")
    equal(failed["isError"], True)
    equal(failed["structuredContent"]["exitCode"], 3)
    equal(failed["structuredContent"]["stdout"], "")
    equal(failed["structuredContent"]["stderr"], "out\r\nerr\r\n")
    equal(call("executeCommand", command="surely-no-command")["structuredContent"]["exitCode"], 127)


def started(text: str) -> str:
    result = call("startCommandExecution", command=text)
    equal(result["content"], [{"type": "text", "text": "Successfully started a command execution task"}])
    equal(result["structuredContent"]["taskStatus"], "submitted")
    return str(uuid.UUID(result["structuredContent"]["taskId"]))


@steps("startCommandExecution")
def start_command() -> None:
    kept["short"] = started("echo done; echo aside >&2")
    kept["long"] = started("sleep 500")


@steps("getTask")
def get_task() -> None:
    working = call("getTask", taskId=kept["long"])
    equal(working["content"], [{"type": "text", "text": "Task is working"}])
    equal(working["structuredContent"]["taskStatus"], "working")
    until = time.monotonic() + 120
    while (task := call("getTask", taskId=kept["short"]))["structuredContent"]["taskStatus"] != "completed":
        assert time.monotonic() < until, task
        time.sleep(0.1)
    equal(task["structuredContent"]["exitCode"], 0)
    holds(task["structuredContent"]["stdout"], "done\r\n")


@steps("stopTask")
def stop_task() -> None:
    stopped = call("stopTask", taskId=kept["long"])
    equal(stopped["isError"], False)
    equal(stopped["content"], [{"type": "text", "text": "Successfully canceled a command execution task"}])
    equal(call("getTask", taskId=kept["long"])["structuredContent"]["taskStatus"], "canceled")
    late = call("stopTask", taskId=kept["short"])
    equal(late["isError"], True)
    equal(late["content"][0]["text"], "Task cannot be canceled (current status: TaskStatus.COMPLETED)")


@steps("writeFiles")
def write_files() -> None:
    files = [{"path": "conformance/é.txt", "text": "ä\n"}, {"path": "conformance/a.bin", "blob": b"\0\xff"}]
    result = call("writeFiles", content=[*files, {"path": "/conformance/.hidden", "text": ""}])
    equal(result["isError"], False)
    equal(result["content"], [{"type": "text", "text": "Successfully wrote all 3 files"}])


@steps("readFiles")
def read_files() -> None:
    result = call("readFiles", paths=["conformance/é.txt", "/conformance/a.bin"])
    equal(result["isError"], False)
    text, binary = (block["resource"] for block in result["content"])
    equal((text["uri"], text["type"], text["text"]), ("file:///conformance/é.txt", "text", "ä\n"))
    equal((binary["uri"], binary["type"], binary["blob"]), ("file:///conformance/a.bin", "blob", b"\0\xff"))


@steps("listFiles")
def list_files() -> None:
    for arguments in ({"directoryPath": "conformance"}, {"path": "conformance"}):
        result = call("listFiles", **arguments)
        links = [block for block in result["content"] if block["type"] == "resource_link"]
        equal(sorted(link["name"] for link in links), [".hidden", "a.bin", "é.txt"])
        equal({link["description"] for link in links}, {"File"})
    for root in ({}, {"path": "."}, {"directoryPath": ""}, {"directoryPath": "/"}):
        links = [block for block in call("listFiles", **root)["content"] if block["type"] == "resource_link"]
        assert ("conformance", "Directory") in {(link["name"], link["description"]) for link in links}, links


@steps("removeFiles")
def remove_files() -> None:
    result = call("removeFiles", paths=["conformance/é.txt", "conformance/a.bin"])
    equal(result["content"], [{"type": "text", "text": "Successfully removed all 2 files"}])
    equal(call("readFiles", paths=["conformance/a.bin"])["isError"], True)


@steps("install packages")
def install() -> None:
    call("writeFiles", content=[{"path": FILE, "blob": wheel()}])
    result = call("executeCommand", command=f"{OFFLINE} && pip install {NAME}")
    assert not result["isError"], result
    equal(code(f"import {NAME}; print({NAME}.HELLO)"), "hello from a package")


@steps("code longer than the read timeout")
def impatient() -> None:
    client = boto3.client("bedrock-agentcore", config=Config(read_timeout=3))
    equal(code("import time\nruns = globals().get('runs', 0) + 1\ntime.sleep(5)\nprint(runs)", "python", client), "1")
    equal(code("print(runs)"), "1")


@steps("an answer lost on the way")
def lost() -> None:
    client = boto3.client("bedrock-agentcore", config=Config(user_agent_extra="the-first-answer-is-lost"))
    equal(code("once = globals().get('once', 0) + 1\nprint(once)", "python", client), "1")
    equal(kept["retries"], "1")
    equal(code("print(once)"), "1")


@steps("StopCodeInterpreterSession")
def stop() -> None:
    named = {"codeInterpreterIdentifier": SYSTEM, "sessionId": kept["session"]}
    answer = data.stop_code_interpreter_session(**named)
    equal(answer["sessionId"], kept["session"])
    equal(data.get_code_interpreter_session(**named)["status"], "TERMINATED")


@steps("typed errors")
def errors() -> None:
    try:
        call("listFiles")
    except data.exceptions.ResourceNotFoundException as gone:
        holds(gone.response["Error"]["Message"], " ")
        equal(gone.response["ResponseMetadata"]["HTTPStatusCode"], 404)
    else:
        raise AssertionError("a stopped session takes an invocation")
    try:
        data.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, sessionTimeoutSeconds=99999)
    except data.exceptions.ValidationException as bad:
        equal(bad.response["reason"], "FieldValidationFailed")
    else:
        raise AssertionError("a session for 99,999 seconds is taken")
    forger = boto3.client(
        "bedrock-agentcore",
        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key="the secret of somebody else",
    )
    try:
        forger.get_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, sessionId=kept["session"])
    except ClientError as forged:
        equal(forged.response["Error"]["Code"], "InvalidSignatureException")
    else:
        raise AssertionError("a wrong secret is taken")


@steps("CreateCodeInterpreter")
def create() -> None:
    answer = control.create_code_interpreter(
        name=f"conformance_{uuid.uuid4().hex[:8]}",
        description="made by a test",
        executionRoleArn="arn:aws:iam::123456789012:role/Nobody",
        networkConfiguration={"networkMode": "SANDBOX"},
        **({"tags": {"team": "one"}} if TAGS else {}),
    )
    kept["id"], kept["arn"] = answer["codeInterpreterId"], answer["codeInterpreterArn"]
    assert kept["arn"].endswith(f":code-interpreter-custom/{kept['id']}"), kept


@steps("GetCodeInterpreter")
def get_interpreter() -> None:
    answer = control.get_code_interpreter(codeInterpreterId=kept["id"])
    wanted = {
        "codeInterpreterArn": kept["arn"],
        "description": "made by a test",
        "executionRoleArn": "arn:aws:iam::123456789012:role/Nobody",
        "networkConfiguration": {"networkMode": "SANDBOX"},
        "status": "READY",
    }
    equal({name: answer.get(name) for name in wanted}, wanted)
    equal(control.get_code_interpreter(codeInterpreterId=SYSTEM)["codeInterpreterId"], SYSTEM)


@steps("ListCodeInterpreters")
def list_interpreters() -> None:
    pages = control.get_paginator("list_code_interpreters").paginate(type="CUSTOM", PaginationConfig={"PageSize": 1})
    found = [item["codeInterpreterId"] for page in pages for item in page["codeInterpreterSummaries"]]
    assert kept["id"] in found, found
    system = control.list_code_interpreters(type="SYSTEM")["codeInterpreterSummaries"]
    equal([item["codeInterpreterId"] for item in system], [SYSTEM])


@steps("a session of a custom code interpreter")
def custom() -> None:
    for identifier in (kept["id"], kept["arn"]):
        answer = data.start_code_interpreter_session(codeInterpreterIdentifier=identifier)
        equal(answer["codeInterpreterIdentifier"], identifier)
        kept.update(session=answer["sessionId"], interpreter=identifier)
        equal(code("print(6 * 7)"), "42")
        data.stop_code_interpreter_session(codeInterpreterIdentifier=identifier, sessionId=answer["sessionId"])


if TAGS:

    @steps("TagResource")
    def tag() -> None:
        control.tag_resource(resourceArn=kept["arn"], tags={"stage": "test", "b c": ""})

    @steps("ListTagsForResource")
    def tags() -> None:
        wanted = {"team": "one", "stage": "test", "b c": ""}
        equal(control.list_tags_for_resource(resourceArn=kept["arn"])["tags"], wanted)

    @steps("UntagResource")
    def untag() -> None:
        control.untag_resource(resourceArn=kept["arn"], tagKeys=["b c", "team"])
        equal(control.list_tags_for_resource(resourceArn=kept["arn"])["tags"], {"stage": "test"})


@steps("DeleteCodeInterpreter")
def delete() -> None:
    equal(control.delete_code_interpreter(codeInterpreterId=kept["id"])["codeInterpreterId"], kept["id"])
    try:
        control.get_code_interpreter(codeInterpreterId=kept["id"])
    except control.exceptions.ResourceNotFoundException:
        return
    raise AssertionError("a deleted code interpreter is still there")


steps.report()
