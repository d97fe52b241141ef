"""What JupyterLab does, without a browser: its server in gateway mode, and a notebook's socket to that server.

Arguments: the service's URL, an attach token, the session. Prints a JSON object: each step with what was seen.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway_proxy import Proxy
from lab import LAB_TOKEN, SECONDS, Lab
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

URL, TOKEN, SESSION = sys.argv[1:4]
FLOOD = """
from IPython.display import display
display({"text/plain": "x" * (12 << 20)}, raw=True)
"""
BUFFERS = """
from comm import create_comm
channel = create_comm(target_name="nobody", data={"a": 1}, buffers=[b"\\x00\\xff\\xfe"])
channel.send({"b": 2}, buffers=[b"plain"])
"""
TICKS = """
import time
for number in range(24):
    print("tick", number, flush=True)
    time.sleep(0.25)
"""


class Notebook:
    """What an open notebook has: one socket to the Lab's server, in the framing it gets."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self.connection = connection
        self.session = uuid.uuid4().hex

    @classmethod
    async def open(cls, lab: Lab) -> Notebook:
        address = f"ws://127.0.0.1:{lab.port}/api/kernels/{SESSION}/channels?session_id={uuid.uuid4().hex}"
        request = HTTPRequest(address, headers={"Authorization": f"token {LAB_TOKEN}"})
        return cls(await websocket_connect(request, max_message_size=1 << 28))

    async def run(self, code: str, *, told: asyncio.Event | None = None) -> dict[str, Any]:
        """Run code to its idle and its reply: the text that was printed, and the types of all messages."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": self.session}
        header |= {"username": "person", "version": "5.3", "date": "2026-01-01T00:00:00.000000Z"}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        await self.connection.write_message(json.dumps(message))
        streams: dict[str, str] = {"stdout": "", "stderr": ""}
        types: list[str] = []
        reply: dict[str, Any] | None = None
        idle = False
        async with asyncio.timeout(SECONDS):
            while reply is None or not idle:
                said = await self.connection.read_message()
                if said is None:
                    raise ConnectionError("the Lab's server closed the socket")
                heard = json.loads(said)
                if heard["parent_header"].get("msg_id") != header["msg_id"]:
                    continue
                types.append(heard["header"]["msg_type"])
                if types[-1] == "stream":
                    streams[heard["content"]["name"]] += heard["content"]["text"]
                    if told is not None:
                        told.set()
                reply = heard["content"] if types[-1] == "execute_reply" else reply
                idle = idle or heard["content"].get("execution_state") == "idle"
        return {"status": reply["status"], "types": types, **streams}


async def attached(lab: Lab, proxy: Proxy) -> dict[str, Any]:
    """Everything that a person does, in order."""
    seen: dict[str, Any] = {}
    body = {"path": "look.ipynb", "type": "notebook", "name": "", "kernel": {"id": SESSION}}
    answer = await lab.ask("POST", "/api/sessions", body)
    seen["adopt"] = {"status": answer.code, "kernel": json.loads(answer.body).get("kernel", {}).get("id")}
    kernels = json.loads((await lab.ask("GET", "/api/kernels")).body)
    seen["listed"] = [each["id"] for each in kernels]
    notebook = await Notebook.open(lab)
    seen["shared"] = await notebook.run("print(agent + 1); person = 7")
    seen["flood"] = await notebook.run(FLOOD)
    seen["after flood"] = await notebook.run("print('still here')")
    seen["buffers"] = await notebook.run(BUFFERS)
    seen["after buffers"] = await notebook.run("print('still here')")
    ticking = asyncio.Event()
    running = asyncio.create_task(notebook.run(TICKS, told=ticking))
    await ticking.wait()
    await proxy.cut(4)
    seen["ticks"] = await running
    notebook.connection.close()
    return seen


async def main() -> None:
    parts = urlsplit(URL)
    proxy = Proxy(parts.hostname or "", parts.port or 0)
    await proxy.start()
    variables = {"JUPYTER_GATEWAY_AUTH_TOKEN": TOKEN}
    with tempfile.TemporaryDirectory() as home:
        lab = Lab(Path(home), variables, f"--gateway-url=http://127.0.0.1:{proxy.port}")
        async with lab:
            seen = await attached(lab, proxy)
            seen["exit"] = await lab.stop()
    print(json.dumps(seen))


asyncio.run(main())
