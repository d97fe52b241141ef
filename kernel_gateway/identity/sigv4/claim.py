"""What a request says of its own signature, in the `Authorization` header or in the query (a presigned URL).

Nothing here is proven yet; but whatever leaves open what was signed is refused here: a host, a time or a session that
the signature does not cover, a header or a parameter that is there twice, two signatures at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from kernel_gateway.identity.sigv4.canonical import parse_parameters
from kernel_gateway.identity.sigv4.problem import INCOMPLETE, INVALID, MISSING, UNRECOGNIZED, SignatureProblem
from kernel_gateway.identity.sigv4.request import SignedRequest

SERVICE: Final = "bedrock-agentcore"
ALGORITHM: Final = "AWS4-HMAC-SHA256"
LONGEST_EXPIRES_SECONDS: Final = 7 * 86_400
LONGEST_AUTHORIZATION: Final = 8_192
MOST_SIGNED_HEADERS: Final = 100
MOST_PARAMETERS: Final = 500
TOKEN_HEADER: Final = "x-amz-security-token"  # noqa: S105 - the name of a header
COVERED: Final = ("x-amz-date", "x-amz-content-sha256", "x-amzn-code-interpreter-session-id")
"""Headers that count for nothing unless they are signed, so a request that has one unsigned is refused."""
COVERED_PREFIX: Final = "x-sandcell-"
SINGLE: Final = frozenset({*COVERED, "host", "content-type", "content-length"})
"""Headers that may be there only once: joined by a comma for the signature, two of them would be one of many to us."""

_AUTHORIZATION: Final = re.compile(rf"{ALGORITHM}[ \t]+(.*)")
_PART: Final = re.compile(r'([A-Za-z]+)[ \t]*=[ \t]*(?:([^ \t,="]+)|"([^ \t,="\\]+)")')
_PARTS: Final = ("Credential", "SignedHeaders", "Signature")
_CREDENTIAL: Final = re.compile(
    r"(?P<key>[A-Za-z0-9_-]{1,128})/(?P<day>[0-9]{8})/(?P<region>[a-z0-9-]{1,64})/(?P<service>[a-z0-9-]{1,64})/aws4_request"
)
_STAMP: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z")
_LONGEST_NAME: Final = 200
_NAME: Final = re.compile(rf"[a-z0-9!#$%&'*+.^_`|~-]{{1,{_LONGEST_NAME}}}")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_SECONDS: Final = re.compile(r"[0-9]{1,7}")
_QUERY: Final = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature", "Security-Token")


@dataclass(frozen=True)
class Claim:
    """Who claims to have signed what, and when; `expires_seconds` is a presigned URL's, else None."""

    access_key_id: str
    stamp: str
    moment: float
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str = field(repr=False)
    expires_seconds: int | None = None

    @property
    def presigned(self) -> bool:
        return self.expires_seconds is not None

    @property
    def scope(self) -> str:
        """What the signing key is made for: day, region, service."""
        return f"{self.stamp[:8]}/{self.region}/{self.service}/aws4_request"

    def covers(self, header: str) -> bool:
        """Whether a header, named in lower case, is signed."""
        return header in self.signed_headers


def read_claim(request: SignedRequest, service: str = SERVICE) -> Claim:
    """What the request claims; raises SignatureProblem when it claims nothing, too much or nonsense."""
    authorizations = request.values("authorization")
    in_query = _find_presigned(request.raw_query)
    if authorizations and in_query:
        raise SignatureProblem(INCOMPLETE, "the request is signed in its headers and in its query; sign it once")
    if not authorizations and not in_query:
        raise SignatureProblem(MISSING, "the request is not signed: give your client an access key (`sandcell keys`)")
    if TOKEN_HEADER in request.by_name or "Security-Token" in in_query:
        raise SignatureProblem(
            UNRECOGNIZED,
            "the security token included in the request is invalid: Sandcell gives no session tokens; "
            "use an access key of `sandcell keys create` without AWS_SESSION_TOKEN",
        )
    claim = _read_query(in_query) if in_query else _read_header(request, authorizations)
    _require_service(claim, service)
    _require_covered(request, claim)
    return claim


def _read_header(request: SignedRequest, authorizations: list[str]) -> Claim:
    authorization = _take_only(authorizations, "the Authorization header")
    if len(authorization) > LONGEST_AUTHORIZATION:
        raise SignatureProblem(INCOMPLETE, f"the Authorization header is longer than {LONGEST_AUTHORIZATION:,} bytes")
    if not authorization.startswith("AWS4-"):
        raise SignatureProblem(MISSING, f"this address takes requests signed with {ALGORITHM}, and no other proof")
    parts = _read_parts(authorization)
    stamp = _take_only(request.values("x-amz-date"), "the X-Amz-Date header")
    return _make_claim(parts["Credential"], stamp, parts["SignedHeaders"], parts["Signature"], None)


