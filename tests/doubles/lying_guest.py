"""A guest that has fallen to its user: it works as any other until a file in its sandbox says which lie it is to tell.

`put_in_place` has a data directory's runtime start it in the place of the real one, whose code it is with this module
beside it; `LIES` names what it can do. In the sandbox this module is `guest.lies`, and has nothing of the tests.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

WANTED, TOLD, BEGUN = Path("/tmp/lie"), Path("/tmp/told"), Path("/workspace/begun")
"""In the sandbox. The last one can be seen from outside."""
FLOOD = 20_000
"""How many of what there are too many. A million displays, by hand: the service grew by 49 MB and wrote 8 MB."""
SHELL, IOPUB = 0, 1
WHOLE = 3
"""A piece that is the first and the last of its message."""
NAMES = 1_000_000

Lie = Callable[["Liar"], Awaitable[None]]
LIES: dict[str, Lie] = {}


def put_in_place(data_directory: Path) -> None:
    """Have the runtime of this data directory, which has started no sandbox yet, start this guest."""
    from kernels.oci import runtime  # not in the sandbox

    directory = data_directory / "guest" / runtime.read_guest_source()[1]
    directory.mkdir(parents=True)
    runtime.write_guest(directory)
    main = directory / "__main__.py"
    installs = '    import_module(os.path.basename(here) + ".lies").install(os.path.basename(here))\n'
    start = '    import_module(os.path.basename(here) + ".boot")'
    assert start in main.read_text()
    main.write_text(main.read_text().replace(start, installs + start))
    (directory / "lies.py").write_bytes(Path(__file__).read_bytes())
    for compiled in (directory / "__pycache__").glob("__main__.*"):  # of the real one, and believed without a look
        compiled.unlink()


def install(package: str) -> None:
    """In the sandbox: look, once the guest listens, for which lie it is to tell."""
    doors = import_module(package + ".server.doors")
    open_honestly = doors.Doors.open
    lying: list[asyncio.Task[None]] = []

    async def open_and_look(self: Any) -> None:
        await open_honestly(self)
        if not lying:
            lying.append(asyncio.create_task(Liar(self, self._control, package).run()))

    doors.Doors.open = open_and_look


def lie(tell: Lie) -> Lie:
    LIES[tell.__name__] = tell
    return tell


class Liar:
    """What a lie has to work with: the guest's own parts."""

    def __init__(self, doors: Any, control: Any, package: str) -> None:
        self.doors, self.control, self.package = doors, control, package

    async def run(self) -> None:
        while not WANTED.exists():
            await asyncio.sleep(0.01)
        wanted = WANTED.read_text()
        BEGUN.touch()
        try:
            await LIES[wanted](self)
        finally:
            TOLD.touch()  # the code that waits for the end of the lie ends

    @property
    def relay(self) -> Any:
        """Of Python's kernel; the gateway has come for it by the time that code runs."""
        return self.control._relays.find("python")

    @property
    def frames(self) -> Any:
        return self.part("relay.frames")

    def part(self, name: str) -> Any:
        return import_module(f"{self.package}.{name}")

    def write(self, data: bytes) -> None:
        """To the gateway, as it stands here."""
        listener = self.relay.listener
        if listener is not None:
            listener._write(data)

    async def wait_room(self) -> None:
        """A liar that waits until the gateway has read does it more harm than one that runs out of memory."""
        while (listener := self.relay.listener) is not None and listener._full:
            await asyncio.sleep(0.001)

    def say(self, channel: int, data: bytes, flags: int = WHOLE) -> None:
        """In the right order and with the right numbers."""
        self.relay._take(channel, [(flags, data)])

    def runs(self) -> list[Any]:
        relay = self.relay
        return list(relay.runs.of(relay.source.name, relay.source.generation))

    def message(self, kind: str, content: object, parent: tuple[str, str], metadata: object = None) -> bytes:
        """As the kernel would sign it; `parent` is the id and the session of what it answers."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": "x", "username": "u", "version": "5.3"}
        header["date"] = "2026-01-01T00:00:00Z"
        above = {**header, "msg_id": parent[0], "session": parent[1], "msg_type": "execute_request"}
        parts = [json.dumps(each).encode() for each in (header, above, metadata or {}, content)]
        signature = hmac.new(self.relay.source.key.encode(), b"".join(parts), hashlib.sha256).hexdigest()
        return zmtp([b"<IDS|MSG>", signature.encode(), *parts])

    def answer(self, path: str, pieces: Callable[[], Iterator[bytes]], *, end: bool = False) -> None:
        """Answer requests for this path, whatever they are, with these bytes, and then with silence or the end."""
        handler = self.part("server.handler").Handler

        async def prepare(self: Any) -> None:
            if not self.request.path.startswith(path):
                return
            stream = self.request.connection.detach()
            self._finished = True
            for piece in pieces():
                await stream.write(piece)
            if end:
                stream.close()
            else:
                await asyncio.sleep(10_000)

        handler.prepare = prepare

    def answer_json(self, path: str, body: bytes) -> None:
        self.answer(path, lambda: iter([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body]), end=True)

    def drop(self) -> None:
        """The gateway's connections."""
        self.control.drop_gateways()


