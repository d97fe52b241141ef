"""The body of an execution: which chunk is code, which a file, which a command, in either alphabet of base64."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from kernel_gateway.errors import InvalidRequest, PayloadTooLarge
from kernel_gateway.faces.agent_engine.inputs import MOST_CHUNKS, PIECE_CHARACTERS, Inputs, read_inputs

ROOMY = 1 << 30


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def code_chunk(value: Any) -> dict[str, Any]:
    return {"mimeType": "application/json", "data": encoded(json.dumps(value).encode())}


def file_chunk(name: str, data: Any) -> dict[str, Any]:
    return {"mimeType": "", "data": data, "metadata": {"attributes": {"file_name": encoded(name.encode())}}}


def read(*chunks: dict[str, Any], most: int = ROOMY) -> Inputs:
    return asyncio.run(read_inputs(bytearray(json.dumps({"inputs": chunks}).encode()), most))


def test_code_and_files() -> None:
    typed_as_code = {**file_chunk("b.json", encoded(b'{"code": "no"}')), "mimeType": "application/json"}
    found = read(code_chunk({"code": "x"}), file_chunk("a/ä.txt", encoded(b"hi")), typed_as_code)
    assert (found.code, found.command) == ("x", None)
    assert found.take_files() == [("a/ä.txt", b"hi"), ("b.json", b'{"code": "no"}')]
    assert found.files == []


def test_files_alone_are_no_code() -> None:
    found = read(file_chunk("a", encoded(b"")), file_chunk("b", None), {**file_chunk("c", ""), "mime_type": "x/y"})
    assert (found.code, [content for _, content in found.files]) == (None, [b"", b"", b""])


@pytest.mark.parametrize("content", [b"\xfb\xff\xfe", b"\xfb\xff", b"\xfb", b""])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_every_way_to_write_base64(content: bytes, padded: bool, encode: Any) -> None:
    text = encode(content).decode()
    (each,) = (read(file_chunk("f", text if padded else text.rstrip("=")))).files
    assert each == ("f", content)


def test_a_large_file_is_decoded_in_pieces() -> None:
    content = bytes(range(256)) * (PIECE_CHARACTERS // 256 * 2 + 1)
    (each,) = (read(file_chunk("f", encoded(content)))).files
    assert each == ("f", content)


def test_an_escaped_solidus_in_base64() -> None:
    body = json.dumps({"inputs": [file_chunk("f", encoded(b"\xff\xff\xff"))]}).replace("/", "\\/")
    assert asyncio.run(read_inputs(bytearray(body.encode()), ROOMY)).files == [("f", b"\xff\xff\xff")]


def test_files_in_the_json_of_the_code() -> None:
    files = [
        {"name": "one", "contents": encoded(b"\x00\x01")},
        {"name": "two", "content": "a,b\n1,2\n"},
        {"name": "three", "content": encoded(b"3"), "mimeType": "text/plain"},
    ]
    found = read(code_chunk({"code": "x", "files": files}))
    assert found.files == [("one", b"\x00\x01"), ("two", b"a,b\n1,2\n"), ("three", b"3")]


def test_a_command() -> None:
    uri = {"mime_type": "application/x.sandbox-request-uri", "data": encoded(b"/exec")}
    port = {"mime_type": "application/x.sandbox-request-port", "data": encoded(b"8080")}
    found = read(uri, port, code_chunk({"command": "ls", "cwd": "/tmp", "timeout": 2.5}))
    assert found.code is None
    assert found.command is not None
    assert (found.command.command, found.command.cwd, found.command.timeout) == ("ls", "/tmp", 2.5)


URI = "application/x.sandbox-request-uri"


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ((), "between 1 and"),
        ((code_chunk({"code": "1"}),) * (MOST_CHUNKS + 1), "between 1 and"),
        ((code_chunk({"code": "1"}), code_chunk({"code": "2"})), "inputs[1]: one chunk holds the code"),
        ((code_chunk(["1"]),), "inputs[0].data"),
        ((code_chunk({"code": 1}),), "inputs[0].data"),
        (({"data": encoded(b"print(1)")},), "inputs[0].data"),
        ((file_chunk("f", "no base64!"),), "inputs[0].data is no base64"),
        ((file_chunk("f", "ab=="), file_chunk("g", "a=bc")), "inputs[1].data is no base64"),
        ((file_chunk("f", "a"),), "is no base64"),
        ((file_chunk("f", 7),), "inputs[0].data is no text"),
        ((file_chunk("f", "=" * 4 + "a" * PIECE_CHARACTERS),), "is no base64"),
        (({"data": "", "metadata": {"attributes": {"file_name": "%"}}},), "file_name is no text"),
        (({"data": "", "metadata": {"attributes": {"file_name": encoded(b"\xff")}}},), "file_name is no text"),
        (({"mimeType": URI, "data": encoded(b"/other")}, code_chunk({"command": "ls"})), "/other"),
        (({"mimeType": URI, "data": encoded(b"/exec")},), "the command is missing"),
    ],
)
def test_what_is_refused(chunks: tuple[dict[str, Any], ...], words: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read(*chunks)
    assert words in raised.value.message


def test_files_have_a_limit_together() -> None:
    files = [file_chunk("a", encoded(b"12345")), file_chunk("b", encoded(b"67890"))]
    assert len((read(*files, most=10)).files) == 2
    with pytest.raises(PayloadTooLarge):
        read(*files, most=9)
