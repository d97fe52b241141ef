"""Processes that make views, as the launcher starts them: what a parser that has fallen to a notebook would have."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kernel_gateway.server.starting import list_installation
from kernel_gateway.settings import Settings
from kernel_gateway.viewers import viewer_plan
from kernels.launcher.plan import ViewerPlan
from kernels.launcher.viewers import Viewers, start_confined
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService
from tests.unit.kernel_gateway.views.notebooks import code, stream, written

VIEWER = 1_199_999_998

ATTEMPTS = """
import json, os, signal, socket, sys, threading

def refused(attempt):
    try:
        found = attempt()
    except (OSError, RuntimeError) as error:
        return os.strerror(error.errno) if getattr(error, "errno", None) else str(error)
    return f"done: {found!r}"

"""
HOST = (
    ATTEMPTS
    + """
print(json.dumps({
    "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
    "environment": sorted(os.environ),
    "top": sorted(name for name in os.listdir("/") if os.path.isdir("/" + name) and os.listdir("/" + name)),
    "passwd": refused(lambda: open("/etc/passwd").read()),
    "state": refused(lambda: os.listdir(STATE)),
    "launcher": refused(lambda: os.kill(os.getppid(), 0)),
    "networks": [name for _, name in socket.if_nameindex()],
    "connect": refused(lambda: socket.create_connection(("127.0.0.1", PORT), 5)),
    "abstract": refused(lambda: socket.socket(socket.AF_UNIX).connect(chr(0) + NAME)),
    "privileges": refused(lambda: os.setuid(0)),
}), flush=True)
"""
)
CALLS = (
    ATTEMPTS
    + """