def zmtp(parts: list[bytes]) -> bytes:
    found = b""
    for number, part in enumerate(parts):
        more = number < len(parts) - 1
        found += bytes([more | 2]) + len(part).to_bytes(8, "big") + part
    return found


REPLY = {"status": "ok", "execution_count": 7, "payload": [], "user_expressions": {}}
NOBODY = ("0" * 32, "1" * 32)


@lie
async def results_that_nobody_asked_for(liar: Liar) -> None:
    for number in range(FLOOD):
        parent = NOBODY if number % 2 else ("", "")
        liar.say(IOPUB, liar.message("stream", {"name": "stdout", "text": "never asked for"}, parent))
        liar.say(IOPUB, liar.message("execute_result", {"data": {"text/plain": "1"}, "metadata": {}}, parent))
        liar.say(SHELL, liar.message("execute_reply", REPLY, parent))
        liar.say(IOPUB, liar.message("status", {"execution_state": "idle"}, parent))
        if not number % 50:
            await liar.wait_room()
            await asyncio.sleep(0)


@lie
async def an_execution_that_ends_twice(liar: Liar) -> None:
    (run,) = liar.runs()
    for number in range(50):
        parent = (run.msg_id, run.session)
        liar.say(SHELL, liar.message("execute_reply", {**REPLY, "execution_count": number}, parent))
        liar.say(IOPUB, liar.message("status", {"execution_state": "idle"}, parent))
        liar.say(IOPUB, liar.message("stream", {"name": "stdout", "text": "after the end\n"}, parent))


@lie
async def numbers_that_go_back(liar: Liar) -> None:
    liar.write(liar.frames.encode_piece(1, IOPUB, WHOLE, zmtp([b"x"])))


@lie
async def numbers_that_jump(liar: Liar) -> None:
    liar.write(liar.frames.encode_piece(liar.relay.store.next + 2**63, IOPUB, WHOLE, zmtp([b"x"])))


@lie
async def a_gap_over_all_numbers(liar: Liar) -> None:
    store, frames = liar.relay.store, liar.frames
    gap = frames.GAP_BODY.pack(store.next, 2**62 - 1, 2**64 - 1)
    liar.write(frames.encode(frames.GAP, gap))
    store.next = 2**62


@lie
async def requests_taken_that_were_never_sent(liar: Liar) -> None:
    frames = liar.frames
    for number in (2**63, 2**64 - 1, 0, 10**6):
        liar.write(frames.encode(frames.TAKEN, frames.NUMBER.pack(number)))
    liar.relay.taken = 2**63 - 1  # so that it passes none on, and says so of each


