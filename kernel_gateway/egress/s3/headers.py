"""A request's headers: which are forwarded, which are for this hop, and which refuse the request. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kernel_gateway.egress.s3.operations import Operation
from kernel_gateway.egress.s3.refusal import Refused

PLACEHOLDER_KEY_ID: Final = "SANDCELLPLACEHOLDER"
"""The access key id that programs in a sandbox find in their environment; kernels/guest/options.py sets it."""

_LOCAL_HOST: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_AUTHORIZATION: Final = re.compile(rf"AWS4-HMAC-SHA256 +Credential={PLACEHOLDER_KEY_ID}/[\x20-\x7e]*")
_HASH: Final = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD")
_VALUE: Final = re.compile(r"[\x20-\x7e]*")
_META: Final = re.compile(r"x-amz-meta-[a-z0-9_.-]{1,128}")

_OF_THIS_HOP: Final = frozenset(
    {
        "accept", "accept-encoding", "amz-sdk-invocation-id", "amz-sdk-request", "authorization", "connection",
        "content-length", "date", "expect", "host", "keep-alive", "user-agent", "x-amz-content-sha256", "x-amz-date",
        "x-amz-user-agent", "x-amzn-trace-id",
    }
)  # fmt: skip
_OF_NO_USE: Final = frozenset({"content-type", "content-md5", "x-amz-sdk-checksum-algorithm"})
"""What clients send with operations that make nothing of it, or (DeleteObjects) with a body that is rewritten."""


class RequestHeaders:
    """The headers of one request by lower-case name; raises `Refused` when one is there twice or has odd bytes."""

    def __init__(self, headers: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in headers:
            if name in self._values:
                raise Refused("header", f"{name} is there twice")
            if not _VALUE.fullmatch(value):
                raise Refused("header", f"{name} has characters beyond plain ASCII; encode them")
            self._values[name] = value

    def get(self, name: str, default: str = "") -> str:
        return self._values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def check_hop(self) -> None:
        """Refuse a foreign host, a foreign authorisation and a framing that S3 would not take."""
        if not _LOCAL_HOST.fullmatch(self.get("host")):
            raise Refused("host", "address the bucket in the path: http://127.0.0.1:3129/bucket/key")
        if "x-amz-security-token" in self:
            raise Refused("session-token", "leave session tokens out; the host signs with the role's credentials")
        if "authorization" in self and not _AUTHORIZATION.fullmatch(self.get("authorization")):
            raise Refused(
                "authorization", f"sign with the key {PLACEHOLDER_KEY_ID} of the environment (AWS4-HMAC-SHA256)"
            )
        if self.get("expect").lower() not in {"", "100-continue"}:
            raise Refused("header", "expect can only be 100-continue")

    def check_payload(self) -> None:
        """Refuse bodies that come in pieces: those that the client signed cannot be signed again on their way."""
        sent = self.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")
        chunked = "aws-chunked" in self.get("content-encoding").lower() or "x-amz-trailer" in self
        if sent.startswith("STREAMING-") or chunked:
            raise Refused("payload", "send the body in one piece: sign its SHA-256 or UNSIGNED-PAYLOAD, not STREAMING")
        if not _HASH.fullmatch(sent):
            raise Refused("payload", "x-amz-content-sha256 is a SHA-256 in hex, or UNSIGNED-PAYLOAD")
        if "transfer-encoding" in self:
            raise Refused("payload", "send Content-Length; Transfer-Encoding is not taken")

    @property
    def payload_hash(self) -> str:
        return self.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")

    @property
    def length(self) -> int | None:
        """The body's length in bytes; None without a Content-Length."""
        value = self.get("content-length")
        return int(value) if value.isdecimal() else None

    def select_forwarded(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        """Those that the operation takes, but the copy source; refuses the ones that it does not."""
        kept = []
        for name, value in self._values.items():
            if name in operation.headers or ("x-amz-meta-*" in operation.headers and _META.fullmatch(name)):
                kept.append((name, value))
            elif name not in _OF_THIS_HOP and not self._is_useless(name, operation):
                raise Refused("header", f"{name} is not taken by {operation.name} here; leave it out")
        return tuple((name, value) for name, value in kept if name != "x-amz-copy-source")

    def _is_useless(self, name: str, operation: Operation) -> bool:
        rewritten = operation.name == "DeleteObjects" and name.startswith("x-amz-checksum-")
        return name in _OF_NO_USE or rewritten
