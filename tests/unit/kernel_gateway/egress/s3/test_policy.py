"""What a role allows and what it refuses, with the word of the rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernel_gateway.egress.s3.headers import PLACEHOLDER_KEY_ID
from kernel_gateway.egress.s3.operations import OPERATIONS
from kernel_gateway.egress.s3.policy import Allowed, decide
from kernel_gateway.egress.s3.refusal import WORDS, Refused
from kernel_gateway.egress.s3.scope import RoleUnusable, Scope
from kernels.environment import ExecutionRole
from kernels.guest.options import parse_options

SCOPE = Scope("bucket", "team/a/", write=True, region="eu-west-1")
READING = Scope("bucket", "team/a/", write=False, region="eu-west-1")
HOST = ("host", "127.0.0.1:3129")
SIGNED = ("authorization", f"AWS4-HMAC-SHA256 Credential={PLACEHOLDER_KEY_ID}/20261121/x/s3/aws4_request, Signature=0")
INSIDE = "/bucket/team/a/key"


def ask(
    method: str, target: str, scope: Scope = SCOPE, *, host: str = HOST[1], headers: Mapping[str, str] | None = None
) -> Allowed:
    return decide(method, target, [("host", host), SIGNED, *(headers or {}).items()], scope)


def refusal(
    method: str, target: str, scope: Scope = SCOPE, *, host: str = HOST[1], headers: Mapping[str, str] | None = None
) -> str:
    with pytest.raises(Refused) as caught:
        ask(method, target, scope, host=host, headers=headers)
    assert caught.value.word in WORDS
    assert re.fullmatch(r"[^.]+[^ .].*", str(caught.value))
    return caught.value.word


ALLOWED = {
    ("GET", INSIDE): "GetObject",
    ("GET", f"{INSIDE}?partNumber=1"): "GetObject",
    ("GET", f"{INSIDE}?x-id=GetObject"): "GetObject",
    ("HEAD", INSIDE): "HeadObject",
    ("GET", "/bucket?list-type=2&prefix=team%2Fa%2F&delimiter=%2F&encoding-type=url"): "ListObjectsV2",
    (
        "GET",
        "/bucket/?list-type=2&prefix=team/a/sub&max-keys=5&continuation-token=abc%3D&start-after=x",
    ): "ListObjectsV2",
    ("GET", "/bucket?prefix=team/a/&marker=team/a/k"): "ListObjects",
    ("HEAD", "/bucket"): "HeadBucket",
    ("GET", "/bucket?location"): "GetBucketLocation",
    ("PUT", INSIDE): "PutObject",
    ("PUT", "/bucket/team/a/"): "PutObject",
    ("PUT", f"{INSIDE}?partNumber=2&uploadId=abc"): "UploadPart",
    ("POST", f"{INSIDE}?uploads"): "CreateMultipartUpload",
    ("POST", f"{INSIDE}?uploadId=abc"): "CompleteMultipartUpload",
    ("GET", f"{INSIDE}?uploadId=abc&max-parts=10"): "ListParts",
    ("GET", "/bucket?uploads&prefix=team/a/"): "ListMultipartUploads",
    ("DELETE", INSIDE): "DeleteObject",
    ("DELETE", f"{INSIDE}?uploadId=abc"): "AbortMultipartUpload",
    ("POST", "/bucket?delete"): "DeleteObjects",
}
READS = {"GetObject", "HeadObject", "ListObjectsV2", "ListObjects", "HeadBucket", "GetBucketLocation"}


@pytest.mark.parametrize(("method", "target"), ALLOWED)
def test_what_a_role_that_writes_allows(method: str, target: str) -> None:
    name = ALLOWED[method, target]
    sent = {"content-length": "5"} if name in {"PutObject", "UploadPart", "DeleteObjects"} else {"content-length": "0"}
    found = ask(method, target, headers=sent)
    assert (found.operation.name, found.bucket) == (name, "bucket")
    if name in READS:
        assert ask(method, target, READING).operation.name == name
    else:
        assert refusal(method, target, READING, headers=sent) == "read-only"


def test_copies_name_their_source_in_one_way() -> None:
    for raw in ("bucket/team/a/from%20x", "/bucket/team/a/from%20x", "bucket/team/a/from x".replace(" ", "%20")):
        for target, name in ((INSIDE, "CopyObject"), (f"{INSIDE}?partNumber=1&uploadId=u", "UploadPartCopy")):
            found = ask("PUT", target, headers={"x-amz-copy-source": raw, "content-length": "0"})
            assert found.operation.name == name
            assert dict(found.headers)["x-amz-copy-source"] == "/bucket/team/a/from%20x"


def test_all_operations_are_covered_here() -> None:
    assert {one.name for one in OPERATIONS} == {*ALLOWED.values(), "CopyObject", "UploadPartCopy"}
    assert {one.name for one in OPERATIONS if not one.write} == READS


@pytest.mark.parametrize(
    ("word", "method", "target"),
    [
        ("bucket", "GET", "/"),
        ("bucket", "GET", "/other/team/a/key"),
        ("bucket", "PUT", "/new-bucket"),
        ("bucket", "GET", "/bucket%2Fteam/a/key"),
        ("bucket", "GET", "//bucket/team/a/key"),
        ("bucket", "GET", "/Bucket/team/a/key"),
        ("target", "GET", "http://127.0.0.1:3129/bucket/team/a/key"),
        ("target", "OPTIONS", "*"),
        ("target", "GET", "/bucket/team/a/key#x"),
        ("key", "GET", "/bucket/team/other"),
        ("key", "GET", "/bucket/team/a"),
        ("key", "GET", "/bucket/team/ab/key"),
        ("key", "GET", "/bucket/team/a/../ab/key"),
        ("key", "GET", "/bucket/team/a/%2e%2e/ab/key"),
        ("key", "GET", "/bucket/team/a/%2E./ab/key"),
        ("key", "GET", "/bucket/team/a/..%2fab/key"),
        ("key", "GET", "/bucket/team/a/%252e%252e/ab"),
        ("key", "GET", "/bucket/team/a/%25252e%25252e/ab"),
        ("key", "GET", "/bucket/team/a/%252e%252e%252fab"),
        ("key", "GET", "/bucket/team/a/..%5cab"),
        ("key", "GET", "/bucket/team/a/x%5cy"),
        ("key", "GET", "/bucket/team/a/x%00.txt"),
        ("key", "GET", "/bucket/team/a/x%250a"),
        ("key", "GET", "/bucket/team/a/x%0d%0ay"),
        ("key", "GET", "/bucket/team/a//x"),
        ("key", "GET", "/bucket//team/a/x"),
        ("key", "GET", "/bucket/team/a/./x"),
        ("key", "GET", "/bucket/team/a/.."),
        ("key", "GET", "/bucket/team/a/%c0%ae%c0%ae/x"),
        ("key", "GET", "/bucket/team/a/%ff"),
        ("key", "GET", "/bucket/team/a/%zz"),
        ("key", "GET", "/bucket/team/a/%"),
        ("key", "GET", "/bucket/team/a/" + "x" * 1024),
        ("key", "DELETE", "/bucket/team/ab"),
        ("key", "PUT", "/bucket/secret.txt"),
        ("prefix", "GET", "/bucket"),
        ("prefix", "GET", "/bucket?list-type=2"),
        ("prefix", "GET", "/bucket?list-type=2&prefix="),
        ("prefix", "GET", "/bucket?list-type=2&prefix=team/"),
        ("prefix", "GET", "/bucket?list-type=2&prefix=team/a"),
        ("prefix", "GET", "/bucket?list-type=2&prefix=team/ab/"),
        ("prefix", "GET", "/bucket?list-type=2&prefix=/team/a/"),
        ("prefix", "GET", "/bucket?list-type=2&prefix=team/a/../"),
        ("prefix", "GET", "/bucket?list-type=2&prefix=team%2Fa%2F%2e%2e%2Fab"),
        ("prefix", "GET", "/bucket?prefix=secret&delimiter=/"),
        ("prefix", "GET", "/bucket?uploads"),
        ("query", "GET", "/bucket?list-type=2&prefix=team/a/&prefix="),
        ("query", "GET", "/bucket?list-type=1&prefix=team/a/"),
        ("query", "GET", "/bucket?list-type=2&prefix=team/a/&max-keys=all"),
        ("query", "GET", "/bucket?list-type=2&prefix=team/a/&encoding-type=xml"),
        ("query", "GET", "/bucket?prefix=%zz"),
        ("query", "GET", "/bucket?" + "&".join(f"p{n}=1" for n in range(17))),
        ("query", "PUT", f"{INSIDE}?partNumber=1&uploadId=%0a"),
        ("operation", "GET", "/bucket?Prefix=team/a/"),
        ("operation", "GET", "/bucket?list-type=2&prefix=team/a/&fetch-owner=true"),
        ("operation", "GET", "/bucket?versions&prefix=team/a/"),
        ("operation", "DELETE", "/bucket"),
        ("operation", "PUT", "/bucket"),
        ("operation", "POST", "/bucket"),
        ("operation", "POST", INSIDE),
        ("operation", "POST", f"{INSIDE}?select&select-type=2"),
        ("operation", "POST", f"{INSIDE}?restore"),
        ("operation", "PATCH", INSIDE),
        ("operation", "CONNECT", INSIDE),
        *(
            ("operation", method, f"{where}?{name}")
            for method in ("GET", "PUT", "DELETE")
            for where, names in (
                ("/bucket", ("acl", "policy", "versioning", "website", "notification", "lifecycle", "cors", "logging",
                             "encryption", "replication", "publicAccessBlock", "ownershipControls", "accelerate",
                             "requestPayment", "tagging", "object-lock", "inventory", "analytics", "metrics",
                             "intelligent-tiering", "policyStatus", "session")),
                (INSIDE, ("acl", "tagging", "retention", "legal-hold", "torrent", "attributes")),
            )
            for name in names
        ),
        ("version", "GET", f"{INSIDE}?versionId=null"),
        ("version", "DELETE", f"{INSIDE}?versionId=1"),
        ("presigned", "GET", f"{INSIDE}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA/x&X-Amz-Signature=0"),
        ("presigned", "GET", f"{INSIDE}?x-amz-signature=0"),
        ("presigned", "GET", f"{INSIDE}?AWSAccessKeyId=AKIA&Signature=x&Expires=1"),
        ("presigned", "PUT", f"{INSIDE}?X-Amz-Security-Token=x"),
    ],
)  # fmt: skip
def test_what_is_refused_and_by_which_word(word: str, method: str, target: str) -> None:
    assert refusal(method, target, headers={"content-length": "0"}) == word


@pytest.mark.parametrize(
    ("word", "headers"),
    [
        ("session-token", {"x-amz-security-token": "x"}),
        ("authorization", {"authorization": "AWS4-HMAC-SHA256 Credential=AKIAFOREIGN/20261121/x/s3/aws4_request"}),
        ("authorization", {"authorization": "AWS AKIAFOREIGN:c2ln"}),
        ("authorization", {"authorization": "Bearer x"}),
        ("authorization", {"authorization": f"AWS4-HMAC-SHA256 Credential=X, Credential={PLACEHOLDER_KEY_ID}/x"}),
        ("header", {"x-amz-acl": "public-read"}),
        ("header", {"x-amz-grant-read": 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'}),
        ("header", {"x-amz-website-redirect-location": "/x"}),
        ("header", {"x-amz-server-side-encryption-customer-key": "x"}),
        ("header", {"x-amz-server-side-encryption": "aws:kms"}),
        ("header", {"x-amz-request-payer": "requester"}),
        ("header", {"x-amz-expected-bucket-owner": "1"}),
        ("header", {"x-amz-tagging": "a=b"}),
        ("header", {"x-amz-storage-class": "GLACIER"}),
        ("header", {"x-amz-object-lock-mode": "COMPLIANCE"}),
        ("header", {"x-amz-bypass-governance-retention": "true"}),
        ("header", {"x-amz-mfa": "1"}),
        ("header", {"x-amz-write-offset-bytes": "1"}),
        ("header", {"x-amz-meta-": "x"}),
        ("header", {"x-amz-meta-colour": "bl\xfc"}),
        ("header", {"cookie": "a=b"}),
        ("header", {"x-forwarded-host": "other"}),
        ("header", {"upgrade": "h2c"}),
        ("header", {"expect": "200-ok"}),
        ("payload", {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}),
        ("payload", {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}),
        ("payload", {"x-amz-trailer": "x-amz-checksum-crc32"}),
        ("payload", {"content-encoding": "gzip,aws-chunked"}),
        ("payload", {"x-amz-content-sha256": "x"}),
        ("payload", {"transfer-encoding": "chunked"}),
    ],
)  # fmt: skip
def test_headers_that_are_refused(word: str, headers: dict[str, str]) -> None:
    given = [HOST, *([] if "authorization" in headers else [SIGNED]), ("content-length", "1"), *headers.items()]
    with pytest.raises(Refused) as caught:
        decide("PUT", INSIDE, given, SCOPE)
    assert caught.value.word == word


@pytest.mark.parametrize(
    "host",
    [
        "bucket.127.0.0.1:3129",
        "bucket.s3.amazonaws.com",
        "s3.eu-west-1.amazonaws.com",
        "",
        "127.0.0.1@evil",
        "127.0.0.1:3129/x",
    ],
)
def test_buckets_in_host_names_and_foreign_hosts_are_refused(host: str) -> None:
    assert refusal("GET", INSIDE, host=host) == "host"


def test_a_header_that_is_there_twice_is_refused() -> None:
    for name in ("authorization", "range", "host", "x-amz-copy-source"):
        with pytest.raises(Refused, match="twice"):
            decide("GET", INSIDE, [HOST, SIGNED, (name, "a"), (name, "b")], SCOPE)


def test_bodies_are_where_they_belong() -> None:
    assert refusal("PUT", INSIDE) == "payload"
    assert refusal("GET", INSIDE, headers={"content-length": "5"}) == "payload"
    assert refusal("DELETE", INSIDE, headers={"content-length": "5"}) == "payload"
    assert refusal("PUT", INSIDE, headers={"x-amz-copy-source": "bucket/team/a/x", "content-length": "5"}) == "payload"


@pytest.mark.parametrize(
    "source",
    [
        "bucket/secret.txt", "bucket/team/ab/x", "bucket/team/a", "bucket/team/a/../ab/x", "bucket/team/a/%2e%2e/ab/x",
        "bucket%2Fteam%2Fa%2Fx", "bucket/team%2Fa%2Fx", "bucket/team/a/%252e%252e%252fx", "other/team/a/x",
        "//bucket/team/a/x", "/other/team/a/x", "bucket", "/bucket/", "", "/", "bucket/team/a/x?versionId=1",
        "bucket/team/a/x%3FversionId=1/../../y", "arn:aws:s3:eu-west-1:111122223333:accesspoint/ap/object/team/a/x",
        "arn:aws:s3-outposts:eu-west-1:1:outpost/o/object/x", "bucket/team/a/a+b", "bucket/team/a/\\x",
        "bucket/team/a/x%00", "http://bucket/team/a/x", " bucket/team/a/x",
    ],
)  # fmt: skip
def test_copies_from_elsewhere_are_refused(source: str) -> None:
    assert refusal("PUT", INSIDE, headers={"x-amz-copy-source": source, "content-length": "0"}) == "copy-source"


def test_a_copy_source_belongs_to_a_copy() -> None:
    for method, target in (("GET", INSIDE), ("DELETE", INSIDE), ("POST", f"{INSIDE}?uploads"), ("HEAD", INSIDE)):
        assert refusal(method, target, headers={"x-amz-copy-source": "bucket/team/a/x"}) == "operation"


def test_what_is_forwarded_is_written_anew_and_holds_no_signature() -> None:
    given = {"x-amz-meta-a": "b", "content-type": "text/x", "user-agent": "x", "x-amz-date": "20261121T000000Z"}
    found = ask("PUT", "/bucket/team/a/a%62c%20%2B+%C3%BC?x-id=PutObject", headers={**given, "content-length": "7"})
    assert found.path == "/bucket/team/a/abc%20%2B%2B%C3%BC"
    assert (found.query_string, found.length) == ("", 7)
    assert dict(found.headers) == {"x-amz-meta-a": "b", "content-type": "text/x"}
    listing = ask("GET", "/bucket?prefix=team/a/%C3%BC+x&list-type=2")
    assert listing.query_string == "list-type=2&prefix=team%2Fa%2F%C3%BC%20x"


def test_requests_may_come_unsigned_for_the_loopback_is_the_sandboxs_own() -> None:
    assert decide("GET", INSIDE, [HOST], SCOPE).operation.name == "GetObject"


def test_the_placeholder_is_the_one_that_programs_find_in_their_environment() -> None:
    options = parse_options(["--role", "s3://bucket/team/a/"])
    assert options.make_environment()["AWS_ACCESS_KEY_ID"] == PLACEHOLDER_KEY_ID


@pytest.mark.parametrize(
    "role",
    [
        ExecutionRole("bucket", ""),
        ExecutionRole("bucket", "/"),
        ExecutionRole("bucket", "a/../b"),
        ExecutionRole("bucket", "a//b"),
        ExecutionRole("bucket", "%2e%2e"),
        ExecutionRole("", "a"),
        ExecutionRole("buck/et", "a"),
        ExecutionRole("a..b", "a"),
        ExecutionRole("bucket?x", "a"),
    ],
)
def test_roles_that_cannot_be_served(role: ExecutionRole) -> None:
    with pytest.raises(RoleUnusable):
        Scope.of(role)


def test_a_prefix_ends_at_a_slash_however_it_was_written() -> None:
    for prefix in ("team/a", "team/a/", "/team/a/"):
        assert Scope.of(ExecutionRole("bucket", prefix)).prefix == "team/a/"


hostile = st.text(st.sampled_from("%25ef./\\abtemCc0+?&=#\0 \n~ü") | st.characters(codec="utf-8"), max_size=40)
targets = st.one_of(
    hostile.map(lambda text: f"/bucket/team/a/{text}"),
    hostile.map(lambda text: f"/bucket/{text}"),
    hostile.map(lambda text: f"/bucket?list-type=2&prefix=team/a/{text}"),
    hostile.map(lambda text: f"/{text}"),
)


@given(st.sampled_from(("GET", "PUT", "DELETE", "HEAD", "POST")), targets)
def test_whatever_is_allowed_lies_inside_however_often_it_is_decoded(method: str, target: str) -> None:
    try:
        found = ask(method, target, headers={"content-length": "0"})
    except Refused:
        return
    if found.operation.on == "bucket":
        assume(found.operation.answer == "listing")
        paths = [value for name, value in found.query if name == "prefix"]
        assert paths
    else:
        paths = [found.path.removeprefix("/bucket/")]
    for _ in range(6):
        for path in paths:
            assert path.startswith("team/a/")
            assert not {"..", "."} & set(path.replace("\\", "/").split("/"))
            assert not re.search(r"[\0\r\n]", path)
        paths = [unquote(path) for path in paths]


@given(hostile)
def test_a_copy_source_is_inside_or_refused(text: str) -> None:
    try:
        found = ask("PUT", INSIDE, headers={"x-amz-copy-source": f"bucket/team/a/{text}", "content-length": "0"})
    except Refused:
        return
    source = dict(found.headers)["x-amz-copy-source"]
    assert source.startswith("/bucket/team/a/")
    assert ".." not in unquote(unquote(source)).split("/")


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc",), exclude_characters="\\%/"), min_size=1, max_size=60
    )
)
def test_every_plain_name_is_a_key(name: str) -> None:
    assume(name not in {".", ".."})
    found = ask("GET", f"/bucket/team/a/{quote(name, safe='')}")
    assert found.key == f"team/a/{name}"
    assert unquote(found.path) == f"/bucket/team/a/{name}"