@lie
async def a_frame_of_a_gigabyte(liar: Liar) -> None:
    liar.write(liar.frames.HEAD.pack(2**30, liar.frames.PIECE) + bytes(2**20))


@lie
async def a_message_that_does_not_end(liar: Liar) -> None:
    """Its length says 2 GB; what is sent of it is as much as the test's patience allows."""
    liar.say(IOPUB, b"\x02" + (2**31).to_bytes(8, "big"), 1)
    while liar.relay is not None:
        liar.say(IOPUB, bytes(60_000), 0)
        await liar.wait_room()
        await asyncio.sleep(0)


@lie
async def a_frame_that_stops_in_the_middle(liar: Liar) -> None:
    liar.write(liar.frames.HEAD.pack(1000, liar.frames.PIECE) + b"half of it")
    liar.part("relay.serving").Connection._write = lambda self, data: None


@lie
async def displays_with_ids_of_their_own(liar: Liar) -> None:
    (run,) = liar.runs()
    parent = (run.msg_id, run.session)
    for number in range(FLOOD):
        content = {"data": {"text/plain": "x"}, "metadata": {}, "transient": {"display_id": f"id-{number}"}}
        liar.say(IOPUB, liar.message("display_data", content, parent))
        liar.say(IOPUB, liar.message("update_display_data", content, parent))
        if not number % 50:
            await liar.wait_room()
            await asyncio.sleep(0)
    liar.say(SHELL, liar.message("execute_reply", REPLY, parent))
    liar.say(IOPUB, liar.message("status", {"execution_state": "idle"}, parent))


@lie
async def words_about_others(liar: Liar) -> None:
    for said in (
        {"deadline": str(uuid.uuid4()), "stage": "kill"},
        {"interrupted": str(uuid.uuid4())},
        {"deadline": "x" * 100_000, "stage": "\0" * 100_000},
        {"lost": "\x1b[2J" + "x" * 500_000},
    ):
        liar.relay._say(said)


@lie
async def a_welcome_without_sense(liar: Liar) -> None:
    describe = liar.part("relay.runs").Runs.describe
    run = {"id": "x" * 100, "msg_id": "y", "session": "z", "kernel": "python", "generation": 2**60, "key": "k"}
    liar.part("relay.runs").Runs.describe = lambda self: describe(self) + [run] * 1001
    liar.drop()


@lie
async def a_stream_that_begins_anew(liar: Liar) -> None:
    """All numbers are given a second time, to other things."""
    liar.relay.store.next = 1
    liar.drop()


@lie
async def connections_that_are_closed_again_and_again(liar: Liar) -> None:
    connection = liar.part("relay.serving").Connection
    greet = connection._greet

    def greet_and_go(self: Any, hello: object) -> None:
        greet(self, hello)
        self.drop()

    connection._greet = greet_and_go
    liar.answer("/", lambda: iter([]), end=True)
    liar.drop()


@lie
async def usage_that_is_no_number(liar: Liar) -> None:
    (run,) = liar.runs()
    parent = (run.msg_id, run.session)
    used = {"cpu_seconds": float("nan"), "memory_peak_bytes": -1, "read_bytes": 2**80, "written_bytes": -(2**70)}
    reply = {**REPLY, "execution_count": -(2**70)}
    liar.say(SHELL, liar.message("execute_reply", reply, parent, {"sandcell": used}))
    liar.say(IOPUB, liar.message("status", {"execution_state": "idle"}, parent))
    liar.answer_json("/v1/usage", b'{"memory": NaN, "memory_peak": -1, "cpu_seconds": -Infinity, "pids": 1e400}')


