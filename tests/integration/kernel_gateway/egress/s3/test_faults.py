"""What S3 may say and do to the proxy, and what of it enters the sandbox."""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from botocore.exceptions import ClientError

from kernel_gateway.egress.budget import EgressLimits
from kernel_gateway.egress.s3.scope import RoleUnusable
from kernels.environment import ExecutionRole
from tests.doubles.role_side import RoleSide
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.doubles.scripted_s3 import Answer, ScriptedS3, answer

INSIDE = {"Bucket": BUCKET, "Key": "team/a/x"}
Scripted = Callable[..., tuple[Any, ScriptedS3, RoleSide]]


@pytest.fixture
def scripted(credentials: None, short_directory: Path) -> Iterator[Scripted]:
    """A role on an S3 server of a test's own; no key of the host's may have entered the sandbox."""
    with ExitStack() as stack:
        made: list[RoleSide] = []

        def make(script: Answer, tls: ssl.SSLContext | None = None, **limits: Any) -> tuple[Any, ScriptedS3, RoleSide]:
            server = stack.enter_context(ScriptedS3(script, tls))
            role = ExecutionRole(BUCKET, "team/a", write=True, endpoint_url=server.endpoint, profile="role")
            directory = short_directory / uuid.uuid4().hex[:8]
            directory.mkdir()
            side = stack.enter_context(RoleSide(role, directory, EgressLimits(**limits)))
            made.append(side)
            return side.client(), server, side

        yield make
        for side in made:
            for secret in (*ACCESS_KEY, "elsewhere", "arn:aws", "Signature="):
                assert secret.encode() not in side.entered


def test_a_redirection_is_neither_followed_nor_told(scripted: Scripted) -> None:
    for status in (301, 302, 307, 308):
        body = b"<Error><Code>PermanentRedirect</Code><Endpoint>elsewhere.example</Endpoint></Error>"
        away = answer(status, body, Location="http://elsewhere.example/", x_amz_bucket_region="elsewhere")
        s3, server, _ = scripted(lambda head, away=away: away)
        with pytest.raises(ClientError, match="region") as caught:
            s3.get_object(**INSIDE)
        assert caught.value.response["Error"]["Code"] == "AccessDenied"
        with pytest.raises(ClientError, match="403"):
            s3.head_object(**INSIDE)
        assert len(server.heads) == 2


def test_errors_that_quote_what_was_signed_are_told_without(scripted: Scripted) -> None:
    def quote(head: bytes) -> bytes:
        told = b"<AWSAccessKeyId>%b</AWSAccessKeyId><StringToSign>%b</StringToSign>" % (
            ACCESS_KEY[0].encode(),
            head.replace(b"<", b"").replace(b"&", b""),
        )
        body = b"<Error><Code>SignatureDoesNotMatch</Code><Message>%b</Message>%b</Error>" % (
            ACCESS_KEY[0].encode(),
            told,
        )
        return answer(403, body, Content_Type="application/xml")

    s3, server, _ = scripted(quote)
    with pytest.raises(ClientError, match="SignatureDoesNotMatch") as caught:
        s3.get_object(**INSIDE)
    assert caught.value.response["Error"]["Code"] == "AccessDenied"
    assert ACCESS_KEY[0].encode() in server.heads[0]


def test_only_what_was_allowed_reaches_s3(scripted: Scripted) -> None:
    s3, server, side = scripted(lambda head: answer(200, b"", ETag='"e"'))
    s3.put_object(**INSIDE, Body=b"", Metadata={"colour": "blue"})
    head = server.heads[0].decode().lower()
    assert head.startswith(f"put /{BUCKET}/team/a/x http/1.1\r\n")
    names = {line.partition(":")[0] for line in head.split("\r\n")[1:] if line}
    assert names == {"host", "accept-encoding", "authorization", "content-length", "x-amz-content-sha256", "x-amz-date",
                     "x-amz-sdk-checksum-algorithm", "x-amz-checksum-crc32", "x-amz-meta-colour"}  # fmt: skip
    assert "sandcellplaceholder" not in head
    assert side.endpoint.removeprefix("http://") not in head


def test_a_listing_that_shows_too_much_is_cut(scripted: Scripted) -> None:
    body = b"""<ListBucketResult><Contents><Key>team/a/x</Key><Owner><ID>arn:aws:iam</ID></Owner></Contents>
      <Contents><Key>elsewhere.txt</Key></Contents></ListBucketResult>"""
    s3, _, _ = scripted(lambda head: answer(200, body))
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix="team/a/")
    assert [one["Key"] for one in found["Contents"]] == ["team/a/x"]


