"""One MCP session: its requests answered from a toolbox, whatever transport they come over.

A transport gives each request to `answer` in a task of its own, and tells `note` of notifications. While a call runs,
its progress goes out by the `send` that came with it; when the client cancels it, what it runs is stopped.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from typing import Any, Final

from sandcell.errors import NotFound, SandcellError
from sandcell.mcp import messages
from sandcell.mcp.messages import Id, Notification, Request, RpcError
from sandcell.tools import addresses
from sandcell.tools.contents import Content, Image, Link, Text, ToolResult
from sandcell.tools.toolbox import Toolbox

MOST_CALLS: Final = 32
"""Requests of one MCP session that are answered at once."""
PROGRESS_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 5.0
"""Code that prints nothing shows that often that it still runs."""
LONGEST_PROGRESS: Final = 500
"""The message of a progress notification, in characters: the last line that was printed."""
LINKS_SINCE: Final = "2025-06-18"
KEY: Final = "sandcell/idempotency-key"
"""In a call's `_meta`: a name of the caller's own for what it runs, which the same call finds again."""
EXECUTION: Final = "sandcell/execution"
"""In a result's `_meta`: where all that came of the code is on record."""
MOST_KEY_CHARACTERS: Final = 200
INSTRUCTIONS: Final = (
    "Sandcell runs Python and shell commands in a sandbox that keeps variables, packages and files from call to call. "
    "The session `default` starts at the first call. Each tool's description says what its sandbox can reach and use. "
    "Long output is cut; read_file takes the address that the result gives."
)
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Conversation:
    """The answers of one session. `protocol` is the revision that was agreed on, empty before that."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self.protocol = ""
        self._calls: dict[Id, asyncio.Task[Any]] = {}
        self._cancelled: set[Id] = set()
        self._methods: dict[str, Callable[[Request, Send], Awaitable[dict[str, Any]]]] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
        }

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return bool(self._calls)

    async def answer(self, request: Request, send: Send) -> dict[str, Any]:
        """The answer to a request, as a message; `send` takes notifications before it."""
        task = asyncio.current_task()
        if task is None or request.id in self._calls:
            return messages.make_error(
                request.id, RpcError(messages.INVALID_REQUEST, "a request of this id is being answered")
            )
        if len(self._calls) >= MOST_CALLS:
            return messages.make_error(
                request.id, RpcError(messages.INVALID_REQUEST, f"{MOST_CALLS} requests are being answered already")
            )
        self._calls[request.id] = task
        try:
            return messages.make_result(request.id, await self._dispatch(request, send))
        except RpcError as error:
            return messages.make_error(request.id, error)
        except asyncio.CancelledError:
            if request.id not in self._cancelled:
                raise
            task.uncancel()
            return messages.make_error(request.id, RpcError(messages.CANCELLED, "the request was cancelled"))
        finally:
            del self._calls[request.id]
            self._cancelled.discard(request.id)

    async def _dispatch(self, request: Request, send: Send) -> dict[str, Any]:
        method = self._methods.get(request.method)
        if method is None:
            raise RpcError(messages.METHOD_NOT_FOUND, f"there is no method {request.method[:100]!r}")
        if not self.protocol and request.method not in ("initialize", "ping"):
            raise RpcError(messages.INVALID_REQUEST, "the session begins with initialize")
        try:
            return await method(request, send)
        except NotFound as error:
            raise RpcError(messages.RESOURCE_NOT_FOUND, error.message) from None
        except SandcellError as error:
            raise RpcError(messages.INTERNAL_ERROR, error.message, {"code": error.code}) from None

    def note(self, notification: Notification) -> None:
        """Called with each notification: one of them cancels a request."""
        if notification.method != "notifications/cancelled":
            return
        request_id = notification.params.get("requestId")
        task = self._calls.get(request_id) if isinstance(request_id, str | int) else None
        if task is not None and request_id is not None and request_id not in self._cancelled:
            self._cancelled.add(request_id)
            task.cancel()

    async def aclose(self) -> None:
        """End what runs, and the sessions that were started here."""
        own = asyncio.current_task()
        calls = [task for task in self._calls.values() if task is not own]
        self._cancelled.update(self._calls)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self.toolbox.aclose()

    async def _initialize(self, request: Request, _send: Send) -> dict[str, Any]:
        asked = request.params.get("protocolVersion")
        if not isinstance(asked, str):
            raise RpcError(messages.INVALID_PARAMS, "initialize says which protocolVersion it wants")
        self.protocol = asked if asked in messages.VERSIONS else messages.VERSIONS[-1]
        return {
            "protocolVersion": self.protocol,
            "capabilities": {"tools": {"listChanged": False}, "resources": {"listChanged": False, "subscribe": False}},
            "serverInfo": {"name": "sandcell", "title": "Sandcell", "version": version("sandcell")},
            "instructions": INSTRUCTIONS,
        }

    async def _ping(self, _request: Request, _send: Send) -> dict[str, Any]:
        return {}

    async def _list_tools(self, _request: Request, _send: Send) -> dict[str, Any]:
        return {
            "tools": [
                {
                    "name": tool["name"],
                    "title": tool["title"],
                    "description": tool["description"],
                    "inputSchema": tool["input_schema"],
                    "annotations": tool["annotations"],
                    "_meta": {"sandcell/constraints": tool["constraints"]},
                }
                for tool in await self.toolbox.make_manifest()
            ]
        }

    async def _call_tool(self, request: Request, send: Send) -> dict[str, Any]:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise RpcError(messages.INVALID_PARAMS, "tools/call has a name and arguments, which are an object")
        token = _find_progress_token(request.params)
        progress = Progress(token, send) if token is not None else None
        try:
            async with progress.reporting() if progress is not None else contextlib.nullcontext():
                on_progress = progress.note if progress is not None else None
                result = await self.toolbox.call(name, arguments, on_progress, _find_key(request.params))
        except NotFound as error:
            raise RpcError(messages.INVALID_PARAMS, error.message) from None
        return self._make_tool_result(result)

    def _make_tool_result(self, result: ToolResult) -> dict[str, Any]:
        shown = [each for each in result.contents if self.protocol >= LINKS_SINCE or not isinstance(each, Link)]
        about = {"_meta": {EXECUTION: result.address}} if result.address else {}
        return {"content": [make_block(each) for each in shown], "isError": result.is_error, **about}

    async def _list_resources(self, _request: Request, _send: Send) -> dict[str, Any]:
        links = await self.toolbox.list_resources()
        return {"resources": [{"uri": each.uri, "name": each.name, "mimeType": each.media_type} for each in links]}

    async def _list_templates(self, _request: Request, _send: Send) -> dict[str, Any]:
        return {
            "resourceTemplates": [
                {"uriTemplate": template, "name": name} | ({"mimeType": media_type} if media_type else {})
                for template, name, media_type in addresses.TEMPLATES
            ]
        }

    async def _read_resource(self, request: Request, _send: Send) -> dict[str, Any]:
        uri = request.params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(messages.INVALID_PARAMS, "resources/read has a uri")
        data, media_type = await self.toolbox.read_resource(uri)
        if len(data) > addresses.MOST_RESOURCE_BYTES:
            raise RpcError(messages.INVALID_REQUEST, f"{uri} has {len(data):,} bytes: read_file reads it in parts")
        content: dict[str, Any] = {"uri": uri, "mimeType": media_type}
        try:
            if b"\0" in data:
                raise UnicodeDecodeError("utf-8", data, 0, 1, "not text")
            return {"contents": [content | {"text": data.decode()}]}
        except UnicodeDecodeError:
            return {"contents": [content | {"blob": base64.b64encode(data).decode()}]}


def make_block(content: Content) -> dict[str, Any]:
    """A content of a tool's result in MCP's shape."""
    if isinstance(content, Text):
        return {"type": "text", "text": content.text.encode("utf-8", "replace").decode()}
    if isinstance(content, Image):
        data = base64.b64encode(content.data).decode()
        return {"type": "image", "data": data, "mimeType": content.media_type}
    return {"type": "resource_link", "uri": content.uri, "name": content.name, "mimeType": content.media_type}


def _find_progress_token(params: dict[str, Any]) -> Id | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


def _find_key(params: dict[str, Any]) -> str | None:
    meta = params.get("_meta")
    key = meta.get(KEY) if isinstance(meta, dict) else None
    if key is None:
        return None
    if isinstance(key, str) and 1 <= len(key) <= MOST_KEY_CHARACTERS and key.isascii() and key.isprintable():
        return key
    raise RpcError(
        messages.INVALID_PARAMS, f"{KEY} is a string of 1 to {MOST_KEY_CHARACTERS} printable ASCII characters"
    )


class Progress:
    """Progress notifications of one call: the seconds it has run, and the last line that it printed."""

    def __init__(self, token: Id, send: Send) -> None:
        self._token = token
        self._send = send
        self._line = ""
        self._news = False

    def note(self, text: str) -> None:
        """Called with what code prints."""
        lines = text.strip().splitlines()
        if lines:
            self._line, self._news = lines[-1][-LONGEST_PROGRESS:], True

    @contextlib.asynccontextmanager
    async def reporting(self) -> AsyncIterator[None]:
        """Report until the block ends."""
        task = asyncio.create_task(self._report())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        began = last = loop.time()
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            now = loop.time()
            if not self._news and now - last < SILENT_SECONDS:
                continue
            self._news, last = False, now
            params: dict[str, Any] = {"progressToken": self._token, "progress": round(now - began, 1)}
            if self._line:
                params["message"] = self._line.encode("utf-8", "replace").decode()
            await self._send(messages.make_notification("notifications/progress", params))
