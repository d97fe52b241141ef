"""The file tools in a real session: one call for many files, and every path that a caller may come up with."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kernel_gateway.faces.agentcore.tools import Arguments, FileContent
from tests.integration.kernel_gateway.faces.agentcore.tools.conftest import Gateway, Tools

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]
BINARY = bytes(range(256))


def blob(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def one_session(gateway: Gateway) -> None:
    tools = Tools(gateway, await gateway.start())
    await written_and_read(tools)
    await listed(tools)
    await too_many_to_list(tools)
    await removed(tools)
    await paths(tools)
    await partly_written(tools)
    await too_large_to_read(tools)


async def written_and_read(tools: Tools) -> None:
    files = [
        {"path": "data.csv", "text": "a,b\r\n1,é\n"},
        {"path": "/demo/deep/note.txt", "text": "note"},
        {"path": "raw", "blob": blob(BINARY)},
        {"path": "empty.txt", "text": ""},
        {"path": ".hidden", "blob": blob(b"text in a blob")},
    ]
    assert await tools.text("writeFiles", content=files) == "Successfully wrote all 5 files"
    assert await tools.text("executeCode", code="open('/workspace/demo/deep/note.txt').read()") == "'note'"
    names = ["/data.csv", "file:///demo/deep/note.txt", "/workspace/raw", "empty.txt", ".hidden", "missing"]
    answer = await tools("readFiles", paths=names)
    assert answer == {
        "content": [
            resource("data.csv", "text/csv", text="a,b\r\n1,é\n"),
            resource("demo/deep/note.txt", "text/plain", text="note"),
            resource("raw", "application/octet-stream", blob=blob(BINARY)),
            resource("empty.txt", "text/plain", text=""),
            resource(".hidden", "text/plain", text="text in a blob"),
        ],
        "isError": False,
    }
    assert await tools.error("readFiles", paths=["nope", "x/y"]) == "File not found: 'nope', File not found: 'x/y'"
    assert "directory" in (await tools.error("readFiles", paths=["demo"])).lower()
    await tools("executeCommand", command="ln -s data.csv link; mkfifo pipe; touch closed; chmod 0 closed")
    for unreadable in ("link", "pipe", "closed", "data.csv/below", "", "n" * 300):
        assert await tools.error("readFiles", paths=[unreadable])


def resource(path: str, media_type: str, **content: str) -> dict[str, Any]:
    (kind,) = content
    held = {"type": kind, "uri": f"file:///{path}", "mimeType": media_type, **content}
    return {"type": "resource", "resource": held}


async def listed(tools: Tools) -> None:
    await tools(
        "executeCommand", command="rm -rf -- * .hidden; mkdir -p sub/inner; printf 12345 > a.csv; touch .h sub/b"
    )
    await tools("executeCommand", command="ln -s a.csv link")
    whole = [
        {"type": "resource_link", "uri": "file:///.h", "name": ".h", "description": "File", "size": 0}
        | {"mimeType": "application/octet-stream"},
        {"type": "resource_link", "uri": "file:///a.csv", "name": "a.csv", "description": "File", "size": 5}
        | {"mimeType": "text/csv"},
        {"type": "resource_link", "uri": "file:///link", "name": "link", "description": "Link"},
        {"type": "resource_link", "uri": "file:///sub", "name": "sub", "description": "Directory"},
    ]
    for given in (
        {},
        {"directoryPath": ""},
        {"directoryPath": "."},
        {"path": "/"},
        {"path": "sub", "directoryPath": ""},
    ):
        assert await tools("listFiles", **given) == {"content": whole, "isError": False}, given
    for given in ({"path": "sub"}, {"directoryPath": "/sub/"}, {"directoryPath": "sub", "path": "."}):
        below = await tools("listFiles", **given)
        assert [block["uri"] for block in below["content"]] == ["file:///sub/b", "file:///sub/inner"], given
    assert await tools("listFiles", path="sub/inner") == {"content": [], "isError": False}
    assert await tools.error("listFiles", path="nope") == "Directory not found: 'nope'"
    assert "directory" in await tools.error("listFiles", path="a.csv")
    await tools("executeCode", code=r"open(b'sub/\xff\n', 'w').close()")
    assert [block["name"] for block in (await tools("listFiles", path="sub"))["content"]] == ["b", "inner", "\ufffd\n"]


async def too_many_to_list(tools: Tools) -> None:
    await tools(
        "executeCode", code="import os; os.mkdir('many'); [open(f'many/{n}', 'w').close() for n in range(10_001)]"
    )
    assert "more than 10,000 entries" in await tools.error("listFiles", path="many")
    await tools("executeCommand", command="rm many/0")
    assert len((await tools("listFiles", path="many"))["content"]) == 10_000
    await tools("executeCommand", command="rm -r many")


async def removed(tools: Tools) -> None:
    assert await tools.text("removeFiles", paths=["a.csv", "/link", "sub/inner"]) == "Successfully removed all 3 files"
    await tools("executeCommand", command="mkdir -p d/e; touch d/e/f")
    assert await tools.text("removeFiles", paths=["d/e/f", "d/e", "d"]) == "Successfully removed all 3 files"
    answer = await tools.error("removeFiles", paths=[".h", "nope", "sub"])
    assert answer.startswith("Removed 1 of 3 files: .h\nNot done: File not found: 'nope', 'sub': ")
    assert "not empty" in answer
    assert await tools.text("executeCommand", command="ls -A") == "sub\r\n"
    assert "the workspace itself" in await tools.error("removeFiles", paths=["sub/b", "/"])
    assert "b" in await tools.text("executeCommand", command="ls sub"), "nothing is removed"


async def paths(tools: Tools) -> None:
    for bad in ("../x", "a/../../x", "a\0b", "x" * 4097, "/.."):
        for name in ("readFiles", "removeFiles"):
            assert "path" in await tools.error(name, paths=["ok", bad])
        assert "path" in await tools.error("listFiles", directoryPath=bad)
        content = [{"path": "ok", "text": "1"}, {"path": bad, "text": "2"}]
        assert "path" in await tools.error("writeFiles", content=content)
    assert "name" in await tools.error("writeFiles", content=[{"path": "/", "text": ""}])
    assert "ok" not in await tools.text("executeCommand", command="ls -A"), "nothing is written"
    long = "/".join(["d" * 200] * 20)
    assert await tools.text("writeFiles", content=[{"path": long, "text": "deep"}]) == "Successfully wrote all 1 files"
    assert (await tools("readFiles", paths=[long]))["content"][0]["resource"]["text"] == "deep"
    assert await tools.error("writeFiles", content=[{"path": "y" * 4096, "text": ""}])


async def partly_written(tools: Tools) -> None:
    await tools("executeCommand", command="rm -rf -- *; mkdir taken")
    content = [{"path": f"f{each}", "text": "x"} for each in range(3)]
    content[1:1] = [{"path": "taken", "text": "x"}, {"path": "f0/below", "text": "x"}]
    answer = await tools.error("writeFiles", content=content)
    assert answer.startswith("Wrote 3 of 5 files: f0, f1, f2\nNot done: 'taken': ")
    assert "'f0/below': " in answer
    assert await tools.text("executeCommand", command="ls") == "f0\r\nf1\r\nf2\r\ntaken\r\n"


async def too_large_to_read(tools: Tools) -> None:
    made = "truncate -s 26M big; truncate -s 20M half; head -c 10000000 /dev/urandom > third; cp third again"
    await tools("executeCommand", command=made)
    for given in (["big"], ["half"], ["third", "again"], ["third", "third", "again", "missing", "big"]):
        answer = await tools.error("readFiles", paths=given)
        assert "25,165,824" in answer
        assert "pieces" in answer
    assert "'big' is too large" in await tools.error("readFiles", paths=["big"])
    assert "/files/again" in await tools.error("readFiles", paths=["third", "again"])
    (block,) = (await tools("readFiles", paths=["third"]))["content"]
    assert len(base64.b64decode(block["resource"]["blob"])) == 10_000_000


async def full(gateway: Gateway) -> None:
    tools = Tools(gateway, await gateway.start())
    await tools("executeCommand", command="mkdir gone; fallocate -l 350M filler")
    content = [
        FileContent("first", text="1"),
        FileContent("large", blob=bytes(90_000_000)),
        FileContent("last", text="2"),
    ]
    content.insert(1, FileContent("larger", blob=bytes(90_000_000)))
    answer = await tools.call("writeFiles", Arguments(content=content))
    assert answer["isError"]
    text = answer["content"][0]["text"]
    assert text.startswith("Wrote 3 of 4 files: first, larger, last\nNot done: 'large': ")
    assert "space" in text
    assert await tools.text("executeCommand", command="ls -A") == "\r\n".join(
        ["filler", "first", "gone", "larger", "last", ""]
    )


@pytest.mark.sample("doors")
def test_what_a_full_workspace_does_not_take_is_named(on_gateway: OnGateway) -> None:
    on_gateway(full)


@pytest.mark.sample("doors")
def test_files_of_a_session(on_gateway: OnGateway) -> None:
    on_gateway(one_session)


async def ten_thousand(gateway: Gateway) -> None:
    tools = Tools(gateway, await gateway.start())
    content = [FileContent(f"many/{each % 100}/{each}.txt", text=f"file {each}") for each in range(10_000)]
    content[5000] = FileContent("many", text="taken")
    answer = await tools.call("writeFiles", Arguments(content=content))
    assert answer["isError"]
    text = answer["content"][0]["text"]
    assert text.startswith("Wrote 9,999 of 10,000 files: ")
    assert "Not done: 'many': " in text
    count = "find many -type f | wc -l; cat many/99/9999.txt"
    assert await tools.text("executeCommand", command=count) == "9999\r\nfile 9999"
    content[5000] = FileContent("many/0/5000.txt", text="now")
    answer = await tools.call("writeFiles", Arguments(content=content))
    assert answer["content"][0]["text"] == "Successfully wrote all 10000 files"
    paths = [f"many/{each % 100}/{each}.txt" for each in range(1_000)]
    blocks = (await tools.call("readFiles", Arguments(paths=paths)))["content"]
    assert [block["resource"]["text"] for block in blocks] == [f"file {each}" for each in range(1_000)]
    removed = await tools.call("removeFiles", Arguments(paths=paths))
    assert removed["content"][0]["text"] == "Successfully removed all 1000 files"


@pytest.mark.sample("doors")
@pytest.mark.long  # the conformance tests have a thousand files in one call by boto3 each time
def test_ten_thousand_files_in_one_call(on_gateway: OnGateway) -> None:
    on_gateway(ten_thousand)


async def ninety_megabytes(gateway: Gateway) -> None:
    tools = Tools(gateway, await gateway.start())
    given = Arguments(content=[FileContent("big.bin", blob=b"\xff\x00z" * 30_000_000)])
    tracemalloc.start()
    try:
        answer = await tools.call("writeFiles", given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer["content"][0]["text"] == "Successfully wrote all 1 files"
    assert peak < 8_000_000, "the blob is in memory once, and goes in pieces"
    assert await tools.text("executeCommand", command="stat -c %s big.bin; tail -c 1 big.bin") == "90000000\r\nz"
    refused = await tools.error("readFiles", paths=["big.bin"])
    assert "'big.bin' is too large" in refused


@pytest.mark.sample("doors")
def test_ninety_megabytes_go_in_pieces(on_gateway: OnGateway) -> None:
    on_gateway(ninety_megabytes)
