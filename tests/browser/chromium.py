"""Headless Chromium, driven over the DevTools protocol: what a page does is seen from outside it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

DEADLINE_SECONDS = 120.0
"""For each thing the browser is asked to do: CI is slow, and it starts a dozen processes."""

OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # the tests run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-port=0",
    "--window-size=1000,1400",
)


class Page:
    """One tab. `events` holds all that the browser tells of it, in order."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.events: list[dict[str, Any]] = []
        self._socket = socket
        self._session: str | None = None
        self._asked = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())
        self._news = asyncio.Event()
        self._targets: dict[str, dict[str, Any]] = {}
        """Frames that have no origin, by their sessions of the protocol, once `in_frame` has asked for them."""

    async def open(self) -> None:
        target = await self.ask("Target.createTarget", url="about:blank")
        attached = await self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        await self.ask("Target.setDiscoverTargets", discover=True)
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.ask(f"{domain}.enable")
        await self.ask("Page.setLifecycleEventsEnabled", enabled=True)

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one command."""
        self._asked += 1
        answer = self._answers[self._asked] = asyncio.get_running_loop().create_future()
        of = params.pop("session", None if method.startswith("Target.") else self._session)
        message = {"id": self._asked, "method": method, "params": params}
        if of is not None:
            message["sessionId"] = of
        await self._socket.write_message(json.dumps(message))
        return await asyncio.wait_for(answer, DEADLINE_SECONDS)

    async def visit(self, url: str, **headers: str) -> None:
        """Go there and wait until it is loaded."""
        await self.ask("Network.setExtraHTTPHeaders", headers=headers)
        self.events.clear()
        went = await self.ask("Page.navigate", url=url)
        # By its name: the page before it may say only now that it is loaded.
        await self.until("Page.lifecycleEvent", name="load", loaderId=went["loaderId"])

    async def reload(self) -> None:
        """Load the page again, and wait until the document is another: until then the old one answers."""
        await self.evaluate("window.isLeft = true")
        await self.ask("Page.reload")
        await self.wait_for("!window.isLeft")

    async def until(self, method: str, **about: str) -> dict[str, Any]:
        """Wait for an event of the page's of which this is said."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not (found := [each for each in self.of(method) if about.items() <= each.items()]):
                self._news.clear()
                await self._news.wait()
        return found[0]

    def of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of a kind."""
        return [event["params"] for event in self.events if event["method"] == method]

    def requests(self) -> list[str]:
        """Addresses that the page asked for; pictures that are in it are no requests."""
        asked = [each["request"]["url"] for each in self.of("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith("data:image/")]

    def navigations(self) -> list[str]:
        """Where any of its frames went, and windows that opened."""
        went = [each["frame"]["url"] for each in self.of("Page.frameNavigated")]
        planned = [each["url"] for each in self.of("Page.frameRequestedNavigation")]
        return went + planned + [each["url"] for each in self.of("Page.windowOpen")]

    async def evaluate(self, expression: str) -> Any:
        """The value of JavaScript of the test's own."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def wait_for(self, expression: str) -> Any:
        """The value of JavaScript once there is one that counts as true.

        What it throws until then counts as no value, as do answers that a navigation cuts off: of a document that has
        only just come, or is not all there yet, a test asks for what it lacks.
        """
        last: object = None
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    try:
                        if last := await self.evaluate(expression):
                            return last
                    except (AssertionError, RuntimeError) as error:
                        last = error
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"{expression} is {last!r} after {DEADLINE_SECONDS:.0f} s") from None

    async def in_frame(self, kind: str, expression: str) -> Any:
        """The value of JavaScript in a frame that has this document of the console, once it counts as true in one."""
        watch = {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True}
        await self.ask("Target.setAutoAttach", **watch, session=self._session)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                for session in [name for name, of in self._targets.items() if f"/console/{kind}.html" in of["url"]]:
                    asked = {"expression": expression, "returnByValue": True, "session": session}
                    with contextlib.suppress(RuntimeError):  # the frame has gone
                        answer = await self.ask("Runtime.evaluate", **asked)
                        # What throws has not got all its parts yet.
                        if "exceptionDetails" not in answer and (found := answer["result"].get("value")):
                            return found
                await asyncio.sleep(0.05)

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        await self.ask("Input.insertText", text=text)

    async def press(self, key: str, *, shift: bool = False, control: bool = False) -> None:
        """Press a key of that name, or of a character, and let it go."""
        letter = key if len(key) == 1 else ""
        code = (
            (ord(letter.upper()) if letter.isalnum() else 0)
            if letter
            else {
                "Enter": 13,
                "Escape": 27,
                "Tab": 9,
                "Space": 32,
                "ArrowLeft": 37,
                "ArrowUp": 38,
                "ArrowRight": 39,
                "ArrowDown": 40,
            }[key]
        )
        text = {"Enter": "\r", "Space": "" if control else " "}.get(key, letter)
        for kind in ("keyDown", "keyUp"):
            await self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=" " if key == "Space" else key,
                code=f"Key{letter.upper()}" if letter.isalpha() else key,
                windowsVirtualKeyCode=code,
                modifiers=8 * shift + 2 * control,
                **({"text": text} if text and kind == "keyDown" else {}),
            )

    async def drop(self, path: Path, element: str) -> None:
        """Drop a file or a folder of this host on an element, as if it came from another program."""
        x, y = await self.evaluate(f"(at => [at.left + 5, at.top + 5])({element}.getBoundingClientRect())")
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            await self.ask("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    async def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """What shows as a picture, or all of a document that scrolls, for which it is laid out anew."""
        shot = await self.ask("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    async def aclose(self) -> None:
        self._socket.close()
        self._reader.cancel()
        await asyncio.wait({self._reader})

    async def _read(self) -> None:
        while (text := await self._socket.read_message()) is not None:
            message = json.loads(text)
            if (answer := self._answers.pop(message.get("id"), None)) is None:
                self._note_frame(message["method"], message["params"])
                self.events.append(message)
                self._news.set()
            elif "error" in message:
                answer.set_exception(RuntimeError(str(message["error"])))
            else:
                answer.set_result(message["result"])

    def _note_frame(self, method: str, about: dict[str, Any]) -> None:
        if method == "Target.attachedToTarget":
            self._targets[about["sessionId"]] = about["targetInfo"]
        elif method == "Target.targetInfoChanged":  # it is empty at first
            news = about["targetInfo"]
            self._targets |= {name: news for name, of in self._targets.items() if of["targetId"] == news["targetId"]}
        elif method == "Target.detachedFromTarget":
            self._targets.pop(about["sessionId"], None)


@contextlib.asynccontextmanager
async def chromium(directory: Path, *options: str) -> AsyncIterator[Page]:
    """A browser with one tab; nothing of it is left afterwards."""
    program = shutil.which("chromium")
    assert program, "chromium is missing: scripts/install dev installs it"
    profile = directory / "profile"
    process = await asyncio.create_subprocess_exec(
        program,
        *OPTIONS,
        f"--user-data-dir={profile}",
        *options,
        "about:blank",
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        env={**os.environ, "HOME": str(directory), "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
        start_new_session=True,
    )
    try:
        page = Page(await websocket_connect(await _address(profile, process), max_message_size=1 << 28))
        try:
            await page.open()
            yield page
        finally:
            await page.aclose()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _address(profile: Path, process: Process) -> str:
    """The address of the browser's DevTools socket."""
    file = profile / "DevToolsActivePort"
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not (file.is_file() and "\n" in file.read_text()):
            assert process.returncode is None, "chromium has ended"
            await asyncio.sleep(0.05)
    port = file.read_text().split()[0]
    answer = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/version")
    return str(json.loads(answer.body)["webSocketDebuggerUrl"])
