"""What is read of a request on this face besides its JSON: the query string, and whether a body says it is JSON. Pure.

What does not fit raises `InvalidRequest`, naming the parameter.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.errors import UnsupportedMediaType
from kernel_gateway.faces.json_bodies import describe_refusal, quote, shorten

MOST_PARAMETERS = 32


def read_query(text: str, of: Any) -> Any:
    """A query string as `of`; an unknown, repeated or undecodable parameter is refused."""
    given: dict[str, str] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise InvalidRequest(f"more than {MOST_PARAMETERS} query parameters") from None
    for name, value in pairs:
        if name in given:
            raise InvalidRequest(f"the query parameter {quote(name)} is given twice", field=shorten(name))
        if name != "path" and not _is_text(value):
            raise InvalidRequest(f"the query parameter {quote(name)} is not UTF-8", field=shorten(name))
        given[name] = value
    try:
        return msgspec.convert(given, of, strict=False)
    except msgspec.ValidationError as error:
        raise describe_refusal(str(error).replace("field `", "query parameter `"), "the query") from None


def check_json(content_type: str) -> None:
    """Refuse a body that does not say it is JSON in UTF-8."""
    media, _, parameters = content_type.partition(";")
    if media.strip().lower() != "application/json":
        raise UnsupportedMediaType("the body must be JSON: send `Content-Type: application/json`")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
    if charset and charset[1].lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType("the body must be UTF-8")


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)
