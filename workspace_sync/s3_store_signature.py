"""Signature Version 4 of requests to one bucket (pure, but for the clock it is given).

Only what `s3_store_wire` sends: headers of this package's own, a query of plain names, a body whose SHA-256 is known.
Source of the form: Amazon S3 API Reference, "Authenticating Requests (AWS Signature Version 4)".
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Key:
    """An access key: its id, its secret, and the token that temporary ones come with."""

    id: str
    secret: str
    token: str | None = None


class Signer:
    """Signs for one host and region; keeps the key of the day and what the second is called."""

    def __init__(self, host: str, region: str) -> None:
        self._host = host
        self._region = region
        self._derived: tuple[str, str, bytes] = ("", "", b"")
        self._moment: tuple[int, str] = (0, "")

    def sign(
        self, method: str, path: str, query: str, headers: Mapping[str, str], *, key: Key, sha256: str, now: float
    ) -> dict[str, str]:
        """All headers of the request, signed. `path` and `query` are as sent; header names are lower case."""
        moment = self._moment_of(int(now))
        signed = {"host": self._host, **headers, "x-amz-content-sha256": sha256, "x-amz-date": moment}
        if key.token:
            signed["x-amz-security-token"] = key.token
        in_order = sorted(signed)
        names = ";".join(in_order)
        lines = "".join([f"{name}:{signed[name]}\n" for name in in_order])
        request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{sha256}"
        scope = f"{moment[:8]}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._of_day(key.secret, moment[:8]), text.encode(), "sha256").hex()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return signed

    def _moment_of(self, now: int) -> str:
        known, moment = self._moment
        if known != now:
            moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
            self._moment = (now, moment)
        return moment

    def _of_day(self, secret: str, day: str) -> bytes:
        known_secret, known_day, derived = self._derived
        if (known_secret, known_day) != (secret, day):
            derived = f"AWS4{secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                derived = hmac.digest(derived, part.encode(), "sha256")
            self._derived = (secret, day, derived)
        return derived


def quoted_path(path: str) -> str:
    """A path as it is sent and signed."""
    return quote(path, safe="/-_.~")


def quoted_query(query: Mapping[str, str]) -> str:
    """A query as it is sent and signed."""
    return "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))
