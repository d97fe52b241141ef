"""jupyter-mcp-server, by the official SDK's client: its kernel is a live session, its notebook a Jupyter server's own.

Arguments: the service's URL, a token, the session. Prints a JSON object: each tool call with what it answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

if TYPE_CHECKING:
    from collections.abc import Iterator

URL, TOKEN, SESSION = sys.argv[1:4]
BIN = Path(sys.executable).parent
SECONDS = 120
EMPTY = {"cells": [], "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}}}
PLOT = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


@contextmanager
def documents() -> Iterator[str]:
    """A Jupyter server that has the notebook `doc.ipynb` and takes part in edits; its address."""
    Path("doc.ipynb").write_text(json.dumps({**EMPTY, "nbformat": 4, "nbformat_minor": 5}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = [f"--port={port}", "--IdentityProvider.token=documents", "--allow-root", "--no-browser"]
    with subprocess.Popen([BIN / "jupyter-server", *given], stdout=sys.stderr) as server:
        address = f"http://127.0.0.1:{port}"
        give_up = time.monotonic() + SECONDS
        while not answers(address):
            assert time.monotonic() < give_up
            time.sleep(0.1)
        try:
            yield address
        finally:
            server.terminate()


def answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/api/status?token=documents", timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


async def main(address: str) -> dict[str, Any]:
    kernel = ["--code-sandbox-url", URL, "--code-sandbox-token", TOKEN, "--code-sandbox-id", SESSION]
    beside = ["--document-url", address, "--document-token", "documents"]
    given = ["start", "--transport", "stdio", *kernel, "--start-new-code-sandbox", "false", *beside]
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = StdioServerParameters(command=str(BIN / "jupyter-mcp-server"), args=given, env=environment)
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def call(tool: str, **arguments: Any) -> list[str]:
            result = await session.call_tool(tool, arguments)
            assert not result.is_error, result
            return [each.text if each.type == "text" else each.type for each in result.content]

        cell = {"cell_source": "person = agent + 1; print(person)", "timeout": SECONDS}
        return {
            "kernels": await call("list_kernels"),
            "shared": await call("execute_code", code="print(agent + 1)", timeout=SECONDS),
            "error": await call("execute_code", code="agent / 0", timeout=SECONDS),
            "plot": await call("execute_code", code=PLOT, timeout=SECONDS),
            "too long": await call("execute_code", code="import time; time.sleep(600)", timeout=1),
            "used": await call("use_notebook", notebook_name="n", notebook_path="doc.ipynb", kernel_id=SESSION),
            "cell": await call("insert_execute_code_cell", cell_index=0, **cell),
            "notebook": await call("read_cell", cell_index=0),
            "restarted": await call("restart_notebook", notebook_name="n"),
            "after": await call("execute_code", code="'person' in globals()", timeout=SECONDS),
        }


with documents() as address:
    report = asyncio.run(main(address))
print(json.dumps(report))
