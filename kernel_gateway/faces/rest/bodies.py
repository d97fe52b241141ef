"""Bytes of a request to typed values and back: JSON bodies, query strings, answers. Pure.

What does not fit raises `InvalidRequest`, naming the field; what is no JSON raises `MalformedJson`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.errors import MalformedJson, UnsupportedMediaType

MOST_PARAMETERS = 32
AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<at>[^`]*)`)?$", re.DOTALL)
FIELD = re.compile(r"(?:field|parameter) `(?P<name>[^`]*)`")
encoder = msgspec.json.Encoder()


@cache
def _decoder(of: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(of)


def decode(body: bytes, of: Any) -> Any:
    """The body as `of`; an empty body is an empty object."""
    try:
        return _decoder(of).decode(body or b"{}")
    except UnicodeDecodeError:
        raise MalformedJson("the body is not UTF-8") from None
    except msgspec.ValidationError as error:
        raise _refusal(str(error), "$") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedJson(f"the body is not JSON: {error}") from None


def query(text: str, of: Any) -> Any:
    """A query string as `of`; an unknown, repeated or undecodable parameter is refused."""
    given: dict[str, str] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise InvalidRequest(f"more than {MOST_PARAMETERS} query parameters") from None
    for name, value in pairs:
        if name in given:
            raise InvalidRequest(f"the query parameter {shown(name)} is given twice")
        if name != "path" and not _is_text(value):
            raise InvalidRequest(f"the query parameter {shown(name)} is not UTF-8", field=shown(name))
        given[name] = value
    try:
        return msgspec.convert(given, of, strict=False)
    except msgspec.ValidationError as error:
        raise _refusal(str(error).replace("field `", "query parameter `"), "?") from None


def check_json(content_type: str) -> None:
    """Refuse a body that does not say it is JSON in UTF-8."""
    media, _, parameters = content_type.partition(";")
    if media.strip().lower() != "application/json":
        raise UnsupportedMediaType("the body must be JSON: send `Content-Type: application/json`")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
    if charset and charset[1].lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType("the body must be UTF-8")


def encode(value: Any) -> bytes:
    """JSON of an answer; text with surrogate escapes (names that are not UTF-8) goes out as `\\udcXX`."""
    try:
        return encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def shown(text: str) -> str:
    """Text of a caller that is safe in a message: short, and printable as UTF-8."""
    return repr(text[:80].encode("utf-8", "backslashreplace").decode())


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _refusal(message: str, root: str) -> InvalidRequest:
    """msgspec's message as ours; `field` is the path below the root, `a.b[0]`."""
    message = message.encode("utf-8", "backslashreplace").decode()[:500]
    match = AT.match(message)
    what, at = (match["what"], match["at"] or "") if match else (message, "")
    unknown = FIELD.search(what)
    path = at.removeprefix("$").removeprefix(".")
    if unknown:
        path = f"{path}.{unknown['name']}" if path else unknown["name"]
    where = f"{path or ('the body' if root == '$' else 'the query')}: "
    return InvalidRequest(where + what[:1].lower() + what[1:], **({"field": path} if path else {}))