from kernels import own_calls
own_calls.restrict()
print(json.dumps({
    "socket": refused(socket.socket),
    "pair": refused(socket.socketpair),
    "fork": refused(os.fork),
    "thread": refused(threading.Thread(target=int).start),
    "program": refused(lambda: os.execv("/bin/true", ["true"])),
    "signal": refused(lambda: os.kill(os.getpid(), signal.SIGTERM)),
    "writing": refused(lambda: os.open("/tmp/planted", os.O_WRONLY | os.O_CREAT)),
    "both": refused(lambda: os.open("/usr", os.O_RDWR)),
    "nameless": refused(lambda: os.open("/usr", os.O_RDWR | os.O_TMPFILE)),
    "directory": refused(lambda: os.mkdir("/tmp/planted")),
    "removal": refused(lambda: os.unlink("/tmp/planted")),
    "mode": refused(lambda: os.chmod("/tmp", 0o777)),
    "memory": refused(lambda: os.memfd_create("x")),
    "trace": refused(lambda: os.pidfd_open(os.getpid())),
    "priority": refused(lambda: os.nice(1)),
}), flush=True)
print(len(open(os.__file__).read()) > 1000, flush=True)
"""
)


def a_plan(program: str = "", **changes: Any) -> ViewerPlan:
    plan = viewer_plan(Settings(), list_installation())
    command = [sys.executable, "-I", "-c", program] if program else plan.command
    return ViewerPlan(plan.uid, command, plan.reach, **{"seconds": 120.0, "at_once": 2, **changes})


@asynccontextmanager
async def viewers(plan: ViewerPlan) -> AsyncIterator[Viewers]:
    made = Viewers(plan, start_confined(plan, ""))
    try:
        yield made
    finally:
        await made.aclose()


async def said(made: Viewers, sent: bytes = b"") -> bytes:
    """All that a process says to what it is sent."""
    with await made.start("py") as stream_:
        reader, writer = await asyncio.open_connection(sock=stream_)
        writer.write(sent)
        writer.write_eof()
        heard = await reader.read()
        writer.close()
    return heard


def told(program: str) -> list[Any]:
    async def run() -> bytes:
        async with viewers(a_plan(program)) as made:
            return await said(made)

    return [json.loads(line) for line in asyncio.run(run()).decode().lower().splitlines()]


def test_it_has_a_user_of_its_own_no_network_and_no_files_but_programs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0sandcell-test-viewers")
        abstract.listen()
        values = {"PORT": server.getsockname()[1], "NAME": "sandcell-test-viewers", "STATE": str(tmp_path)}
        (seen,) = told("".join(f"{name} = {value!r}\n" for name, value in values.items()) + HOST)
    assert seen.pop("ids") == [[VIEWER] * 3, [VIEWER] * 3, []]
    assert set(seen.pop("environment")) <= {"home", "lang", "lc_ctype", "path"}
    assert seen.pop("networks") == ["lo"]
    needed = {Path(each).resolve().parts[1] for each in list_installation()} | {
        Path(each).parts[1] for each in list_installation()
    }
    assert set(seen.pop("top")) <= needed | {"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"}
    allowed = {
        "no such file or directory", "permission denied", "operation not permitted", "network is unreachable",
        "connection refused",
    }  # fmt: skip
    assert {name: found for name, found in seen.items() if found not in allowed} == {}


def test_it_gives_up_every_call_but_those_of_a_program_that_computes(tmp_path: Path) -> None:
    seen, reads = told(f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[4])!r})\n{CALLS}")
    assert {name: found for name, found in seen.items() if found != "operation not permitted"} == {
        "thread": "can't start new thread"
    }
    assert reads is True


async def taken_away(plan: ViewerPlan) -> None:
    async with viewers(plan) as made:
        before = children()
        stream_ = await made.start("py")
        started = children() - before
        assert len(started) == 1
        stream_.close()
        while children() & started:
            await asyncio.sleep(0.01)


def children(process: int | None = None) -> set[str]:
    number = process or os.getpid()
    return set(Path(f"/proc/{number}/task/{number}/children").read_text().split())


def test_one_whose_view_nobody_takes_is_ended() -> None:
    asyncio.run(taken_away(a_plan("import time; time.sleep(300)")))


def test_one_that_is_given_up_before_it_was_looked_at_is_ended() -> None:
    async def run() -> None:
        async with viewers(a_plan("import time; time.sleep(300)")) as made:
            held.append(await made.start("py"))

    before, held = children(), list[socket.socket]()
    asyncio.run(run())
    assert children() <= before
    held[0].close()


def test_one_that_takes_too_long_is_ended_and_its_place_is_free_again() -> None:
    async def run() -> list[bytes]:
        async with viewers(a_plan("import time; time.sleep(300)", seconds=0.3, at_once=1)) as made:
            return [await said(made) for _ in range(2)]

    before = children()
    assert asyncio.run(run()) == [b"", b""]
    assert children() <= before


def test_a_notebook_becomes_a_view_in_it() -> None:
    async def run() -> bytes:
        async with viewers(a_plan()) as made:
            return await said(made, written(code("1 + 1", stream("two"))))

    word, _, script = asyncio.run(run()).partition(b"\n")
    assert word == b"done %d" % len(script)
    assert b"1 + 1" in script


def test_a_defect_of_a_parser_is_named_and_its_process_is_gone() -> None:
    program = (
        "import runpy, sys, kernel_gateway.views.script as parts\n"
        "parts.render_script = lambda text, _: text[9] if text == b'{}' else b''\n"
        "sys.argv[1:] = ['1000', '4000000000', '60', 'py']\n"
        "runpy.run_module('kernel_gateway.views', run_name='__main__')"
    )

    async def run() -> bytes:
        async with viewers(a_plan(program)) as made:
            return await said(made, b"{}")

    assert asyncio.run(run()) == b"failed 10\nIndexError"


def test_the_service_has_its_views_made_there(service: RunningService) -> None:
    with Rest(service) as rest, rest.session() as session:
        session.run("print('shown')")
        asked = rest.http.get(f"{session.path}/notebook", params={"format": "html"})
        assert (asked.status_code, "shown" in asked.text) == (200, True)
    eventually(lambda: len(children(service.pid)) == 1)
