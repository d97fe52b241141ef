"""The canonical request: the one text that a signature is made of, whatever form the request came in.

The rules are those of AWS's signing process as botocore and the AWS SDK for JavaScript follow them for every service
but S3: the path that was received, percent-encoded as it is, loses dot segments and empty ones and is encoded again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from kernel_gateway.identity.sigv4.request import SignedRequest

EMPTY_BODY: Final = hashlib.sha256().hexdigest()
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
SIGNATURE_PARAMETER: Final = b"X-Amz-Signature"
_PATH_KEEPS: Final = "/~"


def make_canonical_request(request: SignedRequest, signed_headers: Sequence[str], payload: str) -> str:
    """The text whose hash is signed; `payload` stands for the body."""
    headers: dict[str, list[str]] = {}
    for name, value in request.headers:
        headers.setdefault(name.lower(), []).append(value)
    lines = [request.method, make_canonical_path(request.raw_path), make_canonical_query(request.raw_query)]
    lines += [f"{name}:{_join_values(headers.get(name, []))}" for name in signed_headers]
    return "\n".join([*lines, "", ";".join(signed_headers), payload])


def make_canonical_path(raw_path: str) -> str:
    """The received path without dot segments and empty ones, percent-encoded once more (`%3A` becomes `%253A`)."""
    kept: list[str] = []
    for segment in raw_path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment and segment != ".":
            kept.append(segment)
    # A path is bytes, each of which tornado hands on as one character: as Latin-1 they are the same bytes again.
    last = "/" if raw_path.endswith("/") and kept else ""
    return quote("/" + "/".join(kept) + last, safe=_PATH_KEEPS, encoding="latin-1")


def make_canonical_query(raw_query: str) -> str:
    """Every parameter but the signature itself, each encoded again, sorted by name and then by value."""
    pairs = (pair for pair in parse_parameters(raw_query) if pair[0] != SIGNATURE_PARAMETER)
    encoded = sorted((quote(name, safe=""), quote(value, safe="")) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def parse_parameters(raw_query: str) -> list[tuple[bytes, bytes]]:
    """The decoded parameters, in their order. A plus sign is a plus sign: clients that sign write blanks as `%20`.

    What acts on a signed query reads it with this, so that what was signed and what is done are the same.
    """
    if not raw_query:
        return []
    pairs = (pair.partition("=") for pair in raw_query.split("&"))
    return [(_decode(name), _decode(value)) for name, _, value in pairs]


def _decode(text: str) -> bytes:
    return unquote_to_bytes(text.encode("latin-1"))


def _join_values(values: Sequence[str]) -> str:
    """Blanks around values go and blanks within them become one; several values are joined by commas."""
    return ",".join(" ".join(value.split()) for value in values)
