"""AgentCoreCodeInterpreter of strands-agents-tools, called as a Strands agent calls it: one tool, an action each."""

import uuid
from typing import Any

from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter
from steps import Steps, equal, holds
from strands_tools.code_interpreter import AgentCoreCodeInterpreter

steps = Steps("strands-agents-tools")
first = AgentCoreCodeInterpreter(region="us-west-2", session_name="an agent_of Strands")


def act(kind: str, interpreter: AgentCoreCodeInterpreter = first, /, **action: Any) -> str:
    """The text of an action that worked."""
    answer = interpreter.code_interpreter(code_interpreter_input={"action": {"type": kind, **action}})
    equal(answer["status"], "success")
    return str(answer["content"][0].get("text") or answer["content"][0]["json"])


@steps("StartCodeInterpreterSession")
def start() -> None:
    holds(act("initSession", description="a named one", session_name="named"), "named")
    holds(act("listLocalSessions"), "named")


@steps("executeCode: Python")
def python() -> None:
    act("executeCode", code="x = 20", language="python")
    holds(act("executeCode", code="print(x + 1)", language="python"), "'text': '21'")


@steps("GetCodeInterpreterSession")
def get() -> None:
    second = AgentCoreCodeInterpreter(region="us-west-2", session_name="an agent_of Strands")
    holds(act("executeCode", second, code="print(x + 2)", language="python"), "'text': '22'")


@steps("executeCode: clearContext")
def clear_context() -> None:
    holds(act("executeCode", code="print('x' in globals())", language="python", clear_context=True), "'False'")


@steps("executeCode: JavaScript")
def javascript() -> None:
    holds(act("executeCode", code="console.log(6 * 7)", language="javascript"), "'42'")


@steps("executeCode: TypeScript")
def typescript() -> None:
    holds(act("executeCode", code="const n: number = 42; console.log(n)", language="typescript"), "'42'")


@steps("executeCode: an error of the code")
def error() -> None:
    holds(act("executeCode", code="1/0", language="python"), "ZeroDivisionError: division by zero")


@steps("executeCommand")
def command() -> None:
    holds(act("executeCommand", command="echo hello"), "hello\\r\\n")


@steps("writeFiles")
def write_files() -> None:
    holds(act("writeFiles", content=[{"path": "data/one.txt", "text": "eins"}]), "Successfully wrote all 1 files")


@steps("readFiles")
def read_files() -> None:
    holds(act("readFiles", paths=["data/one.txt"]), "file:///data/one.txt", "eins")


@steps("listFiles")
def list_files() -> None:
    holds(act("listFiles"), "'name': 'data'", "Directory")
    holds(act("listFiles", path="data"), "'name': 'one.txt'")


@steps("removeFiles")
def remove_files() -> None:
    holds(act("removeFiles", paths=["data/one.txt"]), "Successfully removed all 1 files")


@steps("a session of a custom code interpreter")
def custom() -> None:
    helper = CodeInterpreter("us-west-2")
    role = "arn:aws:iam::123456789012:role/Nobody"
    name, network = f"strands_{uuid.uuid4().hex[:8]}", {"networkMode": "SANDBOX"}
    made = helper.create_code_interpreter(name, role, network)["codeInterpreterId"]
    other = AgentCoreCodeInterpreter(region="us-west-2", identifier=made, persist_sessions=False)
    holds(act("executeCode", other, code="print(6 * 7)", language="python"), "'42'")
    other.cleanup_platform()
    helper.delete_code_interpreter(made)


@steps("StopCodeInterpreterSession")
def stop() -> None:
    for info in first._sessions.values():
        equal(info.client.stop(), True)


steps.report()