def _read_parts(authorization: str) -> dict[str, str]:
    """The three parts by name, in whatever order and spacing they stand, as RFC 9110 has a list of parameters."""
    found = _AUTHORIZATION.fullmatch(authorization)
    sent = [part for each in found[1].split(",") if (part := each.strip(" \t"))] if found else []
    matches = [match for part in sent if (match := _PART.fullmatch(part))]
    parts = {match[1]: match[2] or match[3] for match in matches}
    if len(matches) < len(sent) or len(parts) < len(sent) or set(parts) != set(_PARTS):
        raise SignatureProblem(
            INCOMPLETE,
            f"the Authorization header must be '{ALGORITHM} Credential=..., SignedHeaders=..., Signature=...'",
        )
    return parts


def _find_presigned(raw_query: str) -> dict[str, list[str]]:
    """The parameters of a presigned URL by the rest of their names; empty when there is none."""
    if raw_query.count("&") >= MOST_PARAMETERS:
        raise SignatureProblem(INCOMPLETE, f"the query has more than {MOST_PARAMETERS} parameters")
    found: dict[str, list[str]] = {}
    for name, value in parse_parameters(raw_query):
        short = name.decode("latin-1").removeprefix("X-Amz-")
        # One of them makes it a presigned URL, which must then be whole: a part of one is never passed over.
        if short in _QUERY and name.startswith(b"X-Amz-"):
            found.setdefault(short, []).append(value.decode("latin-1"))
    return found


def _read_query(in_query: dict[str, list[str]]) -> Claim:
    only = {name: _take_only(in_query.get(name, []), f"the parameter X-Amz-{name}") for name in _QUERY[:6]}
    if only["Algorithm"] != ALGORITHM:
        raise SignatureProblem(INCOMPLETE, f"X-Amz-Algorithm must be {ALGORITHM}")
    expires = int(only["Expires"]) if _SECONDS.fullmatch(only["Expires"]) else 0
    if not 1 <= expires <= LONGEST_EXPIRES_SECONDS:
        raise SignatureProblem(INCOMPLETE, f"X-Amz-Expires must be from 1 to {LONGEST_EXPIRES_SECONDS:,} seconds")
    return _make_claim(only["Credential"], only["Date"], only["SignedHeaders"], only["Signature"], expires)


def _take_only(values: list[str], what: str) -> str:
    if len(values) != 1:
        raise SignatureProblem(INCOMPLETE, f"{what} is missing" if not values else f"{what} is there more than once")
    return values[0].strip()


def _make_claim(credential: str, stamp: str, names: str, signature: str, expires: int | None) -> Claim:
    scope = _CREDENTIAL.fullmatch(credential)
    if scope is None:
        raise SignatureProblem(
            INCOMPLETE, "the credential must be '<access key id>/<yyyymmdd>/<region>/<service>/aws4_request'"
        )
    if scope["day"] != stamp[:8]:  # the signing key is made of the day: a key of another day signed this time
        raise SignatureProblem(INVALID, "the credential's date is not that of the request's time")
    if not _SIGNATURE.fullmatch(signature):
        raise SignatureProblem(INCOMPLETE, "the signature must be 64 hexadecimal digits in lower case")
    signed = tuple(names.split(";"))
    if len(signed) > MOST_SIGNED_HEADERS or len(set(signed)) < len(signed) or not all(map(_NAME.fullmatch, signed)):
        raise SignatureProblem(
            INCOMPLETE,
            f"SignedHeaders must be up to {MOST_SIGNED_HEADERS} names in lower case, each once, with ';' between",
        )
    return Claim(
        scope["key"], stamp, _parse_stamp(stamp), scope["region"], scope["service"], signed, signature, expires
    )


def _parse_stamp(stamp: str) -> float:
    found = _STAMP.fullmatch(stamp)
    try:
        if found is not None:
            year, month, day, hour, minute, second = map(int, found.groups())
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        pass
    raise SignatureProblem(INCOMPLETE, "the request's time (X-Amz-Date) must be in the form 20260131T235959Z")


def _require_service(claim: Claim, service: str) -> None:
    if claim.service != service:
        raise SignatureProblem(
            INVALID, f"the credential must be scoped to the service {service!r}, not {claim.service!r}"
        )


def _require_covered(request: SignedRequest, claim: Claim) -> None:
    """What we act on must be under the signature, and stand there once."""
    sent = request.by_name
    needed = {name for name in sent if name in COVERED or name.startswith(COVERED_PREFIX)}
    _refuse_named(({"host"} | needed) - set(claim.signed_headers), "must be among the signed headers")
    _refuse_named(set(claim.signed_headers) - set(sent), "is signed and not there")
    _refuse_named((name for name in SINGLE if len(request.values(name)) > 1), "is there more than once")


def _refuse_named(names: Iterable[str], what: str) -> None:
    for name in sorted(names):
        raise SignatureProblem(INCOMPLETE, f"the header {name[:_LONGEST_NAME]} {what}")
