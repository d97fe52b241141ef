"""The body of an execution, from base64 to what runs: code, files, or a shell command. Large files go in pieces. Pure.

The body is read with the data of its chunks left as it came. A chunk with a `file_name` is a file, whatever its type;
another one holds JSON with the code, or, after a chunk that names `/exec`, with a command. Base64 may be of either
alphabet, with padding or without.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kernel_gateway.errors import InvalidRequest, PayloadTooLarge
from kernel_gateway.faces.json_bodies import decode, quote

PIECE_CHARACTERS: Final = 1 << 20
"""Of base64, decoded at once; a multiple of four."""
MOST_CHUNKS: Final = 1_001
MOST_JSON_FILES: Final = 1_000
FILE_NAME: Final = "file_name"
URI_TYPE: Final = "application/x.sandbox-request-uri"
PORT_TYPE: Final = "application/x.sandbox-request-port"
EXEC: Final = b"/exec"
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
NONE: Final = (b"", b"null", b'""')


class Metadata(msgspec.Struct):
    """Attributes by name, in base64 as well."""

    attributes: dict[str, str] = msgspec.field(default_factory=dict)


class Chunk(msgspec.Struct):
    """One input, its data still JSON; the type under both of its names."""

    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    mime_type: str | None = msgspec.field(default=None, name="mimeType")
    snake_type: str | None = msgspec.field(default=None, name="mime_type")
    metadata: Metadata | None = None


class Execute(msgspec.Struct):
    """The body of `:execute`."""

    inputs: list[Chunk] = msgspec.field(default_factory=list)


class Command(msgspec.Struct):
    """What the shell is to run; `timeout` is seconds."""

    command: str
    cwd: str | None = None
    timeout: float | None = None


class JsonFile(msgspec.Struct):
    """A file inside the JSON of the code, as the first clients sent it."""

    name: str
    content: str | None = None
    contents: str | None = None


class Code(msgspec.Struct):
    """What is to run, and files of the first clients."""

    code: str | None = None
    files: list[JsonFile] = msgspec.field(default_factory=list)


@dataclass
class Inputs:
    """What an execution is asked to do."""

    code: str | None = None
    command: Command | None = None
    files: list[tuple[str, bytes]] = field(default_factory=list)

    def take_files(self) -> list[tuple[str, bytes]]:
        """The files, which are then not held here any more."""
        files, self.files = self.files, []
        return files


async def read_inputs(body: bytearray, most_file_bytes: int) -> Inputs:
    """What the body asks for; raises InvalidRequest, PayloadTooLarge."""
    chunks: list[Chunk] = decode(body, Execute).inputs
    if not 1 <= len(chunks) <= MOST_CHUNKS:
        raise InvalidRequest(f"inputs: between 1 and {MOST_CHUNKS:,} chunks", field="inputs")
    inputs, others = Inputs(), []
    for number, chunk in enumerate(chunks):
        where = f"inputs[{number}]"
        attributes = chunk.metadata.attributes if chunk.metadata else {}
        data = await _decode(memoryview(chunk.data), f"{where}.data")
        if FILE_NAME in attributes:
            inputs.files.append((_read_name(attributes[FILE_NAME], where), data))
        else:
            others.append((chunk.mime_type or chunk.snake_type or "", data, where))
    _read_others(inputs, others)
    if sum(len(content) for _, content in inputs.files) > most_file_bytes:
        raise PayloadTooLarge(f"the files of one request have at most {most_file_bytes:,} bytes together")
    return inputs


def _read_others(inputs: Inputs, others: list[tuple[str, bytes, str]]) -> None:
    """The chunks that are no files: one of JSON, those of a shell request before it."""
    uri = next((data for kind, data, _ in others if kind == URI_TYPE), None)
    rest = [(data, where) for kind, data, where in others if kind not in (URI_TYPE, PORT_TYPE)]
    if len(rest) > 1:
        raise InvalidRequest(
            f"{rest[1][1]}: one chunk holds the code; a file says its name in metadata.attributes.file_name",
            field="inputs",
        )
    if uri is not None and uri != EXEC:
        raise InvalidRequest(
            f"inputs: {quote(uri[:80].decode(errors='replace'))} is not there: /exec is", field="inputs"
        )
    if not rest:
        if uri is not None:
            raise InvalidRequest("inputs: a chunk of JSON with the command is missing", field="inputs")
        return
    data, where = rest[0]
    if uri is not None:
        inputs.command = _read_json(data, Command, where)
        return
    code = _read_json(data, Code, where)
    inputs.code = code.code
    if len(code.files) > MOST_JSON_FILES:
        raise InvalidRequest(f"{where}: at most {MOST_JSON_FILES:,} files", field="inputs")
    inputs.files += [(each.name, _read_text(each.content or each.contents or "")) for each in code.files]


def _read_json(data: bytes, of: type[Any], where: str) -> Any:
    try:
        return decode(bytearray(data), of)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}.data: {error.message}", field="inputs") from None


def _read_name(encoded: str, where: str) -> str:
    try:
        return base64.b64decode(_pad(encoded.encode().translate(_STANDARD)), validate=True).decode()
    except ValueError:
        raise InvalidRequest(f"{where}.metadata.attributes.file_name is no text in base64", field="inputs") from None


def _read_text(text: str) -> bytes:
    """The content of a file in JSON: base64, or the text itself where it is none."""
    try:
        return base64.b64decode(text.encode().translate(_STANDARD), validate=True)
    except binascii.Error:
        return text.encode()


async def _decode(sent: memoryview, where: str) -> bytes:
    """The bytes of one chunk's data; raises InvalidRequest."""
    if len(sent) <= 4 and bytes(sent) in NONE:
        return b""
    if sent[0] != ord('"'):
        raise InvalidRequest(f"{where} is no text", field="inputs")
    try:
        pieces = await _decode_pieces(sent[1:-1])
        if pieces is None:  # some characters are escaped
            plain = msgspec.json.decode(sent, type=str).encode()
            pieces = await _decode_pieces(memoryview(plain))
    except (binascii.Error, msgspec.DecodeError):
        pieces = None
    if pieces is None:
        raise InvalidRequest(f"{where} is no base64", field="inputs")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _decode_pieces(text: memoryview) -> list[bytes] | None:
    """The bytes, piece by piece, to hold up no other request; None where a character is escaped."""
    found: list[bytes] = []
    for start in range(0, len(text), PIECE_CHARACTERS):
        piece = bytes(text[start : start + PIECE_CHARACTERS]).translate(_STANDARD)
        if b"\\" in piece:
            return None
        last = start + len(piece) == len(text)
        found.append(binascii.a2b_base64(_pad(piece) if last else piece, strict_mode=True))
        if not last:
            if len(found[-1]) < PIECE_CHARACTERS // 4 * 3:
                raise binascii.Error("padding before the end")
            await asyncio.sleep(0)
    return found or [b""]


def _pad(text: bytes) -> bytes:
    return text + b"=" * (-len(text) % 4)
