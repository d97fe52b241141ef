"""The console in a tab: its first paint and load; of a long session how soon it shows, how smoothly it scrolls, and
what the tab holds of its output.

Frames are those of Chromium's own tracing (`PipelineReporter`): each says whether it was shown or dropped. The browser
is headless and draws without a graphics card.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.bounds import at_least, at_most
from tests.browser.chromium import Page, chromium
from tests.browser.test_console import sign_in
from tests.running_service import RunningService

OUTPUT_BYTES = 20_000
SHOWN = "document.querySelector('[aria-posinset=\"{number}\"]')?.innerText.includes('{number:06} ')"
PAINT = "performance.getEntriesByName('first-contentful-paint')"
LOADED = """[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter(each => !each.name.includes('/v1/')).reduce((sum, each) => sum + each.transferSize, 0)"""
SCROLLED_PIXELS, PIXELS_A_SECOND = 20_000, 2_500
CATEGORIES = "cc,benchmark,disabled-by-default-devtools.timeline.frame"


def run(service: RunningService, environments_dir: Path, *, rounds: int = 5_000) -> str:
    """`rounds` is how many cells the session has, 20 KB of output each."""
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=900) as http:
        session = http.post("/v1/sessions", json={}).raise_for_status().json()["id"]
        for number in range(1, rounds + 1):
            code = f"print(('{number:06} ' + 'x' * 92 + '\\n') * {OUTPUT_BYTES // 100})"
            http.post(f"/v1/sessions/{session}/executions", json={"code": code}).raise_for_status()
        with tempfile.TemporaryDirectory(prefix="scbench", dir="/tmp") as directory:
            found = asyncio.run(_look(service, session, rounds, Path(directory)))
        http.delete(f"/v1/sessions/{session}").raise_for_status()
    return f"{rounds:,} cells, {rounds * OUTPUT_BYTES / 1e6:.0f} MB of output: {found}"


async def _look(service: RunningService, session: str, cells: int, directory: Path) -> str:
    async with chromium(directory) as page:
        await sign_in(page, service)
        painted, loaded = await _load(page, service)
        await page.ask("Performance.enable")
        worked, served, began = await _worked(page), _served(service), time.monotonic()
        await page.evaluate(f"location.hash = '#/sessions/{session}'")
        await page.wait_for(SHOWN.format(number=cells))
        opened = time.monotonic() - began
        worked, served = await _worked(page) - worked, _served(service) - served
        up, up_dropped = await _scroll(page, SCROLLED_PIXELS)  # as a finger moves: down, and what it holds with it
        down, down_dropped = await _scroll(page, -SCROLLED_PIXELS)
        for place in ("0", "1e9", "0", "1e9"):
            await page.evaluate(f"document.querySelector('.cells').scrollTop = {place}")
            await page.wait_for(SHOWN.format(number=1 if place == "0" else cells))
        await page.ask("HeapProfiler.collectGarbage")
        heap = (await page.ask("Runtime.getHeapUsage"))["usedSize"]
    figures = (
        at_most("first paint ms", painted, 1000),
        at_most("KB of first load", loaded / 1e3, 300),
        at_most("shows its end after s", opened, 2.0),
        f"until then the tab works for {worked * 1e3:.0f} ms and the service for {served * 1e3:.0f} ms",
        at_least("frames/s down", down, 50),
        at_least("frames/s up", up, 50),
        at_most("MB of heap", heap / 1e6, 120),
    )
    return f"{', '.join(figures)}; {down_dropped + up_dropped} frames dropped"


async def _worked(page: Page) -> float:
    """Seconds for which the tab's thread has worked."""
    metrics = (await page.ask("Performance.getMetrics"))["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def _served(service: RunningService) -> float:
    """Seconds of processor time of the process that serves."""
    fields = Path(f"/proc/{service.service_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _load(page: Page, service: RunningService) -> tuple[float, float]:
    """Milliseconds until something shows, and bytes of the page and its parts, with nothing in the browser's cache."""
    await page.ask("Network.setCacheDisabled", cacheDisabled=True)
    await page.visit(service.url)
    await page.wait_for("document.querySelector('h1')?.innerText === 'Sessions'")
    await page.ask("Network.setCacheDisabled", cacheDisabled=False)
    painted = await page.wait_for(f"{PAINT}[0]?.startTime")
    return float(painted), float(await page.evaluate(LOADED))


async def _scroll(page: Page, pixels: int) -> tuple[float, int]:
    """Frames a second while somebody scrolls steadily, and how many were dropped."""
    page.events.clear()
    await page.ask("Tracing.start", categories=CATEGORIES, transferMode="ReportEvents")
    # Beside the outputs: long ones scroll by themselves, and would keep the whole gesture.
    await page.ask(
        "Input.synthesizeScrollGesture", x=30, y=600, yDistance=pixels, speed=PIXELS_A_SECOND, preventFling=True
    )
    await page.ask("Tracing.end")
    await page.until("Tracing.tracingComplete")
    traced: list[dict[str, Any]] = [each for part in page.of("Tracing.dataCollected") for each in part["value"]]
    shown: dict[int, float] = {}
    dropped: set[int] = set()
    for each in traced:
        told = each.get("args", {}).get("frame_reporter", {})
        if each["name"] != "PipelineReporter" or told.get("scroll_state", "SCROLL_NONE") == "SCROLL_NONE":
            continue
        if "PRESENTED" in told["state"]:  # also when its forked half, which the page's thread draws, comes later
            shown.setdefault(told["frame_sequence"], each["ts"])
        elif "DROPPED" in told["state"]:
            dropped.add(told["frame_sequence"])
    seconds = (max(shown.values()) - min(shown.values())) / 1e6 if len(shown) > 1 else 1.0
    return len(shown) / seconds, len(dropped - shown.keys())
