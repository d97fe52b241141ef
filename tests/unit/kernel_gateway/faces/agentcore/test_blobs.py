"""Files in a request: base64 in pieces gives what it gives at once, and the same refusals."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from typing import Any

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agentcore import requests
from kernel_gateway.faces.agentcore.blobs import LONG_TEXT, PIECE_CHARACTERS, Invoked, unpack_files
from kernel_gateway.faces.json_bodies import decode

EDGE = PIECE_CHARACTERS // 4 * 3


def read(body: bytes) -> Invoked:
    sent = decode(bytearray(body), requests.Invoke)
    return asyncio.run(unpack_files(sent.name, sent.arguments))


def written(*files: Any) -> bytes:
    return json.dumps({"name": "writeFiles", "arguments": {"content": list(files)}}).encode()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, *(EDGE + each for each in range(-4, 5)), 3 * EDGE + 1])
def test_blobs_of_every_size(size: int) -> None:
    blob = os.urandom(size)
    found = read(written({"path": "a", "blob": base64.b64encode(blob).decode()}, {"path": "b", "text": "é"}))
    content = found.arguments.content
    assert content is not None
    assert [(each.path, each.text, each.blob) for each in content] == [("a", None, blob), ("b", "é", None)]


@pytest.mark.parametrize(
    ("text", "kept"), [("a" * LONG_TEXT + "a", True), ("a" * LONG_TEXT + "é", False), ("é" * LONG_TEXT, True)]
)
def test_a_long_text_that_is_not_ascii_becomes_its_bytes(text: str, kept: bool) -> None:
    content = read(written({"path": "a", "text": text}, {"path": "b", "text": text, "blob": None})).arguments.content
    assert content is not None
    given = (text, None) if kept else (None, text.encode())
    assert [(each.text, each.blob) for each in content] == [given, given]


def test_a_long_text_beside_a_blob_stays_one_of_two() -> None:
    content = read(written({"path": "a", "text": "é" * LONG_TEXT * 2, "blob": "AP8="})).arguments.content
    assert content is not None
    assert (content[0].text, content[0].blob) == ("é" * LONG_TEXT * 2, b"\0\xff")


def test_slashes_may_be_escaped() -> None:
    blob = b"\xff" * (2 * EDGE)
    body = written({"path": "a", "blob": base64.b64encode(blob).decode()}).replace(b"/", b"\\/")
    content = read(body).arguments.content
    assert content is not None
    assert content[0].blob == blob


def test_the_other_arguments_stay_as_they_are() -> None:
    found = read(b'{"name": "executeCode", "arguments": {"code": "1", "clearContext": true, "x": 1}}')
    assert (found.name, found.arguments.code, found.arguments.clear_context) == ("executeCode", "1", True)
    assert found.arguments.content is None
    assert read(b'{"name": "listFiles"}').arguments.path is None
    nulls = read(written({"path": "a", "text": None, "blob": None})).arguments.content
    assert nulls is not None
    assert (nulls[0].text, nulls[0].blob) == (None, None)


LARGE = "A" * PIECE_CHARACTERS
ILL = [f"{LARGE}A", f"{LARGE[:-2]}=={LARGE}", f"{LARGE}!{LARGE}", f"{LARGE}==="]


@pytest.mark.parametrize(
    "blob",
    [
        "a",
        "ab=c",
        "no base64!",
        5,
        [],
        {},
        True,
        f"{LARGE}A",
        f"{LARGE[:-2]}=={LARGE}",
        f"{LARGE}!{LARGE}",
        f"{LARGE}===",
    ],
    ids=lambda blob: str(blob)[:12],
)
def test_what_is_no_base64_is_refused_by_name(blob: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(written({"path": "a", "text": "t"}, {"path": "b", "blob": blob}))
    assert caught.value.details["field"] == "arguments.content[1].blob"


def test_others_have_their_turn_while_a_large_one_is_decoded() -> None:
    async def scene() -> int:
        sent = decode(written({"path": "a", "blob": "A" * (8 * PIECE_CHARACTERS)}), requests.Invoke)
        work, turns = asyncio.create_task(unpack_files(sent.name, sent.arguments)), 0
        while not work.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(scene()) >= 8
