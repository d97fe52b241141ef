"""The toolkit of langchain-aws, called as an agent calls its tools: by name, with arguments, under a thread's id."""

import asyncio
import time
import uuid
from typing import Any

from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter
from langchain_aws.tools import create_code_interpreter_toolkit
from steps import Steps, equal, holds
from wheel import FILE, NAME, OFFLINE, wheel

steps = Steps("langchain-aws")
toolkit, _ = asyncio.run(create_code_interpreter_toolkit(region="us-west-2"))
tools = toolkit.get_tools_by_name()
kept: dict[str, str] = {}


def use(tool: str, thread: str = "one", /, **arguments: Any) -> str:
    return str(tools[tool].invoke(arguments, config={"configurable": {"thread_id": thread}}))


def interpreter() -> Any:
    """The client below the toolkit, for what the toolkit does not hand out."""
    return toolkit._code_interpreters["one"]


@steps("StartCodeInterpreterSession")
def start() -> None:
    equal(use("execute_code", code="print(1)"), "1")
    equal(use("execute_code", "two", code="print('other' in globals())"), "False")


@steps("executeCode: Python")
def python() -> None:
    use("execute_code", code="x = 20")
    equal(use("execute_code", code="print(x + 1)"), "21")


@steps("executeCode: clearContext")
def clear_context() -> None:
    equal(use("execute_code", code="print('x' in globals())", clear_context=True), "False")


@steps("executeCode: JavaScript")
def javascript() -> None:
    equal(use("execute_code", code="console.log(6 * 7)", language="javascript"), "42")


@steps("executeCode: TypeScript")
def typescript() -> None:
    equal(use("execute_code", code="const n: number = 42; console.log(n)", language="typescript"), "42")


@steps("executeCode: an error of the code")
def error() -> None:
    holds(use("execute_code", code="print('before')\n1/0"), "before", "ZeroDivisionError: division by zero")


@steps("executeCommand")
def command() -> None:
    equal(use("execute_command", command="echo hello"), "hello\r\n")


@steps("startCommandExecution")
def start_command() -> None:
    holds(use("start_command_execution", command="true"), "Successfully started a command execution task")
    for name, command in {"short": "true", "long": "sleep 500"}.items():
        for event in interpreter().invoke("startCommandExecution", {"command": command})["stream"]:
            kept[name] = event["result"]["structuredContent"]["taskId"]


@steps("getTask")
def get_task() -> None:
    until = time.monotonic() + 120
    while use("get_task", task_id=kept["short"]) == "Task is working":
        assert time.monotonic() < until
        time.sleep(0.1)
    equal(use("get_task", task_id=kept["long"]), "Task is working")


@steps("stopTask")
def stop_task() -> None:
    equal(use("stop_task", task_id=kept["long"]), "Successfully canceled a command execution task")


@steps("writeFiles")
def write_files() -> None:
    wrote = use("write_files", files=[{"path": "data/one.txt", "text": "eins"}, {"path": "data/two.txt", "text": "ö"}])
    equal(wrote, "Successfully wrote all 2 files")
    equal(
        use("upload_file", path="data/three.csv", content="a,b", description="columns"),
        "Successfully wrote all 1 files",
    )


@steps("readFiles")
def read_files() -> None:
    holds(use("read_files", paths=["data/one.txt", "data/two.txt"]), "==== File: /data/one.txt ====\neins", "ö")


@steps("listFiles")
def list_files() -> None:
    use("list_files")
    links = [block for event in interpreter().invoke("listFiles", {"directoryPath": "data"})["stream"]
             for block in event["result"]["content"]]  # fmt: skip
    equal(sorted(link["name"] for link in links if "name" in link), ["one.txt", "three.csv", "two.txt"])


@steps("removeFiles")
def remove_files() -> None:
    equal(use("delete_files", paths=["data/one.txt"]), "Successfully removed all 1 files")


@steps("install packages")
def install() -> None:
    use("execute_command", command=OFFLINE)
    interpreter().upload_file(FILE, wheel())
    holds(use("install_packages", packages=[NAME]), "Successfully installed")


@steps("a session of a custom code interpreter")
def custom() -> None:
    helper = CodeInterpreter("us-west-2")
    role = "arn:aws:iam::123456789012:role/Nobody"
    name, network = f"langchain_{uuid.uuid4().hex[:8]}", {"networkMode": "SANDBOX"}
    made = helper.create_code_interpreter(name, role, network)["codeInterpreterId"]
    other, others = asyncio.run(create_code_interpreter_toolkit(region="us-west-2", code_interpreter_identifier=made))
    (execute,) = [tool for tool in others if tool.name == "execute_code"]
    equal(execute.invoke({"code": "print(6 * 7)"}, config={"configurable": {"thread_id": "custom"}}), "42")
    asyncio.run(other.cleanup())
    helper.delete_code_interpreter(made)


@steps("StopCodeInterpreterSession")
def stop() -> None:
    first = interpreter()
    session, identifier = first.session_id, first.identifier
    asyncio.run(toolkit.cleanup())
    equal(first.get_session(identifier, session)["status"], "TERMINATED")


steps.report()
