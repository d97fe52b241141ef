"""One door's own client, in its own environment: `client.py DOOR URL TOKEN`; a command a line, seconds as answer.

`create` starts a session, sandbox or kernel and ends the one before, outside of what is measured; `execute` runs `1+1`
in it, and sees to it that 2 comes back. `take` and `give` are Agent Engine's files. It imports nothing of this project
but its client.
"""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

DOOR, URL, TOKEN = sys.argv[1:4]
QUARTER = bytes(range(250)) * 100_000
"""Of 100 MB."""
warnings.simplefilter("ignore")


class Rest:
    def __init__(self) -> None:
        from sandcell import Client

        self.client = Client(URL, TOKEN)

    def create(self) -> Any:
        return self.client.attach(self.client.start_session().id)

    def execute(self, made: Any) -> str:
        return str(made.run("1+1").text)

    def end(self, made: Any) -> None:
        made.stop()


class AgentCore:
    """The key is the service's own of the benchmarks, as `key:secret`."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        key, secret = TOKEN.split(":")
        session = boto3.Session(key, secret, region_name="eu-central-1")
        self.client = session.client("bedrock-agentcore", endpoint_url=URL, config=Config(read_timeout=300))

    def create(self) -> Any:
        return self.client.start_code_interpreter_session(codeInterpreterIdentifier="aws.codeinterpreter.v1")

    def execute(self, made: Any) -> str:
        answer = self.client.invoke_code_interpreter(
            codeInterpreterIdentifier="aws.codeinterpreter.v1",
            sessionId=made["sessionId"],
            name="executeCode",
            arguments={"code": "1+1", "language": "python"},
        )
        (result,) = [event["result"] for event in answer["stream"] if "result" in event]
        return str(result["content"][0]["text"])

    def end(self, made: Any) -> None:
        self.client.stop_code_interpreter_session(
            codeInterpreterIdentifier="aws.codeinterpreter.v1", sessionId=made["sessionId"]
        )


class AgentEngine:
    def __init__(self) -> None:
        import vertexai
        from google.oauth2.credentials import Credentials

        where = {"project": "mine", "location": "us-central1"}
        client = vertexai.Client(**where, credentials=Credentials(token=TOKEN), http_options={"base_url": URL})
        self.sandboxes = client.agent_engines.sandboxes
        self.engine = client.agent_engines.create().api_resource.name

    def create(self) -> Any:
        spec = {"code_execution_environment": {}}
        return self.sandboxes.create(name=self.engine, spec=spec, config={"ttl": "3600s"}).response.name

    def execute(self, made: Any) -> str:
        answer = self.sandboxes.execute_code(name=made, input_data={"code": "print(1+1)"})
        return "2" if b'"2\\n"' in answer.outputs[0].data else str(answer)

    def take(self, made: Any) -> str:
        """A hundred megabytes in four files of one request."""
        files = [{"name": f"in-{number}", "content": QUARTER, "mimeType": ""} for number in range(4)]
        code = "import os; print(sum(os.path.getsize(f'in-{number}') for number in range(4)) // 50_000_000)"
        answer = self.sandboxes.execute_code(name=made, input_data={"code": code, "files": files})
        return "2" if b'"2\\n"' in answer.outputs[0].data else str(answer)[:1000]

    def give(self, made: Any) -> str:
        """The same in the files of one answer."""
        code = f"for number in range(4): open(f'out-{{number}}', 'wb').write(bytes({len(QUARTER)}))"
        answer = self.sandboxes.execute_code(name=made, input_data={"code": code})
        return str(sum(len(each.data) for each in answer.outputs[1:]) // 50_000_000)

    def end(self, made: Any) -> None:
        self.sandboxes.delete(name=made)


class E2B:
    def __init__(self) -> None:
        from e2b_code_interpreter import Sandbox

        self.make: Callable[[], Any] = lambda: Sandbox.create(
            api_key="e2b_" + TOKEN.encode().hex(), api_url=URL, sandbox_url=URL
        )

    def create(self) -> Any:
        return self.make()

    def execute(self, made: Any) -> str:
        return str(made.run_code("1+1").text)

    def end(self, made: Any) -> None:
        made.kill()


class Jupyter:
    def __init__(self) -> None:
        from jupyter_kernel_client import JupyterKernelClient

        self.make: Callable[[], Any] = lambda: JupyterKernelClient(server_url=URL, token=TOKEN)

    def create(self) -> Any:
        kernel = self.make()
        kernel.start(name="python")
        return kernel

    def execute(self, made: Any) -> str:
        return str(made.execute("1+1")["outputs"][0]["data"]["text/plain"])

    def end(self, made: Any) -> None:
        made.stop(shutdown_kernel=True)


class Mcp:
    """The SDK is asynchronous: its connection lives in one loop, which each call runs for a while."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ready: asyncio.Event = asyncio.Event()
        self.open = self.loop.create_task(self._hold())
        self.loop.run_until_complete(self.ready.wait())

    async def _hold(self) -> None:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120)
        async with Client(streamable_http_client(f"{URL}/mcp", http_client=http)) as self.client:
            self.ready.set()
            await asyncio.Event().wait()

    def _call(self, tool: str, **arguments: Any) -> str:
        result = self.loop.run_until_complete(self.client.call_tool(tool, arguments))
        assert not result.is_error, result
        return "".join(each.text for each in result.content if each.type == "text")

    def create(self) -> Any:
        self._call("start_session", session="measured")
        return "measured"

    def execute(self, made: Any) -> str:
        return "2" if "2" in self._call("run_python", code="1+1", session=made).split() else "not 2"

    def end(self, made: Any) -> None:
        self._call("stop_session", session=made)


DOORS = {
    "rest": Rest,
    "agentcore": AgentCore,
    "agent_engine": AgentEngine,
    "e2b": E2B,
    "jupyter": Jupyter,
    "mcp": Mcp,
}


def main() -> None:
    door, made = DOORS[DOOR](), None
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "create":
            if made is not None:
                door.end(made)
            began = time.perf_counter()
            made = door.create()
        else:
            began = time.perf_counter()
            answer = getattr(door, line.strip())(made)
            assert answer.strip() == "2", answer
        print(time.perf_counter() - began, flush=True)
    if made is not None:
        door.end(made)


main()
