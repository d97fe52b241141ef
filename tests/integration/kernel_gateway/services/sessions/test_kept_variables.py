"""Variables that outlive their kernel: what is kept, what the next kernel has, and what is said of the rest."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway import settings
from kernel_gateway.errors import GenerationMismatch, InvalidRequest
from kernel_gateway.services.sessions import session_variables
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.session_variables import SessionVariables
from kernels.sandbox import SandboxUsage
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from kernels.wire.message import Message
from sandcell.models.commands import CommandRequest
from sandcell.models.sessions import Restored, Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House, house_in

OnSession = Callable[[Callable[[Gateway, Session], Awaitable[None]]], None]
FILL = """
import collections, datetime, decimal, json as notation, threading, numpy, pandas
class Point:
    def __init__(self, x): self.x = x
def double(number): return 2 * number
def make_adder(n): return lambda x: x + n
number, text, raw, nothing = 2 ** 70, "ä" * 10, bytes(200_000), None
listed = [1, {"a": (2, 3)}, {4}]
same = listed
point = Point([listed])
day, money = datetime.date(2020, 2, 29), decimal.Decimal("1.10")
counted = collections.Counter("abca")
array = numpy.arange(100_000.0)
frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
opened, waiting = open("/dev/null"), (each for each in listed)
lock, adder = threading.Lock(), make_adder(1)
class Trap:
    def __reduce__(self): raise RuntimeError("not me")
