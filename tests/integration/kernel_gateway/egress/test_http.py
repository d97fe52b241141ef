"""Plain HTTP through a session's way out: what is passed on, what is not, and what is refused unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kernels.environment import Endpoint, NetworkMode

from .conftest import OK, Test, Way, answering

Runner = Callable[[Test], None]


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def test_a_request_is_rebuilt_when_it_is_passed_on(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        seen: list[bytes] = []
        port = await way.serve(answering(OK, seen))
        egress = await way.open()
        answer = await way.get(
            f"http://127.0.0.1:{port}/a/b?c=d",
            "Accept: */*",
            "Proxy-Authorization: Basic eDp5",
            "Proxy-Connection: close",
            "Connection: X-Mine, Upgrade",
            "X-Mine: 1",
            "Upgrade: h2c",
            "HTTP2-Settings: x",
            "TE: trailers",
            "Via: me",
        )
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert body_of(answer) == b"hello"
        assert b"connection: close" in answer.lower()
        lines = seen[0].decode().split("\r\n")
        assert lines[0] == "GET /a/b?c=d HTTP/1.1"
        assert sorted(lines[1:-2]) == ["Accept: */*", "Connection: close", f"Host: 127.0.0.1:{port}", "Via: me"]
        assert (egress.usage.requests, egress.usage.refused, egress.usage.sent_bytes) == (1, 0, len(seen[0]))
        assert way.words() == ["operator"]
        first, last = way.decisions
        assert (first.kind, first.method, first.target) == ("http", "GET", f"http://127.0.0.1:{port}/a/b")
        assert (last.ended, last.reason, last.sent_bytes) == (True, "complete: it came to its end", len(seen[0]))

    with_way(test)


@pytest.mark.parametrize(
    "request_",
    [
        "POST {0} HTTP/1.1\r\nHost: {1}\r\nContent-Length: 5\r\n\r\nhello",
        "POST {0} HTTP/1.1\r\nHost: {1}\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n",
        "POST {0} HTTP/1.1\r\nHost: {1}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
        "POST {0} HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        "POST {0} HTTP/1.1\r\nHost: {1}\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\n"
        "helloGET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_body_is_passed_on_whole_and_nothing_after_it(with_way: Runner, request_: str) -> None:
    async def test(way: Way) -> None:
        heard: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            chunked = b"chunked" in head
            heard.append(await (reader.readuntil(b"0\r\n\r\n") if chunked else reader.readexactly(5)))
            await asyncio.sleep(0.05)
            heard.append(bytes(reader._buffer))  # type: ignore[attr-defined] # what came besides
            writer.write(OK)
            writer.close()

        port = await way.serve(serve)
        await way.open()
        answer = await way.ask(request_.format(f"http://127.0.0.1:{port}/", f"127.0.0.1:{port}").encode())
        assert answer.endswith(b"hello")
        assert (b"100 " in answer.splitlines()[0]) == ("100-continue" in request_)
        assert heard[0].replace(b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", b"hello") == b"hello"
        assert heard[1] == b""

    with_way(test)


def test_a_body_may_come_later_and_in_pieces(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            heard.append(await reader.readexactly(300_000))
            writer.write(OK)
            writer.close()

        heard: list[bytes] = []
        port = await way.serve(serve)
        await way.open()
        reader, writer = await way.connect()
        host = f"127.0.0.1:{port}"
        writer.write(f"PUT http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 300000\r\n\r\n".encode())
        for _ in range(3):
            await asyncio.sleep(0.05)
            writer.write(b"x" * 100_000)
        assert (await reader.read()).endswith(b"hello")
        assert heard == [b"x" * 300_000]

    with_way(test)


def test_an_answer_is_passed_back_anew_and_redirects_are_answers(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        redirect = (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 302 Over there\r\n"
            b"Location: http://127.0.0.1/secret\r\nProxy-Authenticate: x\r\n"
            b"Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            b"HTTP/1.1 200 OK\r\n\r\nsmuggled"
        )
        seen: list[bytes] = []
        port = await way.serve(answering(redirect, seen))
        await way.open()
        answer = await way.get(f"http://127.0.0.1:{port}/")
        assert answer.startswith(b"HTTP/1.1 302 Over there\r\n")
        assert b"Location: http://127.0.0.1/secret" in answer
        assert b"Mine" not in answer
        assert b"Proxy" not in answer
        assert answer.endswith(b"5\r\nhello\r\n0\r\n\r\n")
        assert len(seen) == 1

    with_way(test)


def test_an_answer_without_a_length_ends_with_its_connection(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100_000))
        await way.open()
        assert (await way.get(f"http://127.0.0.1:{port}/")).count(b"x") == 100_000
        old = await way.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.0\r\n\r\n".encode())
        assert body_of(old) == b"x" * 100_000

    with_way(test)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", b"502"),
        (b"SSH-2.0-OpenSSH\r\n", b"502"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw", b"502"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", b"502"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", b"502"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", b"502"),
    ],
)
def test_an_answer_that_is_none_is_the_proxy_s_502(with_way: Runner, answer: bytes, status: bytes) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(answer))
        await way.open()
        said = await way.get(f"http://127.0.0.1:{port}/", "Upgrade: websocket", "Connection: Upgrade")
        assert said.startswith(b"HTTP/1.1 " + status + b" Network mode PUBLIC: ")

    with_way(test)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
    ],
)
def test_an_answer_without_a_body_has_none(with_way: Runner, method: str, answer: bytes) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(answer))
        await way.open()
        host = f"127.0.0.1:{port}"
        said = await way.ask(f"{method} http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert said.startswith(answer.partition(b"\r\n")[0])
        assert body_of(said) == b""
        assert (b"Content-Length: 5" in answer) == (b"content-length: 5" in said.lower())

    with_way(test)


def test_a_client_that_left_holds_no_connection(with_way: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_gateway.egress.exchange._GONE_SECONDS", 0.2)

    async def test(way: Way) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        port = await way.serve(silent)
        egress = await way.open(idle_seconds=60)
        _, writer = await way.connect()
        writer.write(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        async with asyncio.timeout(120):
            while egress.usage.connections_open != 1:
                await asyncio.sleep(0.01)
        writer.close()
        async with asyncio.timeout(120):
            while egress.usage.connections_open:
                await asyncio.sleep(0.02)

    with_way(test)


def test_an_answer_may_come_before_the_request_is_over(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(b"HTTP/1.1 413 Too much\r\nContent-Length: 0\r\n\r\n"))
        await way.open()
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 1000000\r\n\r\n"
        assert (await way.ask(head.encode() + b"x" * 1000)).startswith(b"HTTP/1.1 413 Too much")

    with_way(test)


SMUGGLED = [
    "POST {0} HTTP/1.1\r\nHost: {1}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    "0\r\n\r\nGET /secret HTTP/1.1\r\n\r\n",
    "POST {0} HTTP/1.1\r\nHost: {1}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST {0} HTTP/1.1\r\nHost: {1}\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\nGET /secret HTTP/1.1\r\n\r\n",
    "GET {0} HTTP/1.1\r\nHost: {1}\r\nX: a\r\n folded\r\n\r\n",
    "GET {0} HTTP/1.1\nHost: {1}\n\n",
    "GET {0} HTTP/1.1\r\nHost: {1}\r\nX: a\nGET /secret HTTP/1.1\r\n\r\n",
    "GET {0} HTTP/1.1\r\nHost: {1}\r\nX: a\rX-Real: b\r\n\r\n",
    "GET {0} HTTP/1.1\r\nHost: {1}\r\nHost: other.example\r\n\r\n",
    "GET {0} HTTP/1.1\r\nHost: other.example\r\n\r\n",
    "GET {0} HTTP/1.1\r\nHost : {1}\r\n\r\n",
    "GET {0} HTTP/1.1\r\n\r\n",
    "GET /secret HTTP/1.1\r\nHost: {1}\r\n\r\n",
    "GET {0} HTTP/1.1\r\nHost: {1}\r\nX: \x00\r\n\r\n",
    "GET {0}\x0bx HTTP/1.1\r\nHost: {1}\r\n\r\n",
    "GET {0} HTTP/1.1 x\r\nHost: {1}\r\n\r\n",
    "POST {0} HTTP/1.0\r\nHost: {1}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("request_", SMUGGLED)
def test_what_could_be_read_in_two_ways_reaches_nobody(with_way: Runner, request_: str) -> None:
    async def test(way: Way) -> None:
        seen: list[bytes] = []
        port = await way.serve(answering(OK, seen))
        egress = await way.open()
        answer = await way.ask(request_.format(f"http://127.0.0.1:{port}/", f"127.0.0.1:{port}").encode("latin-1"))
        assert answer.startswith(b"HTTP/1.1 400 Network mode PUBLIC: ")
        assert seen == []
        assert egress.usage.refused == 1
        assert [one.allowed for one in way.decisions] == [False]

    with_way(test)


@pytest.mark.parametrize(
    "body",
    [
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"zz\r\nhello\r\n0\r\n\r\n",
        b"-1\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5\r\nhello0\r\n\r\n",
    ],
)
def test_a_body_that_is_not_what_its_head_says_never_ends_well(with_way: Runner, body: bytes) -> None:
    async def test(way: Way) -> None:
        ended: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ended.append(await reader.read())
            writer.close()

        port = await way.serve(serve)
        await way.open()
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await way.ask(head.encode() + body, end=True)
        assert answer.startswith(b"HTTP/1.1 400 Network mode PUBLIC: ")
        async with asyncio.timeout(120):
            while not ended:
                await asyncio.sleep(0.01)
        assert not ended[0].endswith(b"0\r\n\r\n")

    with_way(test)


def test_a_head_may_be_so_long_and_take_so_long(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(OK))
        await way.open(header_bytes=4096)
        url = f"http://127.0.0.1:{port}/"
        assert b" 431 Network mode PUBLIC: " in await way.get(url, "X: " + "a" * 5000)
        assert b" 431 Network mode PUBLIC: " in await way.ask(b"x" * 100_000)
        await way.open(header_seconds=0.3)
        assert b" 408 Network mode PUBLIC: " in await way.ask(b"GET http://127.0.0.1/ HTTP/1.1\r\nX: ")
        assert await way.ask(b"") == b""
        reader, writer = await way.connect()
        for letter in b"GET http://127.0.0.1/":
            writer.write(bytes([letter]))
            await asyncio.sleep(0.03)
        assert b" 408 " in await reader.read()
        async with asyncio.timeout(120):  # that much may pass between two lines of a test, too
            while b"200 OK" not in await way.get(url):
                await asyncio.sleep(0.1)

    with_way(test)


def test_a_server_that_is_slow_to_answer_is_given_up(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        port = await way.serve(silent)
        await way.open(idle_seconds=0.3)
        assert b" 504 Network mode PUBLIC: nothing moved for 0.3 s" in await way.get(f"http://127.0.0.1:{port}/")
        assert way.decisions[-1].reason.startswith("idle: ")

    with_way(test)


def test_methods_and_paths_of_an_allowlist(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        seen: list[bytes] = []
        port = await way.serve(answering(OK, seen))
        way.names["data.example"] = [["127.0.0.1"]]
        allowed = Endpoint("data.example", port, methods=("GET",), path_prefix="/public/")
        await way.open(NetworkMode.ALLOWLIST, allowed)
        base = f"http://data.example:{port}"
        assert b"200 OK" in await way.get(f"{base}/public/x?y")
        steps = ("..", "%2e%2e", "..%2f", "..%3b", "..%20", "%c0%ae%c0%ae")
        for path in ("/", "/secret", *(f"/public/{step}/secret" for step in steps), "/publicity"):
            answer = await way.get(f"{base}{path}")
            assert answer.startswith(b"HTTP/1.1 403 Network mode ALLOWLIST: "), path
        post = f"POST {base}/public/x HTTP/1.1\r\nHost: data.example:{port}\r\nContent-Length: 0\r\n\r\n"
        assert b"is declared for GET, not POST (method)" in await way.ask(post.encode())
        other = f"GET {base}/public/x HTTP/1.1\r\nHost: data.example:{port}\r\nX-HTTP-Method-Override: PUT\r\n\r\n"
        assert b"x-http-method-override could name others (override)" in await way.ask(other.encode())
        assert b"(no_tunnel)" in await way.tunnel(f"data.example:{port}")
        assert len(seen) == 1
        words = ["operator", "path", "path", *["unclear_path"] * 6, "path", "method", "override", "no_tunnel"]
        assert way.words() == words

    with_way(test)


def test_others_have_their_turn_between_the_chunks_of_one_piece(with_way: Callable[[Test], None]) -> None:
    chunks, turns = 10_000, 0

    async def test(way: Way) -> None:
        port = await way.serve(
            answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * chunks + b"0\r\n\r\n")
        )
        await way.open()

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(take_turns())
        answer = await way.get(f"http://127.0.0.1:{port}/")
        other.cancel()
        assert answer.count(b"x\r\n") == chunks

    with_way(test)
    assert turns >= chunks
