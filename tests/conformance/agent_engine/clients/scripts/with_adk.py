"""google-adk's AgentEngineSandboxCodeExecutor, as its agents call it; only its client is given an address."""

import asyncio
import functools
import os

import agentplatform
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.code_executors.agent_engine_sandbox_code_executor import AgentEngineSandboxCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult, File
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.oauth2.credentials import Credentials
from steps import Steps, equal, holds

agentplatform.Client = functools.partial(
    agentplatform.Client,
    credentials=Credentials(token=os.environ["SANDCELL_TOKEN"]),
    http_options={"base_url": os.environ["SANDCELL_URL"]},
)
os.environ["GOOGLE_CLOUD_PROJECT"] = "my-project"
steps = Steps("google-adk")
executor = AgentEngineSandboxCodeExecutor()
service = InMemorySessionService()
session = asyncio.run(service.create_session(app_name="app", user_id="somebody"))
context = InvocationContext(
    session_service=service,
    invocation_id="1",
    agent=LlmAgent(name="analyst", code_executor=executor),
    session=session,
)


def run(code: str, *files: File) -> CodeExecutionResult:
    return executor.execute_code(context, CodeExecutionInput(code=code, input_files=list(files)))


@steps("execute_code")
def execute() -> None:
    equal(run("x = 20\nprint(x)").stdout, "20\n")
    holds(run("x / 0").stderr, "ZeroDivisionError")
    equal(run("print(x + 1)").stdout, "21\n")


@steps("execute_code: files in and out")
def files() -> None:
    done = run("open('o.csv', 'w').write(open('in.csv').read() * 2)", File(name="in.csv", content=b"a,b\n"))
    equal(
        [(each.name, each.content, each.mime_type) for each in done.output_files],
        [("o.csv", b"a,b\na,b\n", "text/csv")],
    )


@steps("execute_code: a plot")
def plot() -> None:
    (image,) = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()").output_files
    equal((image.mime_type, image.name.startswith("code_execution_image_")), ("image/png", True))


@steps("another sandbox when the first is gone")
def again() -> None:
    first = session.state["sandbox_name"]
    sandboxes = agentplatform.Client(project="my-project", location="us-central1").sandboxes
    sandboxes.delete(name=first)
    equal(run("print('x' in globals())").stdout, "False\n")
    assert session.state["sandbox_name"] != first
    sandboxes.delete(name=session.state["sandbox_name"])


steps.report()
