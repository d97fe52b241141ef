"""JavaScript and TypeScript in a real sandbox: state, errors, output, interrupts, and every end of their kernel."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.kernels.sandboxed.stage import OnStage, Stage


async def state(stage: Stage) -> None:
    assert await stage.shell("pgrep -c deno || true") == "0\n", "nobody has asked for it"
    await stage.js("let x = 41; globalThis.seen = new Map()")
    assert await stage.value("const y: number = x + 1; y", language="typescript") == "42"
    assert await stage.value("await Promise.resolve(y)") == "42"
    await stage.python("x = 'of Python'")
    assert await stage.value("x") == "41"
    assert await stage.python("x") == "'of Python'"
    await stage.js("await Deno.writeTextFile('shared.txt', `${Deno.uid()} ${Deno.cwd()}`)")
    assert await stage.python("open('shared.txt').read()") == "'1000 /workspace'"
    numbers = [(await stage.js("1")).execution_count for _ in range(2)]
    assert numbers[1] == (numbers[0] or 0) + 1


async def out_of_reach(stage: Stage) -> None:
    """Its sockets are the guest's: code can neither see them nor put its own in their place."""
    for line in ("ls", "rm -f {}/deno-g1-1", "ln -s /tmp {}/deno-g2-1", "touch {}/deno-g2-1", "mv {}/deno-g1-1 /tmp"):
        tried = line.format("/run/sandcell/guest") if "{}" in line else f"{line} /run/sandcell/guest"
        assert await stage.shell(f"{tried} > /dev/null 2>&1; echo $?") != "0\n", tried
    assert await stage.value("x") == "41"


async def output(stage: Stage) -> None:
    printed = await stage.js("console.log('a'); console.error('b'); process.stdout.write('c'); 'd'")
    assert (printed.stdout, printed.stderr) == ("a\nc", "b\n")
    assert printed.outputs[-1]["data"] == {"text/plain": '"d"'}
    many = await stage.js("for (let i = 0; i < 5000; i++) console.log(`line ${i}`)")
    assert many.stdout == "".join(f"line {number}\n" for number in range(5000))
    assert [each.kind for each in stage.events].count("stream") > 3
    shown = await stage.js("await Deno.jupyter.image(new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10, 0]))")
    assert shown.outputs[0]["data"]["image/png"] == "iVBORw0KGgoA"
    assert (await stage.js("null")).outputs == []


async def code_in_our_way(stage: Stage) -> None:
    """What ends a run is code as well; the user's may break it, and still every run ends and says what it can."""
    hurt = "globalThis.Symbol = null; globalThis.TextDecoder = null; JSON = null; Array.prototype.map = null; 1"
    assert await stage.value(hurt) == "1"
    assert (await stage.js("console.log('on')")).stdout == "on\n"
    await stage.js("let globalThis = null; setInterval(() => console.log('tick'), 5)")
    assert await stage.value("2") == "2"
    assert (await stage.js("throw new Error('no')")).status == "error"
    await stage.kernel.restart()
    assert await stage.value("setInterval(() => console.log('tick'), 1); 3") == "3"


async def errors(stage: Stage) -> None:
    thrown = await stage.js("throw new TypeError('no')")
    assert (thrown.status, thrown.error and (thrown.error.name, thrown.error.value)) == ("error", ("TypeError", "no"))
    unparsed = await stage.js("let broken = ;\nsecond", language="typescript")
    assert unparsed.status == "error"
    assert unparsed.error is not None
    assert unparsed.error.name == "SyntaxError"
    assert "let broken = ;" in unparsed.error.value
    assert "data:" not in unparsed.error.value
    absent = await stage.js("import absent from './not-there.ts'")
    assert absent.error is not None
    assert "not-there.ts" in absent.error.value
    asking = await stage.js("prompt('name?')")
    assert asking.error is not None
    assert "input is not available" in asking.error.value
    assert await stage.value("typeof broken") == '"undefined"', "code that does not parse does not run"