trap = Trap()
_own = 1
"""
CHECK = """
assert (number, text, len(raw), nothing) == (2 ** 70, "ä" * 10, 200_000, None)
assert listed == [1, {"a": (2, 3)}, {4}] and same is listed
assert type(point) is Point and point.x == [listed] and double(21) == 42
assert (day.year, str(money), counted["a"], notation.dumps([1])) == (2020, "1.10", 2, "[1]")
assert array.sum() == 4999950000.0 and list(frame["a"]) == [1, 2] and frame["b"].isna().sum() == 1
assert adder(1) == 2
sorted({"opened", "waiting", "lock", "trap", "_own"} & set(globals()))
"""
LOST = {
    "opened": "an open file",
    "waiting": "code that has begun: a generator",
    "lock": "TypeError: cannot pickle '_thread.lock' object",
    "trap": "RuntimeError: not me",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, short_directory: Path, environments_dir: Path) -> House:
    house = house_in(tmp_path_factory.mktemp("data"), short_directory, environments_dir)
    table = '[keeps]\nimage = "python"\nkeep_variables_mb = 20\n'
    (Path(house.settings.data_dir) / "environments.toml").write_text(table)
    default = next(row.default for row in settings.table() if row.name == "keep_variables")
    return House(replace(house.settings, keep_variables=default))  # nobody has asked for what happens here


@pytest.fixture(scope="module")
def on_session(house: House) -> Iterator[OnSession]:
    """Runs coroutine functions, one after another, with one gateway and a session that keeps its variables."""
    stack = AsyncExitStack()
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_variables, "IDLE_SECONDS", 0.0)
        patch.setattr(session_variables, "BACK_OFF", 0.0)
        gateway = runner.run(stack.enter_async_context(house.gateway()))
        session = runner.run(
            gateway.start(environment="keeps", timeout_seconds=1_000_000, idle_timeout_seconds=1_000_000)
        )
        yield lambda test: runner.run(test(gateway, session))
        runner.run(stack.aclose())


async def keep(gateway: Gateway, session: Session, code: str) -> None:
    """Run code, and wait until what it left is kept."""
    live = await gateway.services.registry.require(gateway.me, session.id)
    ran = await gateway.run(session, code)
    assert ran.status == "ok", ran
    executions = live.executions

    async def kept() -> bool:
        found = live.variables._kept
        return found is not None and found.executions == executions

    await gateway.until(kept)


async def die(gateway: Gateway, session: Session) -> None:
    """And let the time to keep variables come once the next kernel is there, before it was given any."""
    live = await gateway.services.registry.require(gateway.me, session.id)
    ran = await gateway.run(session, f"import os; os.kill(os.getpid(), {signal.SIGKILL.value})")
    assert ran.status == "died"
    await live.sandbox.kernel.ready()
    await live.variables._keep_if_idle(live.sandbox.kernel)


async def restored(gateway: Gateway, session: Session) -> Restored:
    found = (await gateway.show(session)).restored
    assert found is not None
    return found


def test_a_kernel_that_died_leaves_its_variables_to_the_next(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        assert (await gateway.show(session)).restored is None
        await keep(gateway, session, FILL)
        await gateway.run(session, "gone = 1\nimport time; time.sleep(0)")
        await die(gateway, session)
        checked = await gateway.run(session, CHECK)
        assert checked.error is None, checked.error
        assert checked.outputs[-1]["data"]["text/plain"] == "[]"
        told = await restored(gateway, session)
        assert (told.generation, told.why) == (2, None)
        assert {each.name: each.why for each in told.variables if each.outcome == "lost"} == LOST
        assert {each.name for each in told.variables} >= {"frame", "Point", "double", "same"}
        with pytest.raises(GenerationMismatch):  # what it had is there, and yet it is another kernel
            await gateway.run(session, "1", expect_generation=1)

    on_session(test)


def test_a_size_out_of_range_is_refused(on_session: OnSession) -> None:
    async def test(gateway: Gateway, _session: Session) -> None:
        for size in (0, 10_241):
            with pytest.raises(InvalidRequest, match="keep_variables_mb must be between 1 and 10,240"):
                await gateway.start(keep_variables="each", keep_variables_mb=size)

    on_session(test)


def test_a_restart_on_request_leaves_nothing(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        await keep(gateway, session, "kept = 1")
        await gateway.services.sessions.restart(gateway.me, session.id)
        assert await gateway.text(session, "'kept' in globals()") == "False"
        assert (await gateway.show(session)).restored is None
        await keep(gateway, session, "kept = 2")
        assert await gateway.text(session, "kept") == "2"
        await gateway.run(session, "1", clear_context=True)
        assert await gateway.text(session, "'kept' in globals()") == "False"

    on_session(test)


def test_what_has_no_room_is_lost_alone(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        await keep(gateway, session, "import os\nfits, large, after = 1, os.urandom(21_000_000), 2")
        await die(gateway, session)
        assert await gateway.text(session, "fits, after") == "(1, 2)"
        lost = [each for each in (await restored(gateway, session)).variables if each.outcome == "lost"]
        assert [(each.name, each.why) for each in lost] == [
            ("large", "there is no room for it within `keep_variables_mb`, or on the disk")
        ]

    on_session(test)


def test_a_kernel_that_code_ran_in_is_given_nothing_older(
    on_session: OnSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        live = await gateway.services.registry.require(gateway.me, session.id)
        await keep(gateway, session, "kept = 1")
        await die(gateway, session)
        with (
            pytest.MonkeyPatch.context() as patch
        ):  # as where the kernel was not there yet when it was to be given them
            patch.setattr(SessionVariables, "restore", skip)
            await gateway.run(session, "kept = 2")

        async def told() -> bool:
            found = (await gateway.show(session)).restored
            return found is not None and found.why == session_variables.LOST_LATE

        await gateway.until(told)
        assert await gateway.text(session, "kept") == "2"

        await keep(gateway, session, "kept")
        monkeypatch.setattr(live.variables, "_most_percent", 1)  # memory is short from here on
        await gateway.run(session, "kept = 3")
        await live.variables._keep_if_idle(live.sandbox.kernel)
        await die(gateway, session)
        assert await gateway.text(session, "kept") == "2", "what was kept before memory was short is there"
        told = await restored(gateway, session)
        assert (told.later, {each.outcome for each in told.variables} - {"lost"}) == (2, {"stale"})

    on_session(test)


SLOW = """
class Slow:
    def __reduce__(self):
        import os, time
        while not os.path.exists("keeping"):
            open("keeping", "w").close()
            try:
                time.sleep(600)
            except Exception:  # what ends the code of values; an interrupt is none
                os.unlink("keeping")
        return list, ()
slow = Slow()
"""


def test_an_interrupt_while_variables_are_kept_is_for_the_code_that_waits(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        services, me = gateway.services, gateway.me
        live = await services.registry.require(me, session.id)
        await gateway.run(session, SLOW)

        async def asked() -> bool:
            return live.variables._asked

        async def keeping() -> bool:
            return (await services.commands.run(me, session.id, CommandRequest("ls"))).stdout.count("keeping") > 0

        await gateway.until(asked)
        await gateway.until(keeping)
        waiting = await gateway.submit(session, "ran = 1")
        await gateway.until_running(session, waiting)
        await services.sessions.interrupt(me, session.id)
        ended = await services.executions.wait(me, session.id, waiting.id)
        assert (ended.status, ended.death) == ("interrupted", None), ended
        assert await gateway.text(session, "'ran' in globals()") == "False"

    on_session(test)


PATIENT = """
class Patient:
    def __reduce__(self):
        import time
        until, kernel = time.monotonic() + 110, get_ipython().kernel
        open("kept", "w").close()
        while not kernel._kept.is_unwanted() and time.monotonic() < until:
            time.sleep(0.01)
        return list, ()
