"""The page of a session whose code put out all that attacks browsers: nothing runs, is asked for or moves.

The same in three ways: as the service serves it; without the policy that the browser is given, so that the sanitiser
stands alone; and the attacks themselves on a bare page, which shows that they are some.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from pathlib import Path

import pytest

from tests.browser.canary import Canary, listening
from tests.browser.chromium import DEADLINE_SECONDS, Page, chromium
from tests.running_service import RunningService
from tests.unit.kernel_gateway.views.test_sanitising import HOSTILE

WATCHED_SECONDS = 2.0
"""How long a page is watched after it has loaded: what acts on a page acts at once, or after the moment it asks for."""

MORE = [
    "<img src=http://evil.example/direct.png>",
    "<input autofocus onfocus=run()>",
    "<marquee onstart=run()>x</marquee>",
    "<div style='animation: x 1s' onanimationstart=run()>x</div><style>@keyframes x {}</style>",
    "<svg><foreignObject><iframe src='http://evil.example/frame'></iframe></foreignObject></svg>",
    "<svg><image href='http://evil.example/image.png'/></svg>",
    "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><script>run()</script>"
    "<image href='http://evil.example/in.png'/><style>* { fill: url(http://evil.example/fill) }</style></svg>",
    "<meta http-equiv='Set-Cookie' content='a=b'><meta http-equiv=refresh content='1;url=http://evil.example/later'>",
    "<link rel=icon href='http://evil.example/icon'><link rel=dns-prefetch href='//evil.example'>",
    "<a href='https://a.example' style='display:block;height:100px' onmouseover=run()>x</a>",
    "\x1b]8;;javascript:run()\x07x\x1b]8;;\x07\x1b[31m<script>run()</script>",
    "![x](http://evil.example/markdown.png) [x](javascript:run()) <http://evil.example/auto>",
    r"$\href{javascript:run()}{x}$ $$\style{background: url(http://evil.example/tex)}{x}$$",
    r"$\text{</mtext></math><img src=x onerror=run()>}$ $\text{<script>run()</script>}$",
    '<img alt="$\\text{" onerror=run() x=}$" src=x> ![$\\text{" onerror=run() x=}$](data:image/png;base64,AAAA)',
    "[x]: http://evil.example/ref\n\n![x]\n\n$$<img src=x onerror=run()>$$ `<script>run()</script>`",
]
PAYLOADS = [
    payload.replace("run()", f"fetch(`http://n{number}.evil.example/ran`)").replace(
        "//evil.example", f"//n{number}.evil.example"
    )
    for number, payload in enumerate([*HOSTILE, *MORE])
]
MEDIA_TYPES = (
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "text/latex",
    "text/plain",
    "application/javascript",
    "image/png",
    "application/vnd.jupyter.widget-view+json",
    "text/vnd.mermaid",
)
ATTACK = """
import json, sys
payloads = json.loads({payloads!r})
for payload in payloads:
    for media_type in {media_types!r}:
        display({{media_type: payload}}, raw=True)
    display({{payload: payload}}, raw=True)
    isolated = {{"text/html": {{"isolated": True}}, "image/png": {{"alt": payload}}}}
    display({{"text/html": payload}}, raw=True, metadata=isolated)
    print(payload)
    print(payload, file=sys.stderr)
display({{"text/html": "".join(payloads)}}, raw=True)
error = type("".join(payloads[:5]).replace(chr(0), ""), (Exception,), {{}})
raise error("".join(payloads))
"""


@pytest.fixture(scope="module")
def served(service: RunningService) -> tuple[str, bytes]:
    """The address of the session's page, and the page."""
    code = ATTACK.format(payloads=json.dumps(PAYLOADS), media_types=MEDIA_TYPES)
    with service.client() as client, client.session("python") as session:
        assert session.run(code).status == "error"
        session.run(f"# {''.join(PAYLOADS)}".replace("\n", " ").replace("\x00", ""))
        session.command(f"cat <<'END'\n{''.join(PAYLOADS)}\nEND\n".replace("\x00", ""))
        page = client.notebook(session.id, "html")
        return f"{service.url}/v1/sessions/{session.id}/notebook?format=html", page


