"""google-cloud-aiplatform 2.x, under the name given: everything that it offers for sandboxes, and what they answer."""

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from google.genai.errors import APIError, ClientError
from google.oauth2.credentials import Credentials
from steps import Steps, equal, holds

warnings.simplefilter("ignore")
NAME = sys.argv[1]
URL, TOKEN = os.environ["SANDCELL_URL"], os.environ["SANDCELL_TOKEN"]
PARENT = "projects/my-project/locations/us-central1"
steps = Steps("google-cloud-aiplatform")
module = __import__(NAME)
client = module.Client(
    project="my-project", location="us-central1", credentials=Credentials(token=TOKEN), http_options={"base_url": URL}
)
by_key = module.Client(api_key=TOKEN, http_options={"base_url": URL})
engines = client.agent_engines if NAME == "vertexai" else client.runtimes
sandboxes = engines.sandboxes if NAME == "vertexai" else client.sandboxes
CODE = {"spec": {"code_execution_environment": {}}}
made: dict[str, str] = {}


def run(code: str, files: list[dict[str, Any]] | None = None, *, sandbox: str = "", where: Any = sandboxes) -> Any:
    """What an execution printed, and its files by name."""
    asked: dict[str, Any] = {"code": code, **({"files": files} if files else {})}
    answer = where.execute_code(name=sandbox or made["sandbox"], input_data=asked)
    first, *rest = answer.outputs
    assert first.metadata is None, first
    equal(first.mime_type, "application/json")
    said = json.loads(first.data)
    return said["msg_out"], said["msg_err"], {each.metadata.attributes["file_name"].decode(): each for each in rest}


def refused(kind: type[APIError], code: int, status: str, call: Callable[[], Any]) -> str:
    """The message of an error that has this type, code and status."""
    try:
        call()
    except kind as error:
        equal((error.code, error.status), (code, status))
        return str(error.message)
    raise AssertionError(f"no {status}")


@steps("create an engine")
def create_engine() -> None:
    engine = (client.agent_engines if NAME == "vertexai" else client.runtimes).create()
    made["engine"] = engine.api_resource.name
    holds(made["engine"], f"{PARENT}/reasoningEngines/")


@steps("get and list engines")
def get_engine() -> None:
    equal(engines.get(name=made["engine"]).api_resource.name, made["engine"])
    assert made["engine"] in [each.api_resource.name for each in engines.list()]


@steps("create")
def create() -> None:
    config = {"display_name": "mine", "ttl": "3600s"}
    operation = sandboxes.create(name=made["engine"], config=config, **CODE)
    sandbox = operation.response
    made["sandbox"] = sandbox.name
    holds(sandbox.name, made["engine"] + "/sandboxEnvironments/")
    equal((operation.done, sandbox.state.value, sandbox.display_name), (True, "STATE_RUNNING", "mine"))
    equal((sandbox.expire_time - sandbox.create_time).total_seconds(), 3600.0)


@steps("create without waiting")
def create_without_waiting() -> None:
    config = {"wait_for_completion": False, "display_name": "second"}
    operation = sandboxes.create(name=made["engine"], config=config, **CODE)
    again = sandboxes._get_sandbox_operation(operation_name=operation.name)
    equal((again.name, again.done, again.response.name), (operation.name, True, operation.response.name))
    made["second"] = again.response.name
    equal((again.response.expire_time - again.response.create_time).days, 14)


@steps("get")
def get() -> None:
    equal(sandboxes.get(name=made["sandbox"]).display_name, "mine")
    equal(sandboxes.get(name=made["sandbox"].removeprefix(PARENT + "/")).name, made["sandbox"])
    absent = made["engine"] + "/sandboxEnvironments/1"
    holds(refused(ClientError, 404, "NOT_FOUND", lambda: sandboxes.get(name=absent)), absent)
    bad = made["sandbox"].rpartition("/")[0] + "/mine"
    holds(refused(ClientError, 400, "INVALID_ARGUMENT", lambda: sandboxes.get(name=bad)), "number")


@steps("execute_code")
def execute() -> None:
    equal(run("x = 20\nprint(x)")[:2], ("20\n", ""))
    equal(run("print(x + 1)")[:2], ("21\n", ""))
    holds(run("x / 0")[1], "ZeroDivisionError: division by zero")


@steps("execute_code: files in and out")
def files() -> None:
    every = bytes(range(256)) * 8_000
    code = "open('out.bin', 'wb').write(open('in.bin', 'rb').read()[::-1]); open('o.csv', 'w').write('a,b')"
    sent = [{"name": "in.bin", "content": every}, {"name": "data/two.txt", "content": b"2", "mimeType": "text/plain"}]
    produced = run(code, sent)[2]
    equal(sorted(produced), ["o.csv", "out.bin"])
    equal((produced["o.csv"].data, produced["o.csv"].mime_type), (b"a,b", "text/csv"))
    assert produced["out.bin"].data == every[::-1]
    equal(run("print(open('data/two.txt').read())")[0], "2\n")
    outside = [{"name": "../escape", "content": b"x"}]
    refused(ClientError, 400, "INVALID_ARGUMENT", lambda: run("pass", outside))


@steps("execute_code: a plot")
def plot() -> None:
    shown = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")[2]
    ((name, image),) = shown.items()
    holds(name, "code_execution_image_", ".png")
    equal((image.data[:4], image.mime_type), (b"\x89PNG", "image/png"))


@steps("execute_code: no network")
def network() -> None:
    holds(run("import socket\nsocket.create_connection(('8.8.8.8', 53), timeout=5)")[1], "Error")