async def interrupts(stage: Stage) -> None:
    await stage.js("var kept = 1")
    late = await stage.js("for (;;) {}", timeout_seconds=2)
    assert (late.status, late.death) == ("timeout", None)
    assert late.error is not None
    assert late.error.name == "Interrupted"
    asked = await stage.while_running("for (;;) {}", stage.kernel.interrupt)
    assert (asked.status, asked.death) == ("interrupted", None)
    await stage.kernel.interrupt()
    assert await stage.value("kept") == "1", "an interrupt takes no state"
    generation = stage.kernel.generation
    deaf = await stage.js("await new Promise(() => {})", timeout_seconds=0.5)
    assert (deaf.status, deaf.death and deaf.death.cause) == ("timeout", "deadline")
    assert await stage.value("typeof kept") == '"undefined"'
    asked = await stage.while_running("await new Promise(() => {})", stage.kernel.interrupt)
    assert (asked.status, asked.death and asked.death.cause) == ("interrupted", "deadline")
    assert (stage.kernel.generation, await stage.python("x")) == (generation, "'of Python'")


async def deaths(stage: Stage) -> None:
    left = await stage.js("Deno.exit(3)")
    assert (left.status, left.death and left.death.exit_code) == ("died", 3)
    await stage.js("globalThis.again = 1")
    assert stage.deaths == [], "the outcome has said it"
    await stage.shell("pkill -ABRT deno")
    async with asyncio.timeout(120):
        while not stage.deaths:
            await asyncio.sleep(0.02)
    assert stage.deaths[0].signal == "SIGABRT"
    stage.events.clear()
    assert await stage.value("typeof again") == '"undefined"'
    assert (stage.events[0].kind, stage.events[0].data["cause"]) == ("generation", "signal")


async def restarts(stage: Stage) -> None:
    await stage.js("globalThis.kept = 7")
    generation = await stage.kernel.clear()
    assert await stage.value("kept") == "7", "a blank Python kernel is no blank JavaScript kernel"
    await stage.kernel.execute("import os; os._exit(1)", timeout_seconds=60, emit=lambda _event: None)
    assert stage.kernel.generation == generation + 1
    assert await stage.value("kept") == "7"
    ended = await stage.while_running("for (;;) {}", stage.kernel.restart)
    assert (ended.status, ended.death and ended.death.cause) == ("died", "restart")
    assert await stage.value("typeof kept") == '"undefined"'
    assert len(stage.deaths) == 1, "the caller who asked for the restart knows"


async def taken_up(stage: Stage) -> None:
    await stage.js("globalThis.kept = 'of before'")
    await stage.kernel.aclose()
    stage.kernel = await stage.launcher.adopt(stage.kernel.info)
    assert await stage.value("kept") == '"of before"'
    assert (await stage.js("console.log(kept)")).stdout == "of before\n"


# Under gVisor it takes twenty core-seconds.
@pytest.mark.parametrize("runtime_name", ["runc", "crun", pytest.param("runsc", marks=pytest.mark.long)])
def test_a_kernel_for_javascript_and_typescript(on_stage: OnStage) -> None:
    async def test(stage: Stage) -> None:
        for part in (state, out_of_reach, output, errors, interrupts, deaths, restarts, taken_up, code_in_our_way):
            await part(stage)

    on_stage(test)


@pytest.mark.parametrize("runtime_name", ["runc"])
def test_memory_that_runs_out_in_javascript_is_said_and_spares_python(on_stage: OnStage) -> None:
    async def test(stage: Stage) -> None:
        await stage.python("kept = 1")
        full = await stage.js("const all = []; for (;;) all.push(new Uint8Array(64 << 20).fill(1))", 120)
        assert (full.status, full.death and full.death.cause) == ("died", "oom")
        assert await stage.python("kept") == "1"
        assert await stage.value("1 + 1") == "2"

    on_stage(test)


@pytest.mark.parametrize("runtime_name", ["runc"])
def test_without_node_the_runtime_nodejs_says_so(on_stage: OnStage) -> None:
    async def test(stage: Stage) -> None:
        outcome = await stage.js("1", runtime="nodejs")
        assert (outcome.status, outcome.error and outcome.error.name) == ("error", "RuntimeNotFound")
        assert outcome.error is not None
        assert "no `node`" in outcome.error.value

    on_stage(test)