patient, after = Patient(), 1
"""


async def start_each(gateway: Gateway) -> tuple[Session, LiveSession]:
    """A session whose variables are kept after each execution."""
    session = await gateway.start(environment="keeps", keep_variables="each")
    return session, await gateway.services.registry.require(gateway.me, session.id)


async def until_written(gateway: Gateway, live: LiveSession, name: str) -> None:
    """Until a file is there that a value writes as it is kept."""

    async def is_there() -> bool:
        return live.variables._asked and Path(live.sandbox.kernel.info.workspace_directory, name).exists()

    await gateway.until(is_there)


def test_code_that_comes_while_variables_are_kept_runs_before_the_rest_is(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        live = await gateway.services.registry.require(gateway.me, session.id)
        await gateway.run(session, PATIENT)
        await until_written(gateway, live, "kept")
        asked = live.variables._own_id
        stopped = await gateway.text(session, "stopped = get_ipython().kernel._stopped; del patient; stopped")
        assert stopped == repr(asked)

    on_session(test)


AWAITED = PATIENT.replace("is_unwanted", "is_awaited")


def test_code_that_waits_for_what_is_kept_each_time_hastens_it(on_session: OnSession) -> None:
    async def test(gateway: Gateway, _session: Session) -> None:
        session, live = await start_each(gateway)
        await gateway.run(session, "first = 1")
        await gateway.run(session, AWAITED)
        await until_written(gateway, live, "kept")
        asked = live.variables._own_id
        hastened = await gateway.text(session, "awaited = get_ipython().kernel._awaited; del patient; awaited")
        assert hastened == repr(asked)
        ended = await gateway.run(session, "import os; os._exit(1)")
        assert ended.death is not None
        assert ended.death.detail.startswith(
            "the kernel exited with status 1; its globals are gone, but for the 4 variables that were kept at 2"
        ), ended.death.detail
        assert await gateway.text(session, "first, after") == "(1, 1)"
        assert len((await restored(gateway, session)).variables) == 4

    on_session(test)


PAUSE = """
class Seen:
    def __reduce__(self):
        open("seen", "w").close()
        return int, (1,)
_kept = get_ipython().kernel._kept
_kept.keep.__globals__["PAUSE_SECONDS"] = 500.0
_kept._due["large"] = float("inf")  # as if it had taken long not long ago
large[0], seen = 1, Seen()
"""


def test_what_takes_long_is_not_begun_while_code_may_come_at_once(on_session: OnSession) -> None:
    async def test(gateway: Gateway, _session: Session) -> None:
        session, live = await start_each(gateway)
        await gateway.run(session, "large = bytearray(1_000_000)")
        await gateway.run(session, PAUSE)
        await until_written(gateway, live, "seen")
        ended = await gateway.run(session, "import os; os._exit(1)")
        assert ended.death is not None
        assert await gateway.text(session, "large[0], seen") == "(0, 1)"
        told = {each.name: (each.outcome, each.why) for each in (await restored(gateway, session)).variables}
        assert told.items() >= {"large": ("stale", "there was no time for it"), "seen": ("restored", None)}.items()

    on_session(test)


STUCK = """
class Stuck:
    def __reduce__(self):
        import time
        open("stuck", "w").close()
        time.sleep(600)