def test_an_answer_that_makes_no_sense_is_not_passed_on(scripted: Scripted) -> None:
    for body in (
        b"<html>elsewhere</html",
        b"<!DOCTYPE x [<!ENTITY e 'elsewhere'>]><x>&e;</x>",
        b"<a>" + b" " * 9_000_000,
    ):
        s3, _, _ = scripted(lambda head, body=body: answer(200, body))
        with pytest.raises(ClientError, match="not understood"):
            s3.list_objects_v2(Bucket=BUCKET, Prefix="team/a/")


def test_an_object_that_breaks_off_is_not_taken_for_whole(scripted: Scripted) -> None:
    s3, _, _ = scripted(lambda head: answer(200, b"x" * 1000).replace(b"Length: 1000", b"Length: 5000"))
    with pytest.raises(Exception, match=r"IncompleteRead|Connection|Read"):
        s3.get_object(**INSIDE)["Body"].read()


def test_a_server_that_is_away_is_worth_another_try(credentials: None, short_directory: Path) -> None:
    role = ExecutionRole(BUCKET, "team/a", endpoint_url="http://127.0.0.1:1", profile="role")
    with RoleSide(role, short_directory) as side, pytest.raises(ClientError, match="ServiceUnavailable") as caught:
        side.client().get_object(**INSIDE)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert b"127.0.0.1:1" not in side.entered


def test_a_server_with_tls_is_believed_by_its_certificate(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    s3, server, _ = scripted(lambda head: answer(200, b"hello"), tls)
    with pytest.raises(ClientError, match="ServiceUnavailable"):
        s3.get_object(**INSIDE)
    assert server.heads == []
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    s3, server, _ = scripted(lambda head: answer(200, b"hello"), tls)
    assert s3.get_object(**INSIDE)["Body"].read() == b"hello"


def test_a_server_that_says_nothing_is_given_up(scripted: Scripted) -> None:
    def wait(head: bytes) -> bytes:
        time.sleep(3)
        return answer(200)

    s3, _, _ = scripted(wait, idle_seconds=0.5)
    with pytest.raises(ClientError, match="ServiceUnavailable"):
        s3.get_object(**INSIDE)


def test_a_client_that_dawdles_is_given_up(scripted: Scripted) -> None:
    _, server, side = scripted(lambda head: answer(200), header_seconds=0.5, idle_seconds=0.5)
    whole = b"PUT /%b/team/a/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n" % BUCKET.encode()
    for part in (whole[:20], whole):
        with side.connect() as connection:
            connection.sendall(part)
            answered = b"".join(iter(lambda: connection.recv(65536), b""))
        assert b" 200 " not in answered
    assert server.heads == [] or b"hello" not in server.heads[0]


def test_a_late_verdict_is_waited_for_with_spaces(scripted: Scripted) -> None:
    done = b"<?xml version='1.0'?>\n<CompleteMultipartUploadResult><ETag>e</ETag><Location>http://elsewhere/</Location></CompleteMultipartUploadResult>"
    s3, _, _ = scripted(lambda head: answer(200, b"   " + done.partition(b"\n")[2]))
    assert (
        s3.complete_multipart_upload(
            **INSIDE, UploadId="u", MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "e"}]}
        )["ETag"]
        == "e"
    )
    late = b"<Error><Code>InternalError</Code><Message>We lost it</Message></Error>"
    s3, _, _ = scripted(lambda head: answer(200, late))
    with pytest.raises(ClientError, match="InternalError"):
        s3.copy_object(**INSIDE, CopySource=f"{BUCKET}/team/a/y")


@pytest.mark.parametrize(
    ("role", "why"),
    [
        (ExecutionRole(BUCKET, "team/a", profile="nobody"), "nobody"),
        (ExecutionRole(BUCKET, "", profile="role"), "prefix"),
    ],
)
def test_a_role_without_credentials_or_a_prefix_is_refused_at_the_start(
    credentials: None, short_directory: Path, role: ExecutionRole, why: str
) -> None:
    with pytest.raises(RoleUnusable, match=why), RoleSide(role, short_directory):
        pass


def test_what_the_host_says_of_its_credentials_stays_there(
    credentials: None, short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = short_directory / "config"
    config.write_text("[profile asked]\ncredential_process = sh -c 'echo hidden-in-the-host >&2; exit 1'\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    role = ExecutionRole(BUCKET, "team/a", profile="asked")
    with pytest.raises(RoleUnusable, match="'asked' cannot be used") as caught, RoleSide(role, short_directory):
        pass
    assert "hidden" not in str(caught.value)


def test_a_service_without_any_credentials_says_so(
    short_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    role = ExecutionRole(BUCKET, "team/a")
    with pytest.raises(RoleUnusable, match="give the service AWS credentials"), RoleSide(role, short_directory):
        pass
