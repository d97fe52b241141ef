"""Parquet files that claim what they do not have, or have what nobody should unpack, written byte by byte.

The form: https://parquet.apache.org/docs/file-format, its metadata in Thrift's compact protocol. A struct is a
dictionary by its fields' numbers; a `Long` is written as 64 bits, any other number as 32.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any

GIANT = 2**31 - 1
MEANT = 2**60
_MAGIC = b"PAR1"
_INT32, _BYTES = 1, 6
_PLAIN, _DICTIONARY = 0, 8
_PLAIN_CODEC, _GZIP = 0, 2


class Long(int):
    """A number of 64 bits."""


def write_all(payloads: Sequence[str]) -> dict[str, bytes]:
    """Each file by its name: rows of those payloads, then what claims more than it has or unpacks to more."""
    texts = b"".join(len(each).to_bytes(4, "little") + each for each in _encode(payloads))
    names = [{"name": name, "page": texts, "values": len(payloads)} for name in (*_encode(payloads), b"__proto__")]
    number = (7).to_bytes(4, "little")
    return {
        "shown.parquet": _file(names, len(payloads), kind=_BYTES),
        "rows.parquet": _file([{"name": b"a", "page": number, "values": 1}], MEANT),
        "values.parquet": _file([{"name": b"a", "page": b"\0", "values": GIANT, "encoding": _DICTIONARY}], MEANT),
        "length.parquet": _file(
            [{"name": b"a", "page": gzip.compress(number), "length": GIANT, "values": 1}], 1, _GZIP
        ),
        "bomb.parquet": _file(
            [{"name": b"a", "page": gzip.compress(bytes(200_000_000)), "length": 200_000_000, "values": 9}], 1, _GZIP
        ),
        "liar.parquet": _file(
            [{"name": b"a", "page": gzip.compress(bytes(200_000_000)), "length": 4, "values": 1}], 1, _GZIP
        ),
        "deep.parquet": _frame({1: 1, 2: [{4: b"s", 5: 1}] * 50_000 + [{1: _INT32, 3: 0, 4: b"a"}], 3: Long(0), 4: []}),
        "list.parquet": _MAGIC + b"\x19\xf5\xff\xff\xff\xff\x07" + (7).to_bytes(4, "little") + _MAGIC,
        "end.parquet": _MAGIC + GIANT.to_bytes(4, "little") + _MAGIC,
    }


def _encode(texts: Sequence[str]) -> list[bytes]:
    return [each.encode("utf-8", "replace") for each in texts]


def _file(columns: Sequence[dict[str, Any]], rows: int, codec: int = _PLAIN_CODEC, kind: int = _INT32) -> bytes:
    """Of one row group, each of whose columns has one page."""
    content, chunks = _MAGIC, []
    for each in columns:
        page = each["page"]
        about = {1: each["values"], 2: each.get("encoding", _PLAIN), 3: 3, 4: 3}
        header = _struct({1: 0, 2: each.get("length", len(page)), 3: len(page), 5: about})
        size = Long(len(header) + len(page))
        name = each["name"]
        known = {1: kind, 2: [0], 3: [name], 4: codec, 5: Long(rows), 6: size, 7: size, 9: Long(len(content))}
        chunks.append({2: Long(len(content)), 3: known})
        content += header + page
    schema = [{4: b"schema", 5: len(columns)}, *({1: kind, 3: 0, 4: each["name"]} for each in columns)]
    group = {1: chunks, 2: Long(len(content)), 3: Long(rows)}
    return content + _frame({1: 1, 2: schema, 3: Long(rows), 4: [group]})[len(_MAGIC) :]


def _frame(metadata: dict[int, Any]) -> bytes:
    written = _struct(metadata)
    return _MAGIC + written + len(written).to_bytes(4, "little") + _MAGIC


def _struct(fields: dict[int, Any]) -> bytes:
    written, last = b"", 0
    for number, value in fields.items():
        kind, data = _value(value)
        written += bytes([(number - last) << 4 | kind]) + data
        last = number
    return written + b"\0"


def _value(value: Any) -> tuple[int, bytes]:
    if isinstance(value, dict):
        return 12, _struct(value)
    if isinstance(value, list):
        made = [_value(each) for each in value]
        kind = made[0][0] if made else 12
        return 9, bytes([0xF0 | kind]) + _varint(len(made)) + b"".join(data for _, data in made)
    if isinstance(value, bytes):
        return 8, _varint(len(value)) + value
    return (6 if isinstance(value, Long) else 5), _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
