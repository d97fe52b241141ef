"""Our signatures are those that botocore makes of the same requests."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from workspace_sync.stores.s3.wire import Key, Signer, quote_path

NOW = calendar.timegm((2026, 2, 3, 4, 5, 6))
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize("token", [None, "a+session/token=="], ids=["lasting", "temporary"])
@pytest.mark.parametrize(
    "asked_for",
    [
        ("PUT", "a/plain.csv", {}),
        ("PUT", "a b/ü ~(1)!'*%41+&=@;,$.txt", {}),
        ("GET", "a/ranged", {"range": "bytes=5-9"}),
    ],
    ids=["plain", "names", "range"],
)
def test_a_signature_is_the_one_botocore_makes(
    monkeypatch: pytest.MonkeyPatch, asked_for: tuple[str, str, dict[str, str]], token: str | None
) -> None:
    method, key, headers = asked_for
    path = quote_path(f"/bucket/{key}")
    ours = Signer("127.0.0.1:9000", "eu-central-1").sign(
        method, path, headers, key=Key("AKID", "secret", token), sha256=SHA256, now=NOW
    )
    moment = datetime.fromtimestamp(NOW, UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: moment)
    url = f"http://127.0.0.1:9000{path}"
    theirs = AWSRequest(method, url, headers=dict(headers))
    theirs.context["payload_signing_enabled"] = True
    theirs.headers["X-Amz-Content-SHA256"] = SHA256
    monkeypatch.setattr(botocore.auth.S3SigV4Auth, "payload", lambda *_: SHA256)
    botocore.auth.S3SigV4Auth(Credentials("AKID", "secret", token), "s3", "eu-central-1").add_auth(theirs)
    assert ours["x-amz-date"] == theirs.context["timestamp"]
    assert ours["authorization"] == theirs.headers["Authorization"]


def test_what_is_kept_of_a_second_and_a_day_is_made_again_with_the_next_and_for_another_secret() -> None:
    signer = Signer("host", "us-east-1")

    def signed(secret: str, now: float) -> str:
        return signer.sign("GET", "/b/k", {}, key=Key("id", secret), sha256=SHA256, now=now)["authorization"]

    first = signed("one", NOW)
    assert signed("two", NOW) != first
    for later in (NOW + 1, NOW + 86_400):
        assert signed("one", later) == Signer("host", "us-east-1").sign(
            "GET", "/b/k", {}, key=Key("id", "one"), sha256=SHA256, now=later
        )["authorization"]  # fmt: skip
    assert signed("one", NOW) == first
