"""Bytes of a request to typed values, and answers to JSON, for every face that speaks JSON. Pure.

What does not fit raises `InvalidRequest`, naming the field; what is no JSON raises `MalformedJson`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import msgspec

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.errors import MalformedJson

AT = re.compile(r"^(?P<what>.*?)(?: - at (?:`key` in )?`(?P<at>[^`]*)`)?$", re.DOTALL)
FIELD = re.compile(r"(?:field|parameter) `(?P<name>[^`]*)`")
REGEX = re.compile(r"`str` matching regex .*?(?= - at `|$)", re.DOTALL)
encoder = msgspec.json.Encoder()


@cache
def _decoder(of: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(of)


def decode(body: bytes | bytearray, of: Any) -> Any:
    """The body as `of`; an empty body is an empty object."""
    try:
        return _decoder(of).decode(body or b"{}")
    except UnicodeDecodeError:
        raise MalformedJson("the body is not UTF-8") from None
    except msgspec.ValidationError as error:
        raise describe_refusal(str(error), "the body") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedJson(f"the body is not JSON: {error}") from None


def encode(value: Any) -> bytes:
    """JSON of an answer; text with surrogate escapes (names that are not UTF-8) goes out as `\\udcXX`."""
    try:
        return encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def shorten(text: str) -> str:
    """Text of a caller that an answer can repeat: short, and UTF-8."""
    return text[:80].encode("utf-8", "backslashreplace").decode()


def quote(text: str) -> str:
    """The same in quotes, for a message."""
    return repr(shorten(text))


def describe_refusal(message: str, whole: str) -> InvalidRequest:
    """msgspec's message as ours; `field` is the path below the root, `a.b[0]`, and `whole` what the root is called."""
    message = message.encode("utf-8", "backslashreplace").decode()[:500]
    match = AT.match(REGEX.sub("text of another form, see /v1/openapi.json", message))
    what, at = (match["what"], match["at"] or "") if match else (message, "")
    unknown = FIELD.search(what)
    path = at.removeprefix("$").removeprefix(".")
    if unknown:
        path = f"{path}.{unknown['name']}" if path else unknown["name"]
    where = f"{path or whole}: "
    return InvalidRequest(where + what[:1].lower() + what[1:], **({"field": path} if path else {}))