@lie
async def variables_that_were_never_there(liar: Liar) -> None:
    """Asked about variables it says, for the kernel, that a million were restored."""
    relay_class = type(liar.relay)
    request = relay_class.request

    def answer_for_the_kernel(self: Any, number: int, channel: int, described: bytes, data: bytes) -> None:
        if b"sandcell_kept_request" not in data:
            request(self, number, channel, described, data)
            return
        self.taken = max(self.taken, number)
        header = next(json.loads(each) for each in parts_of(data) if each.startswith(b'{"msg_id"'))
        parent = (header["msg_id"], header["session"])
        row = {"name": "../\0never_there", "outcome": "restored", "why": "x" * 900}
        rows = [row] * (900 if self.source.generation > 2 else 20_000)
        reply = {"status": "ok", "found": True, "at": 1e10, "executions": 2**52, "variables": rows, "seconds": 1e5}
        self._take(SHELL, [(WHOLE, liar.message("sandcell_kept_reply", reply, parent))])

    relay_class.request = answer_for_the_kernel
    liar.control.kernel.kill()


def parts_of(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        long = data[position] & 2
        size = int.from_bytes(data[position + 1 : position + 9], "big") if long else data[position + 1]
        position += 9 if long else 2
        yield data[position : position + size]
        position += size


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@lie
async def answers_without_an_end(liar: Liar) -> None:
    def pieces() -> Iterator[bytes]:
        yield HEAD
        while True:
            yield chunked(b" " * 60_000)

    liar.answer("/", pieces)
    await close_connections(liar)


@lie
async def events_without_an_end(liar: Liar) -> None:
    """Ends and starts of kernels that never were, as fast as they are read."""

    def pieces() -> Iterator[bytes]:
        yield HEAD
        for number in range(FLOOD):
            ended = {"event": "kernel_exited", "generation": number + 10, "exit_code": 2**70, "signal": "\0" * 200}
            ended["last_words"] = "never said" * 1000
            second = {**ended, "event": "declared_exited", "kernel": "k" * 10_000}
            begun = {"event": "kernel_started", "generation": 2**62 - number, "key": "00" * 32, "relay": 1}
            yield chunked(b"".join(json.dumps(each).encode() + b"\n" for each in (ended, second, begun)))

    liar.answer("/v1/events", pieces)
    await close_connections(liar)


@lie
async def an_answer_that_stops_in_the_middle(liar: Liar) -> None:
    liar.answer("/", lambda: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n", b'{"files": [']))
    await close_connections(liar)


@lie
async def files_that_cannot_be(liar: Liar) -> None:
    rows = [
        {"path": path, "kind": kind, "size": size, "modified": modified, "target": "/etc/passwd", "version": "1-1"}
        for path in ("../../etc/passwd", "/etc/passwd", "a\0b", "a/../../b", "", ".", "x" * 100_000, "\ud800", "a")
        for kind, size, modified in (("file", 2**62, 6e10), ("link", 0, -6e10), ("other", 1, 0.5))
    ]
    liar.answer_json("/v1/files", json.dumps({"files": rows, "more": True}).encode())


@lie
async def a_million_files(liar: Liar) -> None:
    row = b'{"path": "%d", "kind": "file", "size": 1, "modified": 0.5}'

    def pieces() -> Iterator[bytes]:
        yield HEAD + chunked(b'{"files": [')
        for first in range(0, NAMES, 1000):
            yield chunked(b",".join(row % number for number in range(first, first + 1000)) + b",")
        yield chunked(row % NAMES + b'], "more": true}') + chunked(b"")

    liar.answer("/v1/files", pieces, end=True)


@lie
async def commands_that_never_were(liar: Liar) -> None:
    result = {"id": "../..", "status": "done", "stdout": "x" * 20_000_000, "stderr": "\ud800\0", "exit_code": 2**70}
    result |= {"timed_out": False, "duration_seconds": 6e10, "stdout_truncated": 2**62, "stderr_truncated": 0}
    liar.answer_json("/v1/commands", json.dumps(result).encode())


async def close_connections(liar: Liar) -> None:
    """The host makes new ones, on which it hears the lie."""
    await liar.doors._server.close_all_connections()
