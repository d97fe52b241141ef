"""Whether a claimed signature is right: of this time, and made with the key's secret over this very request."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Final

from kernel_gateway.identity.sigv4.canonical import UNSIGNED_PAYLOAD, make_canonical_request
from kernel_gateway.identity.sigv4.claim import ALGORITHM, Claim
from kernel_gateway.identity.sigv4.problem import INVALID, SignatureProblem
from kernel_gateway.identity.sigv4.request import SignedRequest

SKEW_SECONDS: Final = 300


def require_timely(claim: Claim, now: float) -> None:
    """Refuse what was signed too long ago or too far ahead: before the body is read, and again by `verify`."""
    last = claim.moment + (SKEW_SECONDS if claim.expires_seconds is None else claim.expires_seconds)
    if now > last:
        raise SignatureProblem(
            INVALID,
            f"Signature expired: {claim.stamp} counted until {_format_stamp(last)}, and it is {_format_stamp(now)}; "
            "set your clock, and sign the request again",
        )
    if claim.moment > now + SKEW_SECONDS:
        raise SignatureProblem(
            INVALID,
            f"Signature not yet current: {claim.stamp} is more than {SKEW_SECONDS // 60} minutes after "
            f"{_format_stamp(now)}, the time here; set your clock",
        )


def verify(request: SignedRequest, claim: Claim, secret: str, payload_sha256: str, now: float) -> None:
    """Raises SignatureProblem unless the secret signed this request; `payload_sha256` is the body's hash in hex."""
    require_timely(claim, now)  # again: the body may have taken minutes to come
    # A declared hash is that of a signed header (`claim.COVERED`), so it is what the client signed. It is held against
    # the body only below: without the secret nobody learns which of the two is wrong.
    declared = request.values("x-amz-content-sha256")
    payload = declared[0].strip() if declared else payload_sha256
    expected = compute_signature(request, claim, secret, payload)
    if not hmac.compare_digest(expected.encode(), claim.signature.encode()):
        raise SignatureProblem(
            INVALID,
            "The request signature we calculated does not match the signature you provided. Check your secret access "
            "key and signing method; a proxy between must hand on path, query and Host unchanged",
        )
    if payload not in (payload_sha256, UNSIGNED_PAYLOAD):
        raise SignatureProblem(INVALID, "the X-Amz-Content-Sha256 header is not the SHA-256 of the body that came")


def compute_signature(request: SignedRequest, claim: Claim, secret: str, payload: str) -> str:
    """The signature of the request, in hex."""
    text = make_canonical_request(request, claim.signed_headers, payload)
    digest = hashlib.sha256(text.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in claim.scope.split("/"):
        key = _hmac(key, part)
    return _hmac(key, "\n".join([ALGORITHM, claim.stamp, claim.scope, digest])).hex()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _format_stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y%m%dT%H%M%SZ")
