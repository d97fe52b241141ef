"""google-cloud-aiplatform 1.112: bodies in camelCase, files inside the JSON of the code, six states."""

import base64
import json
import os
from typing import Any

import vertexai
from google.genai.errors import ClientError
from google.oauth2.credentials import Credentials
from steps import Steps, equal, holds

steps = Steps("google-cloud-aiplatform")
client = vertexai.Client(
    project="my-project",
    location="us-central1",
    credentials=Credentials(token=os.environ["SANDCELL_TOKEN"]),
    http_options={"base_url": os.environ["SANDCELL_URL"]},
)
engines = client.agent_engines
made: dict[str, str] = {}


def run(code: str, **more: Any) -> tuple[dict[str, str], dict[str, bytes]]:
    """What an execution printed, and its files by name."""
    answer = engines.sandboxes.execute_code(name=made["sandbox"], input_data={"code": code, **more})
    first, *rest = answer.outputs
    return json.loads(first.data), {each.metadata.attributes["file_name"].decode(): each.data for each in rest}


@steps("create an engine")
def create_engine() -> None:
    made["engine"] = engines.create().api_resource.name


@steps("create")
def create() -> None:
    operation = engines.sandboxes.create(
        name=made["engine"],
        spec={"code_execution_environment": {"machineConfig": "MACHINE_CONFIG_UNSPECIFIED"}},
        config={"display_name": "old"},
    )
    made["sandbox"] = operation.response.name
    equal(operation.response.display_name, "old")


@steps("get")
def get() -> None:
    equal(engines.sandboxes.get(name=made["sandbox"]).name, made["sandbox"])


@steps("execute_code")
def execute() -> None:
    equal(run("x = 20; print(x)")[0]["msg_out"], "20\n")
    equal(run("print(x + 1)")[0]["stdout"], "21\n")
    holds(run("x / 0")[0]["msg_err"], "ZeroDivisionError")


@steps("execute_code: files in and out")
def files() -> None:
    sent = [
        {"name": "one.txt", "contents": base64.b64encode(b"in base64").decode()},
        {"name": "two.txt", "content": "as text, a,b"},
    ]
    said, produced = run("print(open('one.txt').read(), open('two.txt').read()); open('o', 'w').write('3')", files=sent)
    equal((said["msg_out"], produced), ("in base64 as text, a,b\n", {"o": b"3"}))


@steps("list by state and by page")
def list_them() -> None:
    equal([each.name for each in engines.sandboxes.list(name=made["engine"])], [made["sandbox"]])


@steps("delete")
def delete() -> None:
    engines.sandboxes.delete(name=made["sandbox"])
    try:
        engines.sandboxes.get(name=made["sandbox"])
    except ClientError as error:
        equal((error.code, error.status), (404, "NOT_FOUND"))
    else:
        raise AssertionError("it is still there")


@steps("delete an engine with what is in it")
def delete_engine() -> None:
    engines.delete(name=made["engine"], force=True)


steps.report()