stuck, after = Stuck(), 1
"""


def test_code_does_not_wait_for_the_code_of_a_value_that_goes_on(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        live = await gateway.services.registry.require(gateway.me, session.id)
        await gateway.run(session, STUCK)
        await until_written(gateway, live, "stuck")
        assert await gateway.text(session, "after") == "1"
        await gateway.run(session, "del stuck")

    on_session(test)


def test_a_session_whose_kernel_dies_of_it_is_not_asked_again(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        session = await gateway.start(environment="keeps")
        live = await gateway.services.registry.require(gateway.me, session.id)
        await keep(gateway, session, "here = 1")
        bomb = "class Bomb:\n    def __reduce__(self): import os; os.kill(os.getpid(), 9)\nbomb = Bomb()"
        await gateway.run(session, bomb)

        async def replaced() -> bool:
            return live.sandbox.generation == 2

        await gateway.until(replaced)
        assert await gateway.text(session, "here") == "1"
        await gateway.run(session, bomb)
        await live.variables._keep_if_idle(live.sandbox.kernel)
        assert await gateway.text(session, "bomb is not None") == "True"
        assert live.sandbox.generation == 2

    on_session(test)


def test_a_session_without_variables_has_nothing_loaded_and_nothing_kept(on_session: OnSession) -> None:
    async def test(gateway: Gateway, _session: Session) -> None:
        session = await gateway.start(environment="keeps")
        live = await gateway.services.registry.require(gateway.me, session.id)
        await gateway.run(session, "print(1); _own = 2")
        await live.variables._keep_if_idle(live.sandbox.kernel)
        assert await gateway.text(session, "get_ipython().kernel._kept is None") == "True"
        ended = await gateway.run(session, "import os; os._exit(1)")
        assert ended.death is not None
        assert ended.death.detail == "the kernel exited with status 1; its globals are gone"
        assert await gateway.text(session, "'_own' in globals()") == "False"
        assert (await gateway.show(session)).restored is None

    on_session(test)


async def run_and_keep(gateway: Gateway, live: LiveSession, session: Session, code: str) -> None:
    ran = await gateway.run(session, code)
    assert ran.status == "ok", ran
    keeping = live.variables._keeping
    assert keeping is not None
    await keeping


def count_calls(patch: pytest.MonkeyPatch, kernel: SandboxedKernel) -> tuple[list[str], list[str]]:
    """What the runtime is asked of a kernel's sandbox, and the kernel itself on its way for code, from now."""
    hub, asked, told = kernel.hub, list[str](), list[str]()
    assert hub is not None
    usage, request = kernel.usage, hub.request

    async def count_usage() -> SandboxUsage:
        asked.append("usage")
        return await usage()

    async def count_request(channel: str, msg_type: str, *arguments: Any, **options: Any) -> Message:
        told.append(msg_type)
        return await request(channel, msg_type, *arguments, **options)

    patch.setattr(kernel, "usage", count_usage)
    patch.setattr(hub, "request", count_request)
    return asked, told


def test_executions_that_follow_each_other_ask_for_their_memory_once(
    on_session: OnSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(gateway: Gateway, _session: Session) -> None:
        session, live = await start_each(gateway)
        monkeypatch.setattr(session_variables, "MEMORY_SECONDS", 1_000.0)
        await run_and_keep(gateway, live, session, "first = 1")
        asked, told = count_calls(monkeypatch, live.sandbox.kernel)
        for number in range(5):
            await run_and_keep(gateway, live, session, f"first = {number}")
        assert (asked, told) == ([], ["sandcell_kept_request"] * 5)
        monkeypatch.setattr(session_variables, "MEMORY_SECONDS", 0.0)
        await run_and_keep(gateway, live, session, "first = 9")
        assert asked == ["usage"]

    on_session(test)


def test_code_that_takes_what_was_free_has_nothing_kept_until_that_is_asked_for_again(
    on_session: OnSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(gateway: Gateway, _session: Session) -> None:
        session, live = await start_each(gateway)
        monkeypatch.setattr(session_variables, "MEMORY_SECONDS", 1_000.0)
        await run_and_keep(gateway, live, session, "first = 1")
        room, kept = live.variables._room, live.variables._kept
        assert room is not None
        assert room.held_bytes
        room.free_bytes = 50_000_000
        asked, _told = count_calls(monkeypatch, live.sandbox.kernel)
        await run_and_keep(gateway, live, session, "large = bytearray(b'1') * 100_000_000")
        assert (asked, live.variables._kept) == ([], kept)
        await run_and_keep(gateway, live, session, "del large; first = 2")
        assert asked == ["usage"]
        assert live.variables._kept not in (None, kept)

    on_session(test)


def test_a_session_that_keeps_nothing_asks_its_kernel_for_nothing(
    on_session: OnSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(gateway: Gateway, _session: Session) -> None:
        session = await gateway.start(environment="keeps", keep_variables="off")
        live = await gateway.services.registry.require(gateway.me, session.id)
        await gateway.run(session, "first = 1")
        asked, told = count_calls(monkeypatch, live.sandbox.kernel)
        for _ in range(3):
            await gateway.run(session, "first = 2")
        assert (asked, told, live.variables._keeping, live.variables._watching) == ([], [], None, False)

    on_session(test)


def test_a_value_without_an_end_keeps_no_session_from_being_hibernated(
    on_session: OnSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_variables, "KEEP_SECONDS", 3.0)
    code = """
import time
class Endless:
    def __reduce__(self): time.sleep(10_000)
endless, before = Endless(), 1
"""

    async def test(gateway: Gateway, _session: Session) -> None:
        session = await gateway.start(environment="keeps", keep_variables="off")
        await gateway.run(session, code)
        found = await gateway.services.hibernation.hibernate(gateway.me, session.id)
        assert found.hibernated is not None
        assert {each.name for each in found.hibernated.variables if each.outcome == "lost"} >= {"endless"}
        assert (await gateway.run(session, "time.time() > 0 and Endless")).status == "ok"

    on_session(test)


async def skip(_variables: SessionVariables, _kernel: SandboxedKernel) -> None:
    pass
