"""What every client tries with the tools. Each step is a row of the report: `works`, or what went wrong."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

TOOLS = [
    *("run_python", "run_shell", "install_packages", "write_file", "read_file", "list_files", "list_variables"),
    *("interrupt", "restart", "undo", "start_session", "stop_session", "replay"),
]
FIGURE = """
import base64, struct, zlib
from IPython.display import Image, display
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(4))) + chunk(b"IEND", b"")
display(Image(b"\\x89PNG\\r\\n\\x1a\\n" + data))
"""
TICKS = "import time\nfor number in range(5):\n    print('tick', number, flush=True)\n    time.sleep(0.5)"

Call = Callable[..., Awaitable[tuple[str, bool, int]]]
"""Calls a tool by its name and arguments; returns its text, whether it failed, and how many images it showed."""


class Steps:
    def __init__(self, call: Call) -> None:
        self.call = call
        self.rows: dict[str, str] = {}

    async def row(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
            self.rows[name] = "works"
        except Exception:
            self.rows[name] = traceback.format_exc()

    async def every_tool(self) -> None:
        for name in ("state", "failure", "shell", "image", "files", "variables", "cut", "named", "restart", "replay"):
            await self.row(name, getattr(self, name))

    async def state(self) -> None:
        assert await self.call("run_python", code="x = 41") == ("(no output)", False, 0)
        assert await self.call("run_python", code="print('shown'); x + 1") == ("shown\n42", False, 0)

    async def failure(self) -> None:
        text, failed, _ = await self.call("run_python", code="1/0")
        assert failed, text
        assert text.endswith("ZeroDivisionError: division by zero"), text
        text, failed, _ = await self.call("run_python", code="import time; time.sleep(60)", timeout_seconds=0.5)
        assert failed, text
        assert "variables are kept" in text, text

    async def shell(self) -> None:
        text, failed, _ = await self.call("run_shell", command="pwd; echo to stderr >&2; exit 3")
        assert (text, failed) == ("/workspace\n[stderr]\nto stderr\n[exit code 3]", True)

    async def image(self) -> None:
        assert (await self.call("run_python", code=FIGURE))[1:] == (False, 1)

    async def files(self) -> None:
        text, failed, _ = await self.call("write_file", path="/workspace/notes/a.txt", content="häh\n")
        assert (text, failed) == ("Wrote 5 bytes to notes/a.txt", False)
        assert (await self.call("read_file", path="notes/a.txt"))[0] == "häh\n"
        assert (await self.call("list_files", recursive=True))[0] == "notes/\nnotes/a.txt  5 bytes"
        text, failed, _ = await self.call("read_file", path="../etc/passwd")
        assert failed, text

    async def variables(self) -> None:
        assert "x: int = 41" in (await self.call("list_variables"))[0]

    async def cut(self) -> None:
        text, _, _ = await self.call("run_python", code="print('a' * 5000 + 'b' * 5000)", max_output_bytes=1000)
        assert len(text) < 2000, len(text)
        assert "9,000 of 10,000 bytes are not shown" in text, text
        address = text.split('path="')[1].split('"')[0]
        rest, failed, _ = await self.call("read_file", path=address, offset=4990, max_output_bytes=1000)
        assert not failed, rest
        assert rest.startswith("a" * 10 + "b" * 990), rest
        assert "offset=5990 reads on" in rest, rest

    async def named(self) -> None:
        text, failed, _ = await self.call("start_session", session="other")
        assert not failed, text
        text, failed, _ = await self.call("run_python", code="x", session="other")
        assert (failed, "NameError" in text) == (True, True), text
        assert not (await self.call("stop_session", session="other"))[1]
        text, failed, _ = await self.call("run_python", code="x", session="other")
        assert (failed, "start_session" in text) == (True, True), text

    async def restart(self) -> None:
        assert not (await self.call("restart"))[1]
        assert "NameError" in (await self.call("run_python", code="x"))[0]

    async def replay(self) -> None:
        text, failed, _ = await self.call("replay")
        assert not failed, text
        assert "ame" in text, text
