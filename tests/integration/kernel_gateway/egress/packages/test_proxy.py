"""One session's package index on real sockets: what is answered, what is never asked, what an index may lead to."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernel_gateway.egress.budget import Budget, EgressLimits
from kernel_gateway.egress.decision import Decision, Party
from kernel_gateway.egress.packages.proxy import PackageIndexes, PackageProxy
from kernel_gateway.egress.packages.source import IndexFailed
from kernel_gateway.egress.packages.wheel_cache import WheelCache
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.resolver import system_resolve
from kernel_gateway.package_sources import parse_index_url
from tests.doubles.package_index import PASSWORD, PackageIndex, package_index


class Desk:
    """A proxy for one index, and what it said and kept."""

    def __init__(self, index: PackageIndex, directory: Path, limits: EgressLimits) -> None:
        self.index = index
        self.told: list[Decision] = []
        self.cache = WheelCache(directory / "cache", 10**6)
        self.indexes = PackageIndexes(OperatorRules(), system_resolve, limits, self.cache)
        self.limits = limits
        self.url = index.url

    def proxy(self) -> PackageProxy:
        party, declared = Party("session", "principal"), parse_index_url(self.url)
        return self.indexes.proxy(party, declared, Budget(self.limits), self.told.append)

    async def ask(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        """Status and body of one request; status 0 for an answer that was cut off."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)
        serving = asyncio.create_task(self.proxy().serve(reader, writer))
        asking, sending = await asyncio.open_connection(sock=ours)
        sending.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(120):
            head = await asking.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")]
            sending.write_eof()
            await serving
            writer.close()
            body = await asking.read()
        sending.close()
        whole = method == "HEAD" or not lengths or len(body) == int(lengths[0].split()[1])
        return int(head.split()[1]) if whole else 0, body


def at_desk(tmp_path: Path, test: Callable[[Desk], Awaitable[None]], **limits: int) -> None:
    async def run(index: PackageIndex) -> None:
        desk = Desk(index, tmp_path, dataclasses.replace(EgressLimits(), **limits))
        try:
            await test(desk)
        finally:
            await desk.indexes.aclose()

    with package_index() as index:
        asyncio.run(run(index))


def test_pages_and_their_files_are_answered_and_nothing_else(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        wheel = desk.index.add("tiny", tiny="")
        content = desk.index.packages["tiny"][wheel]
        digest = hashlib.sha256(content).hexdigest()
        for form in (True, False):
            desk.index.json_pages = form
            status, page = await desk.ask("/simple/Tiny/")
            assert status == 200
            assert f'href="../../files/tiny/{wheel}#sha256={digest}"'.encode() in page
        assert await desk.ask(f"/files/tiny/{wheel}") == (200, content)
        assert await desk.ask(f"/files/tiny/{wheel}", "HEAD") == (200, b"")
        asked = len(desk.index.visits)
        for path in ("/", "/simple/", "/root/files/tiny/x", "/files/tiny/../x", "/files/tiny/%2e%2e", "/simple/-/"):
            assert (await desk.ask(path))[0] == 404, path
        assert (await desk.ask(f"/files/tiny/{wheel}.metadata"))[0] == 404
        assert (await desk.ask("/simple/tiny/", "POST"))[0] == 405
        assert (await desk.ask("http://example.org/simple/tiny/"))[0] == 404
        assert len(desk.index.visits) == asked
        assert (await desk.ask("/simple/other/"))[0] == 404
        assert b"has no other\n" in (await desk.ask("/why/other"))[1]
        assert PASSWORD not in repr(desk.told)

    at_desk(tmp_path, test)


def test_the_second_time_a_file_comes_from_the_cache_and_only_with_the_hash_of_the_page(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        wheel, wrong = desk.index.add("tiny", tiny=""), desk.index.add("wrong", wrong="")
        desk.index.wrong_hashes.add(wrong)
        for _ in range(2):
            assert (await desk.ask(f"/files/tiny/{wheel}"))[0] == 200
            assert (await desk.ask(f"/files/wrong/{wrong}"))[0] == 0
        assert desk.index.visits.count(f"/root/files/tiny/{wheel}") == 1
        assert desk.index.visits.count(f"/root/files/wrong/{wrong}") == 2
        kept = [each.name for each in (tmp_path / "cache").iterdir()]
        assert kept == [hashlib.sha256(desk.index.packages["tiny"][wheel]).hexdigest()]
        assert [each.reason.partition(":")[0] for each in desk.told if not each.allowed] == ["hash", "hash"]

    at_desk(tmp_path, test)


def test_an_index_leads_nowhere_but_to_itself_and_to_public_addresses(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        wheel = desk.index.add("tiny", tiny="")
        for place in (f"http://127.0.0.2:{desk.index.port}", f"http://localhost:{desk.index.port}", "http://10.0.0.1"):
            desk.index.elsewhere[wheel] = f"{place}/root/files/tiny/{wheel}"
            for remembered in desk.indexes._sources.values():
                remembered._pages.clear()
            status, said = await desk.ask(f"/files/tiny/{wheel}")
            refused = b"not a public address" in said or b"localhost cannot be resolved" in said
            assert (status, refused) == (502, True), (place, said)
        assert not [each for each in desk.index.visits if "/files/" in each]

    at_desk(tmp_path, test)


def test_redirections_are_followed_and_an_index_that_fails_is_named(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.index.add("tiny", tiny="")
        desk.url = desk.index.url.replace("/simple/", "/moved/")
        assert (await desk.ask("/simple/tiny/"))[0] == 200
        desk.index.broken = True
        assert (await desk.ask("/simple/tiny/"))[0] == 200  # it is remembered
        for remembered in desk.indexes._sources.values():
            remembered._clock = lambda: float(10**12)
        assert (await desk.ask("/simple/tiny/"))[0] == 200  # and stays good while the index fails
        status, said = await desk.ask("/simple/other/")
        assert (status, b"answers with status 503" in said) == (502, True)
        assert b"Nothing can be installed at the moment: the index 127.0.0.1:" in (await desk.ask("/why/other"))[1]
        desk.url = "http://127.0.0.1:1/simple/"
        assert b"cannot be reached" in (await desk.ask("/simple/tiny/"))[1]
        desk.url = f"http://operator:wrong@127.0.0.1:{desk.index.port}/root/simple/"
        assert b"answers with status 401" in (await desk.ask("/simple/tiny/"))[1]

    at_desk(tmp_path, test)


def test_a_session_gets_no_more_than_its_limits(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        wheel = desk.index.add("tiny", tiny="x" * 100_000)
        assert (await desk.ask("/simple/tiny/"))[0] == 200
        assert (await desk.ask(f"/files/tiny/{wheel}"))[0] == 0
        assert list((tmp_path / "cache").iterdir()) == []

    at_desk(tmp_path, test, received_bytes=50_000)


def test_an_index_over_tls_leads_nowhere_without_it(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.url = f"https://127.0.0.1:{desk.index.port}/simple/"
        source = desk.proxy()._source
        with pytest.raises(IndexFailed, match="without TLS"):
            async with source.open(f"http://127.0.0.1:{desk.index.port}/root/files/tiny/x"):
                pass
        assert desk.index.visits == []

    at_desk(tmp_path, test)
