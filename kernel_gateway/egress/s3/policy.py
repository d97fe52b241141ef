"""Whether a request of a sandbox is one that its execution role allows, and what of it is forwarded. Pure.

Everything is refused that is not known: operations, query parameters, headers. What is allowed is rewritten, so
that S3 reads what was checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kernel_gateway.egress.s3 import keys
from kernel_gateway.egress.s3.headers import RequestHeaders
from kernel_gateway.egress.s3.operations import OPERATIONS, Operation
from kernel_gateway.egress.s3.refusal import Refused
from kernel_gateway.egress.s3.scope import Scope

_MOST_PARAMETERS: Final = 16
_NUMBER: Final = re.compile(r"\d{1,10}")
_TOKEN: Final = re.compile(r"[^\x00-\x1f\x7f]{0,2048}")
_VALUES: Final[Mapping[str, re.Pattern[str]]] = {
    "list-type": re.compile("2"),
    "encoding-type": re.compile("url"),
    "delete": re.compile(""),
    "location": re.compile(""),
    "uploads": re.compile(""),
    "uploadId": re.compile(r"[A-Za-z0-9._~+/=:-]{1,1024}"),
    **dict.fromkeys(("max-keys", "max-parts", "max-uploads", "partNumber", "part-number-marker"), _NUMBER),
}
_PRESIGNED: Final = frozenset(
    {
        "x-amz-signature",
        "x-amz-credential",
        "x-amz-algorithm",
        "x-amz-security-token",
        "awsaccesskeyid",
        "signature",
        "expires",
    }
)


class Allowed(msgspec.Struct, frozen=True):
    """A request to forward: written as S3 shall read it. `key` is empty for what asks of the bucket.

    `length` is that of the body, `payload_hash` what the client says of it; `headers` are forwarded as they are.
    """

    operation: Operation
    bucket: str
    key: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    length: int
    payload_hash: str

    @property
    def path(self) -> str:
        return f"/{self.bucket}/{keys.encode(self.key)}" if self.key else f"/{self.bucket}"

    @property
    def query_string(self) -> str:
        return "&".join(f"{keys.encode_value(name)}={keys.encode_value(value)}" for name, value in self.query)


def decide(method: str, target: str, headers: Iterable[tuple[str, str]], scope: Scope) -> Allowed:
    """What of a request (header names in lower case) is forwarded; raises `Refused`."""
    found = RequestHeaders(headers)
    found.check_hop()
    path, _, query = _plain(target).partition("?")
    parameters = _parse_parameters(query)
    key = _parse_key(path, scope)
    operation = _find_operation(method, key, parameters, copies="x-amz-copy-source" in found)
    if operation.write and not scope.write:
        raise Refused("read-only", f"the execution role reads {scope.uri}; {operation.name} writes")
    found.check_payload()
    _check_values(parameters)
    if operation.on == "key":
        _check_inside(key, scope)
    elif operation.answer == "listing":
        _check_listing(parameters, scope)
    source = _copy_source(found, scope) if operation.copies else ()
    return Allowed(
        operation=operation,
        bucket=scope.bucket,
        key=key,
        query=tuple(sorted(parameters.items())),
        headers=found.select_forwarded(operation) + source,
        length=_read_length(operation, found),
        payload_hash=found.payload_hash,
    )


def _plain(target: str) -> str:
    if not target.startswith("/") or "#" in target or not target.isascii():
        raise Refused("target", "ask for a path: /bucket/key")
    return target


def _parse_parameters(query: str) -> dict[str, str]:
    """Query parameters by name; `x-id`, with which some clients name the operation, is left out."""
    found: dict[str, str] = {}
    pieces = query.split("&") if query else []
    if len(pieces) > _MOST_PARAMETERS:
        raise Refused("query", f"a request has at most {_MOST_PARAMETERS} query parameters")
    for piece in pieces:
        name, _, value = piece.partition("=")
        name = keys.decode_value(name)
        if name in found:
            raise Refused("query", f"the parameter {name!r} is there twice")
        found[name] = keys.decode_value(value)
    found.pop("x-id", None)
    return found


def _parse_key(path: str, scope: Scope) -> str:
    """The decoded key of a path in the role's bucket; empty for the bucket itself."""
    bucket, _, raw = path[1:].partition("/")
    if bucket != scope.bucket:
        raise Refused("bucket", f"the execution role reaches {scope.uri} and no other bucket")
    return keys.check(keys.decode(raw)) if raw else ""


def _find_operation(method: str, key: str, parameters: Mapping[str, str], *, copies: bool) -> Operation:
    on = "key" if key else "bucket"
    for operation in OPERATIONS:
        if operation.matches(method, on, parameters.keys(), copies=copies):
            return operation
    if _PRESIGNED & {name.lower() for name in parameters}:
        raise Refused("presigned", "presigned requests are not taken; sign in the Authorization header")
    if "versionId" in parameters:
        raise Refused("version", "the execution role reaches the current version of an object only")
    shown = ", ".join(sorted(parameters))[:200]
    raise Refused("operation", f"the execution role has no {method} of a {on} with {shown or 'nothing else'}")


def _check_values(parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        if not _VALUES.get(name, _TOKEN).fullmatch(value):
            raise Refused("query", f"the parameter {name} cannot have this value")


def _check_inside(key: str, scope: Scope) -> None:
    if not scope.holds(key):
        raise Refused("key", f"the execution role reaches {scope.uri}, and this key is outside")


def _check_listing(parameters: Mapping[str, str], scope: Scope) -> None:
    prefix = parameters.get("prefix", "")
    if not scope.holds(prefix):
        raise Refused("prefix", f"list with a prefix that begins with {scope.prefix}, its slash included")
    keys.check(prefix, "prefix")


def _copy_source(headers: RequestHeaders, scope: Scope) -> tuple[tuple[str, str], ...]:
    """The header that names the source of a copy, rewritten; it comes as `bucket/key`, maybe after a slash."""
    raw = headers.get("x-amz-copy-source")
    if raw.startswith("arn:") or "?" in raw or "+" in raw:
        raise Refused("copy-source", "name the source as bucket/key, percent-encoded, without a version or an ARN")
    bucket, _, key = raw.removeprefix("/").partition("/")
    if bucket != scope.bucket or not key:
        raise Refused("copy-source", f"the source of a copy must be in {scope.uri}")
    key = keys.check(keys.decode(key, "copy-source"), "copy-source")
    if not scope.holds(key):
        raise Refused("copy-source", f"the source of a copy must be in {scope.uri}")
    return (("x-amz-copy-source", f"/{scope.bucket}/{keys.encode(key)}"),)


def _read_length(operation: Operation, headers: RequestHeaders) -> int:
    length = headers.length
    if operation.body == "none":
        if length:
            raise Refused("payload", f"{operation.name} has no body")
        return 0
    if length is None:
        raise Refused("payload", f"{operation.name} needs a Content-Length")
    return length