async def watched(page: Page, url: str, **headers: str) -> None:
    """Visit it, move over all of it, and wait for what may come."""
    await page.visit(url, **headers)
    for y in range(0, 1400, 100):
        await page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=100, y=y)
    await asyncio.sleep(WATCHED_SECONDS)


async def click_down(page: Page, x: int, heights: range) -> None:
    """Move to each of these places and click there; what that sets off has had its time when this returns."""
    for y in heights:
        await page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            await page.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    await asyncio.sleep(WATCHED_SECONDS)


async def require_nothing_acted(page: Page, canary: Canary, *shown: str) -> None:
    """Nothing was asked of anyone but at addresses that begin so, and nothing that the console shows has run in it."""
    assert canary.heard == []
    assert [each for each in page.requests() if not each.startswith((*shown, "data:"))] == []
    assert page.of("Page.javascriptDialogOpening") == page.of("Page.windowOpen") == []
    assert page.of("Runtime.exceptionThrown") == []
    assert await page.evaluate("document.scripts.length") == 1


def options(canary: Canary) -> str:
    return f"--host-resolver-rules=MAP *.example 127.0.0.1:{canary.port}"


def test_nothing_of_it_acts(served: tuple[str, bytes], service: RunningService, tmp_path: Path) -> None:
    asyncio.run(nothing_acts(*served, service.token, tmp_path))


async def nothing_acts(url: str, content: bytes, token: str, tmp_path: Path) -> None:
    assert content.count(b"<article") >= 4
    with listening() as canary:
        async with chromium(tmp_path, options(canary)) as page:
            await watched(page, url, Authorization=f"Bearer {token}")
            assert page.requests() == [url]
            assert page.navigations() == [url]
            assert page.of("Page.javascriptDialogOpening") == page.of("Runtime.consoleAPICalled") == []
            assert [each for each in page.of("Log.entryAdded") if "violates" in each["entry"]["text"]] == []
            assert (await page.evaluate("document.title")).startswith("session-")

            canary.pages["/bare"] = without_policy(content)
            bare = f"http://127.0.0.1:{canary.port}/bare"
            await watched(page, bare)
            assert [each for each in page.requests() if "favicon" not in each] == [bare]
            assert page.navigations() == [bare]
            assert (
                await page.evaluate("document.scripts.length + document.querySelectorAll('iframe, form').length") == 0
            )
        assert canary.heard == []


def without_policy(content: bytes) -> bytes:
    """The page as a browser sees it that knows no policies."""
    made, count = re.subn(rb'<meta http-equiv="Content-Security-Policy"[^>]*>', b"", content)
    assert count == 1
    return made


@pytest.mark.sample("pages")
def test_the_attacks_are_attacks(tmp_path: Path) -> None:
    """On a bare page they run and load: what the test above looks for, it can see."""
    ran, loaded = asyncio.run(heard_of_a_bare_page(tmp_path))
    assert len(ran) >= 15, ran
    assert len(loaded) >= 8, loaded


def sorted_out(heard: list[str]) -> tuple[set[str], set[str]]:
    """The payloads whose scripts ran, and those that loaded something."""
    ran = {each.partition(".")[0] for each in heard if each.endswith("/ran")}
    return ran, {each.partition(".")[0] for each in heard if not each.endswith("/ran")}


async def heard_of_a_bare_page(tmp_path: Path) -> tuple[set[str], set[str]]:
    quiet = [each for each in PAYLOADS if "http-equiv=refresh" not in each and "plaintext" not in each]
    with listening() as canary:
        for number, payload in enumerate(quiet):
            canary.pages[f"/{number}"] = f"<!DOCTYPE html><body>{payload}".encode()
        frames = "".join(f"<iframe width=80 height=80 src=/{number}></iframe>" for number in range(len(quiet)))
        canary.pages["/"] = f"<!DOCTYPE html><body>{frames}".encode()
        async with chromium(tmp_path, options(canary)) as page:
            await watched(page, f"http://127.0.0.1:{canary.port}/")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DEADLINE_SECONDS):
                    while not all(
                        len(each) >= most for each, most in zip(sorted_out(canary.heard), (15, 8), strict=True)
                    ):
                        await asyncio.sleep(0.1)
        return sorted_out(canary.heard)
