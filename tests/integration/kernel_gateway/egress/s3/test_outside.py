"""What a role is not for: each refusal named, and the objects outside neither seen nor touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from kernel_gateway.egress.budget import EgressLimits
from tests.doubles.role_side import PLACEHOLDERS, RoleSide
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.kernel_gateway.egress.s3.conftest import CommandLine

B = {"Bucket": BUCKET}
INSIDE = {**B, "Key": "team/a/mine"}
AWAY = {**B, "Key": "team/ab/secret.txt"}
CALLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "read outside": ("key", lambda s3: s3.get_object(**AWAY)),
    "read beside": ("key", lambda s3: s3.get_object(**B, Key="team/other.txt")),
    "read above by dots": ("key", lambda s3: s3.get_object(**B, Key="team/a/../other.txt")),
    "read above by encoded dots": ("key", lambda s3: s3.get_object(**B, Key="team/a/%2e%2e/other.txt")),
    "read above by backslash": ("key", lambda s3: s3.get_object(**B, Key="team/a/..\\other.txt")),
    "write outside": ("key", lambda s3: s3.put_object(**AWAY, Body=b"HARM")),
    "delete outside": ("key", lambda s3: s3.delete_object(**AWAY)),
    "delete many, one outside": (
        "key",
        lambda s3: s3.delete_objects(**B, Delete={"Objects": [{"Key": "team/a/x"}, {"Key": "secret.txt"}]}),
    ),
    "delete a version": ("document", lambda s3: s3.delete_objects(
        **B, Delete={"Objects": [{"Key": "team/a/x", "VersionId": "1"}]})),
    "begin an upload outside": ("key", lambda s3: s3.create_multipart_upload(**AWAY)),
    "list all": ("prefix", lambda s3: s3.list_objects_v2(**B)),
    "list all as before": ("prefix", lambda s3: s3.list_objects(**B)),
    "list without the slash": ("prefix", lambda s3: s3.list_objects_v2(**B, Prefix="team/a")),
    "list above": ("prefix", lambda s3: s3.list_objects_v2(**B, Prefix="team/", Delimiter="/")),
    "list by dots": ("prefix", lambda s3: s3.list_objects_v2(**B, Prefix="team/a/../")),
    "list uploads": ("prefix", lambda s3: s3.list_multipart_uploads(**B)),
    "list versions": ("operation", lambda s3: s3.list_object_versions(**B, Prefix="team/a/")),
    "list buckets": ("bucket", lambda s3: s3.list_buckets()),
    "make a bucket": ("bucket", lambda s3: s3.create_bucket(Bucket="another-bucket")),
    "remove the bucket": ("operation", lambda s3: s3.delete_bucket(**B)),
    "another bucket": ("bucket", lambda s3: s3.get_object(Bucket="another-bucket", Key="team/a/x")),
    "copy from outside": ("copy-source", lambda s3: s3.copy_object(**INSIDE, CopySource=AWAY)),
    "copy from above": (
        "copy-source",
        lambda s3: s3.copy_object(**INSIDE, CopySource=f"{BUCKET}/team/a/%2e%2e/other.txt"),
    ),
    "copy from another bucket": (
        "copy-source",
        lambda s3: s3.copy_object(**INSIDE, CopySource={"Bucket": "another-bucket", "Key": "team/a/x"}),
    ),
    "copy a version": (
        "copy-source",
        lambda s3: s3.copy_object(**INSIDE, CopySource={**INSIDE, "VersionId": "1"}),
    ),
    "copy through an access point": (
        "copy-source",
        lambda s3: s3.copy_object(**INSIDE, CopySource="arn:aws:s3:us-east-1:1:accesspoint/ap/object/team/a/x"),
    ),
    "copy a part from outside": (
        "copy-source",
        lambda s3: s3.upload_part_copy(**INSIDE, PartNumber=1, UploadId="u", CopySource=AWAY),
    ),
    "copy to outside": ("key", lambda s3: s3.copy_object(**AWAY, CopySource={**B, "Key": "team/a/x"})),
    "read its policy": ("operation", lambda s3: s3.get_bucket_policy(**B)),
    "set its policy": ("operation", lambda s3: s3.put_bucket_policy(**B, Policy="{}")),
    "set its acl": ("operation", lambda s3: s3.put_bucket_acl(**B, ACL="public-read")),
    "set an object's acl": ("operation", lambda s3: s3.put_object_acl(**INSIDE, ACL="public-read")),
    "write for all to read": ("header", lambda s3: s3.put_object(**INSIDE, Body=b"x", ACL="public-read")),
    "tag": ("operation", lambda s3: s3.put_object_tagging(**INSIDE, Tagging={"TagSet": []})),
    "write with tags": ("header", lambda s3: s3.put_object(**INSIDE, Body=b"x", Tagging="a=b")),
    "redirect a website": (
        "header",
        lambda s3: s3.put_object(**INSIDE, Body=b"x", WebsiteRedirectLocation="https://example.org/"),
    ),
    "encrypt with a key of one's own": (
        "header",
        lambda s3: s3.put_object(**INSIDE, Body=b"x", SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32),
    ),
    "versioning": ("operation", lambda s3: s3.put_bucket_versioning(
        **B, VersioningConfiguration={"Status": "Suspended"})),
    "lifecycle": ("operation", lambda s3: s3.get_bucket_lifecycle_configuration(**B)),
    "notifications": ("operation", lambda s3: s3.get_bucket_notification_configuration(**B)),
    "replication": ("operation", lambda s3: s3.get_bucket_replication(**B)),
    "select": (
        "operation",
        lambda s3: s3.select_object_content(
            **INSIDE,
            Expression="select * from s3object",
            ExpressionType="SQL",
            InputSerialization={"CSV": {}},
            OutputSerialization={"CSV": {}},
        ),
    ),
    "read a version": ("version", lambda s3: s3.get_object(**INSIDE, VersionId="null")),
    "another's money": ("header", lambda s3: s3.get_object(**INSIDE, RequestPayer="requester")),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_boto3_is_refused(side: RoleSide, outside: object, name: str) -> None:
    word, call = CALLS[name]
    with pytest.raises(ClientError) as caught:
        call(side.client())
    told = caught.value.response
    assert told["Error"]["Code"] == "AccessDenied"
    assert told["Error"]["Message"].startswith(f"Execution role: {word}: ")
    assert [(one.allowed, one.reason.partition(":")[0]) for one in side.decisions] == [(False, word)]
    assert side.egress.usage.refused == 1


def test_nothing_of_what_was_refused_is_there(side: RoleSide, owner: Any, outside: object) -> None:
    s3 = side.client()
    for _, call in CALLS.values():
        with pytest.raises(ClientError):
            call(s3)
    assert owner.list_objects_v2(**B, Prefix="team/a/").get("Contents", []) == []
    assert [bucket["Name"] for bucket in owner.list_buckets()["Buckets"]] == [BUCKET]


def test_a_role_that_reads_writes_nothing(make_side: Callable[..., RoleSide], owner: Any, outside: object) -> None:
    owner.put_object(**INSIDE, Body=b"as it was")
    side = make_side(write=False)
    s3 = side.client()
    for call in (
        lambda: s3.put_object(**INSIDE, Body=b"HARM"),
        lambda: s3.delete_object(**INSIDE),
        lambda: s3.delete_objects(**B, Delete={"Objects": [{"Key": INSIDE["Key"]}]}),
        lambda: s3.copy_object(**INSIDE, CopySource=INSIDE),
        lambda: s3.create_multipart_upload(**INSIDE),
        lambda: s3.list_multipart_uploads(**B, Prefix="team/a/"),
    ):
        with pytest.raises(ClientError, match="Execution role: read-only: "):
            call()
    assert s3.get_object(**INSIDE)["Body"].read() == b"as it was"
    owner.delete_object(**INSIDE)


def test_presigned_requests_are_refused_with_any_signer(side: RoleSide, server: str, outside: object) -> None:
    away = boto3.session.Session().client(
        "s3", endpoint_url=side.endpoint, region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY[0], aws_secret_access_key=ACCESS_KEY[1],
    )  # fmt: skip
    for signer, params in ((away, AWAY), (away, INSIDE), (side.client(), INSIDE)):
        for method in ("get_object", "put_object"):
            url = signer.generate_presigned_url(method, Params=params)
            verb = "PUT" if method == "put_object" else "GET"
            answer = httpx.request(verb, url, content=b"x" if verb == "PUT" else None)
            assert answer.status_code == 403
            assert "Execution role: presigned: " in answer.text
    form = side.client().generate_presigned_post(BUCKET, "team/a/mine")
    answer = httpx.post(form["url"], data=form["fields"], files={"file": b"x"})
    assert "Execution role: operation: " in answer.text


def test_requests_that_somebody_else_signed_are_refused(side: RoleSide, outside: object) -> None:
    """With keys that were carried in: they would make the bucket a way out, were they passed on."""
    foreign = boto3.session.Session().client(
        "s3", endpoint_url=side.endpoint, region_name="us-east-1",
        aws_access_key_id="AKIAFOREIGN000000000", aws_secret_access_key="x", aws_session_token=None,
    )  # fmt: skip
    with pytest.raises(ClientError, match="Execution role: authorization: "):
        foreign.get_object(**INSIDE)
    with_token = boto3.session.Session().client(
        "s3", endpoint_url=side.endpoint, region_name="us-east-1",
        aws_access_key_id=PLACEHOLDERS["AWS_ACCESS_KEY_ID"], aws_secret_access_key="x", aws_session_token="token",
    )  # fmt: skip
    with pytest.raises(ClientError, match="Execution role: session-token: "):
        with_token.get_object(**INSIDE)


def test_the_placeholder_keys_are_worth_nothing_at_s3_itself(server: str, outside: object) -> None:
    def reads(key_id: str, secret: str) -> bool:
        s3 = boto3.session.Session().client(
            "s3", endpoint_url=server, region_name="us-east-1", aws_access_key_id=key_id, aws_secret_access_key=secret
        )
        try:
            return bool(s3.get_object(**AWAY))
        except ClientError:
            return False

    asks_for_keys = not reads("AKIANOBODY0000000000", "nobody")  # moto does not
    placeholder = reads(PLACEHOLDERS["AWS_ACCESS_KEY_ID"], PLACEHOLDERS["AWS_SECRET_ACCESS_KEY"])
    assert reads(*ACCESS_KEY)
    assert placeholder is not asks_for_keys


def test_buckets_in_host_names_are_refused(side: RoleSide, server: str, outside: object) -> None:
    port = urlsplit(side.endpoint).port
    for host in (f"{BUCKET}.127.0.0.1:{port}", f"{BUCKET}.s3.amazonaws.com", urlsplit(server).netloc + ".nip.io"):
        answer = httpx.get(f"{side.endpoint}/team/ab/secret.txt", headers={"Host": host})
        assert (answer.status_code, "Execution role: host: " in answer.text) == (403, True)


RAW = {
    "dots": (b"GET /%b/team/a/../ab/secret.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"key: "),
    "encoded dots": (b"GET /%b/team/a/%%2e%%2e/ab/secret.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"key: "),
    "dots encoded twice": (b"GET /%b/team/a/%%252e%%252e/ab/secret.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"key: "),
    "encoded slashes": (b"GET /%b/team%%2fab%%2fsecret.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"key: "),
    "an absolute target": (b"GET http://other/%b/team/a/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"target: "),
    "two hosts": (b"GET /%b/team/a/x HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: other\r\n\r\n", b"request: "),
    "no host": (b"GET /%b/team/a/x HTTP/1.0\r\n\r\n", b"host: "),
    "two lengths": (b"PUT /%b/team/a/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n"
                    b"\r\nhello", b"request: "),
    "length and chunks": (b"PUT /%b/team/a/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
                          b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /%b/secret.txt HTTP/1.1\r\n\r\n",
                          b"payload: "),
    "a folded header": (b"GET /%b/team/a/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Amz-Meta-A: b\r\n c\r\n\r\n", b"header: "),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"request: "),
    "a tunnel": (b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"target: "),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_raw_requests_are_refused(side: RoleSide, outside: object, name: str) -> None:
    request, word = RAW[name]
    bucket = BUCKET.encode()
    answer = side.say(request.replace(b"%b", bucket).replace(b"%%", b"%"))
    assert re_status(answer) in {400, 403}
    assert b"Execution role: " + word in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def re_status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_second_request_behind_a_body_is_a_request_of_its_own(side: RoleSide, outside: object) -> None:
    """What comes after the announced length is decided on like everything else."""
    first = f"PUT /{BUCKET}/team/a/smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\nok"
    second = f"GET /{BUCKET}/secret.txt HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    answer = side.say((first + second).encode())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"Execution role: key: " in answer
    side.client().delete_object(**B, Key="team/a/smuggled")


def test_headers_have_a_bound(make_side: Callable[..., RoleSide]) -> None:
    side = make_side(limits=EgressLimits(header_bytes=4096))
    request = f"GET /{BUCKET}/team/a/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Amz-Meta-A: {'x' * 100_000}\r\n\r\n"
    assert re_status(side.say(request.encode())) in {400, 431}


def test_what_a_session_may_send_and_receive_is_bounded(make_side: Callable[..., RoleSide], owner: Any) -> None:
    side = make_side(limits=EgressLimits(sent_bytes=100_000, received_bytes=300_000))
    s3 = side.client()
    s3.put_object(**INSIDE, Body=b"x" * 50_000)
    with pytest.raises(ClientError, match="sent_bytes"):
        s3.put_object(**INSIDE, Body=b"y" * 90_000)
    assert owner.get_object(**INSIDE)["Body"].read() == b"x" * 50_000
    side = make_side(limits=EgressLimits(received_bytes=60_000))
    s3 = side.client()
    assert len(s3.get_object(**INSIDE)["Body"].read()) == 50_000
    with pytest.raises(Exception, match=r"received_bytes|IncompleteRead|Connection"):
        s3.get_object(**INSIDE)["Body"].read()
    side = make_side(limits=EgressLimits(received_bytes=10))
    with pytest.raises(ClientError, match="Execution role: key: "):
        side.client().get_object(**AWAY)  # a refusal still reaches a client that may receive nothing more
    side = make_side(limits=EgressLimits(requests=2))
    s3 = side.client()
    s3.head_object(**INSIDE)
    s3.head_object(**INSIDE)
    with pytest.raises(ClientError, match="requests"):
        s3.get_object(**INSIDE)
    owner.delete_object(**INSIDE)


REFUSED = (
    ("ls", f"s3://{BUCKET}/team/"), ("cp", f"s3://{BUCKET}/secret.txt", "-"), ("ls",), ("ls", f"s3://{BUCKET}/"),
    ("cp", f"s3://{BUCKET}/secret.txt", f"s3://{BUCKET}/team/a/mine"), ("mb", "s3://another-bucket"),
    ("rb", f"s3://{BUCKET}"), ("rm", "--recursive", f"s3://{BUCKET}/team/ab/"),
    ("mv", f"s3://{BUCKET}/team/other.txt", f"s3://{BUCKET}/team/a/mine"),
)  # fmt: skip


# Each call takes a core-second, most of it to import the command; what it sends is refused above, by boto3.
@pytest.mark.parametrize("calls", [REFUSED[:2], pytest.param(REFUSED[2:], marks=pytest.mark.long)], ids=["few", "rest"])
def test_the_command_line_is_refused_too(aws: CommandLine, outside: object, calls: Sequence[tuple[str, ...]]) -> None:
    for arguments in calls:
        said = aws("s3", *arguments, ok=False)
        assert "403" in said or "AccessDenied" in said


def test_the_end_of_a_session_ends_its_connections(side: RoleSide) -> None:
    s3 = side.client()
    s3.put_object(**INSIDE, Body=b"x" * 5_000_000)
    body = s3.get_object(**INSIDE)["Body"]
    body.read(10)
    s3.delete_object(**INSIDE)
    side.close_egress()
    assert side.egress.usage.connections_open == 0
    with pytest.raises(Exception, match=r"Connection|Could not|closed|IncompleteRead|Read"):
        body.read()
    with pytest.raises(Exception, match=r"Connection|Could not|closed"):
        side.client().get_object(**INSIDE)
