"""Files in an invocation's body, from base64 to bytes: a large one in pieces, to hold up no other request. Pure.

The body is read with its blobs left as they came (`SentFile`); `unpack_files` then makes of it what tools take. Long
texts that are not ASCII become bytes too: a single emoji makes a string of any length four times as large as its bytes.
"""

from __future__ import annotations

import asyncio
import binascii
from typing import Final

import msgspec

from kernel_gateway.faces.agentcore.tools import Arguments, FileContent
from kernel_gateway.faces.agentcore.tools.checks import LONGEST_TEXT
from kernel_gateway.faces.json_bodies import describe_refusal

PIECE_CHARACTERS: Final = 1 << 20
"""Of base64, decoded at once; a multiple of four."""
LONG_TEXT: Final = 1024
"""A text of more characters that is not ASCII becomes bytes."""
NONE: Final = (b"", b"null")


class SentFile(msgspec.Struct):
    """One file of writeFiles, its blob still JSON; empty when it is left out."""

    path: str
    text: str | None = None
    blob: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class SentArguments(Arguments):
    """The arguments of a tool, blobs as they came."""

    content: list[SentFile] | None = None  # type: ignore[assignment]


class Invoked(msgspec.Struct):
    """What an invocation asks for."""

    name: str
    arguments: Arguments


async def unpack_files(name: str, sent: SentArguments | None) -> Invoked:
    """The invocation with its files as bytes; raises InvalidRequest for what is no base64."""
    if sent is None:
        return Invoked(name, Arguments())
    given = {each: getattr(sent, each) for each in Arguments.__struct_fields__ if each != "content"}
    if sent.content is None:
        return Invoked(name, Arguments(**given))
    texts = [_decode_long_text(each) for each in sent.content]  # before anybody else's body is decoded
    files, decoded = [], 0
    for number, each in enumerate(sent.content):
        blob = await _decode_blob(memoryview(each.blob), number) if texts[number] is None else texts[number]
        files.append(FileContent(each.path, each.text, blob))
        decoded += len(memoryview(each.blob))
        if decoded > PIECE_CHARACTERS:
            decoded = 0
            await asyncio.sleep(0)
    return Invoked(name, Arguments(**given, content=files))


def _decode_long_text(file: SentFile) -> bytes | None:
    """A file's text, taken out of it, when it is smaller as bytes; not one that is refused anyway."""
    text = file.text
    if text is None or text.isascii() or len(text) <= LONG_TEXT or not _is_none(memoryview(file.blob)):
        return None
    encoded = text.encode()
    if len(encoded) > LONGEST_TEXT:
        return None
    file.text = None
    return encoded


def _is_none(sent: memoryview) -> bool:
    return len(sent) <= 4 and bytes(sent) in NONE


async def _decode_blob(sent: memoryview, number: int) -> bytes | None:
    """One blob; raises InvalidRequest."""
    if _is_none(sent):
        return None
    if len(sent) > PIECE_CHARACTERS:
        pieces = await _decode_in_pieces(sent[1:-1])
        if pieces is not None:
            return pieces
    try:
        return msgspec.json.decode(sent, type=bytes)
    except msgspec.ValidationError as error:
        raise describe_refusal(f"{error} - at `$.arguments.content[{number}].blob`", "the body") from None


async def _decode_in_pieces(text: memoryview) -> bytes | None:
    """The bytes of a large blob; None for what is no plain base64: escaped characters, or an error to be reported."""
    found: list[bytes] = []
    for start in range(0, len(text), PIECE_CHARACTERS):
        piece = text[start : start + PIECE_CHARACTERS]
        try:
            found.append(binascii.a2b_base64(piece, strict_mode=True))
        except binascii.Error:
            return None
        if len(found[-1]) < len(piece) // 4 * 3 and start + len(piece) < len(text):
            return None  # padding before the end
        await asyncio.sleep(0)
    return b"".join(found)