@steps("execute_code: JavaScript")
def javascript() -> None:
    spec = {"code_execution_environment": {"code_language": "LANGUAGE_JAVASCRIPT"}}
    sandbox = sandboxes.create(name=made["engine"], spec=spec).response
    equal(run("const x = 6; console.log(x * 7)", sandbox=sandbox.name)[0], "42\n")
    sandboxes.delete(name=sandbox.name)


@steps("with an API key")
def api_key() -> None:
    other = (by_key.agent_engines if NAME == "vertexai" else by_key).sandboxes
    equal(run("print(x)", where=other)[0], "20\n")
    stranger = module.Client(api_key="sandcell_nobody", http_options={"base_url": URL})
    other = (stranger.agent_engines if NAME == "vertexai" else stranger).sandboxes
    refused(ClientError, 401, "UNAUTHENTICATED", lambda: other.get(name=made["sandbox"]))


@steps("list by state and by page")
def list_them() -> None:
    def names(**config: Any) -> list[str]:
        return [each.name for each in sandboxes.list(name=made["engine"], config=config)]

    both = [made["second"], made["sandbox"]]
    equal(names(), both)
    equal(names(page_size=1), both)
    equal(names(filter='state="STATE_RUNNING"'), both)
    equal(names(filter='state="STATE_RUNNING" AND display_name="mine"'), both[1:])
    equal(names(filter='state="STATE_PAUSED"'), [])
    refused(ClientError, 400, "INVALID_ARGUMENT", lambda: names(filter="size > 1"))


@steps("templates")
def templates() -> None:
    container = {"default_container_category": "DEFAULT_CONTAINER_CATEGORY_SHELL_SANDBOX"}
    config = {"default_container_environment": container}
    operation = sandboxes.templates.create(name=made["engine"], display_name="shells", config=config)
    name = operation.response.name
    holds(str(sandboxes.templates.get(name=name).state), "ACTIVE")
    equal([each.name for each in sandboxes.templates.list(name=made["engine"])], [name])
    made_from = sandboxes.create(name=made["engine"], config={"sandbox_environment_template": name})
    equal(made_from.response.sandbox_environment_template, name)
    sandboxes.delete(name=made_from.response.name)
    sandboxes.templates.delete(name=name)
    refused(ClientError, 404, "NOT_FOUND", lambda: sandboxes.templates.get(name=name))


if NAME == "agentplatform":

    @steps("execute_bash")
    def bash() -> None:
        shell = sandboxes.create(name=made["engine"], spec={"shell_environment": {}}).response
        done = sandboxes.execute_bash(name=shell.name, command="pwd; echo oops >&2; exit 3", cwd="/tmp")
        equal((done["stdout"], done["stderr"], done["returncode"]), ("/tmp\n", "oops\n", 3))
        slow = sandboxes.execute_bash(name=shell.name, command="sleep 60", timeout=1)
        holds(slow["stderr"], "longer than it may")
        sandboxes.delete(name=shell.name)

    @steps("pause and resume")
    def pause() -> None:
        run("paused = [1, 2]")
        for verb, state in ((sandboxes.pause, "STATE_PAUSED"), (sandboxes.resume, "STATE_RUNNING")):
            verb(name=made["sandbox"])
            equal(sandboxes.get(name=made["sandbox"]).state.value, state)
        equal(run("print(paused)")[:2], ("[1, 2]\n", ""))


@steps("snapshots")
def snapshots() -> None:
    run("tried = [1]; open('tried.txt', 'w').write('one')")
    config = {"display_name": "tried once", "ttl": "3600s"}
    taken = sandboxes.snapshots.create(source_sandbox_environment_name=made["sandbox"], config=config).response
    equal((taken.display_name, taken.source_sandbox_environment), ("tried once", made["sandbox"]))
    equal(sandboxes.snapshots.get(name=taken.name).size_bytes, taken.size_bytes)
    equal([each.name for each in sandboxes.snapshots.list(name=made["engine"])], [taken.name])
    run("tried.append(2); open('tried.txt', 'w').write('two')")
    begun = sandboxes.create(name=made["engine"], config={"sandbox_environment_snapshot": taken.name}).response
    equal((begun.state.value, begun.sandbox_environment_snapshot), ("STATE_RUNNING", taken.name))
    told = "print(tried, open('tried.txt').read())"
    equal([run(told, sandbox=each)[0] for each in (begun.name, made["sandbox"])], ["[1] one\n", "[1, 2] two\n"])
    sandboxes.delete(name=begun.name)
    sandboxes.snapshots.delete(name=taken.name)
    refused(ClientError, 404, "NOT_FOUND", lambda: sandboxes.snapshots.get(name=taken.name))


@steps("delete")
def delete() -> None:
    operation = sandboxes.delete(name=made["sandbox"])
    equal((operation.done, operation.name), (True, made["sandbox"] + "/operations/delete"))
    refused(ClientError, 404, "NOT_FOUND", lambda: sandboxes.get(name=made["sandbox"]))
    refused(ClientError, 404, "NOT_FOUND", lambda: run("1"))


@steps("delete an engine with what is in it")
def delete_engine() -> None:
    refused(ClientError, 400, "FAILED_PRECONDITION", lambda: engines.delete(name=made["engine"]))
    engines.delete(name=made["engine"], force=True)
    refused(ClientError, 404, "NOT_FOUND", lambda: sandboxes.get(name=made["second"]))
    refused(ClientError, 404, "NOT_FOUND", lambda: engines.get(name=made["engine"]))


steps.report()
