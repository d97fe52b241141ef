"""XML in both directions: only what is known, only what is inside, and nothing of the host's."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.egress.s3 import answers, documents
from kernel_gateway.egress.s3.documents import BadDocument
from kernel_gateway.egress.s3.refusal import Refused
from kernel_gateway.egress.s3.scope import Scope

SCOPE = Scope("bucket", "team/a/", write=True, region="eu-west-1")
XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


def objects(*keys: str) -> str:
    return "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)


def test_a_deletion_inside_is_rewritten() -> None:
    body = f"<?xml version='1.0'?><Delete {XMLNS}><Quiet>true</Quiet>{objects('team/a/x', 'team/a/y &amp; z')}</Delete>"
    assert documents.read_deletion(body.encode(), SCOPE).decode() == (
        f"<Delete {XMLNS}><Quiet>true</Quiet>{objects('team/a/x', 'team/a/y &amp; z')}</Delete>"
    )


@pytest.mark.parametrize(
    ("word", "body"),
    [
        ("key", f"<Delete>{objects('team/a/x', 'secret.txt')}</Delete>"),
        ("key", f"<Delete>{objects('team/a/x', 'team/ab/x')}</Delete>"),
        ("key", f"<Delete>{objects('team/a/../ab/x')}</Delete>"),
        ("key", f"<Delete>{objects('team/a/%2e%2e/ab/x')}</Delete>"),
        ("key", f"<Delete>{objects('')}</Delete>"),
        ("key", "<Delete><Object><Key>team/a/<b>x</b></Key></Object></Delete>"),
        ("document", "<Delete><Object><Key>team/a/x</Key><VersionId>1</VersionId></Object></Delete>"),
        ("document", "<Delete><Object><Key>team/a/x</Key><Key>secret.txt</Key></Object></Delete>"),
        ("document", "<Delete><Object/></Delete>"),
        ("document", "<Delete></Delete>"),
        ("document", f"<Delete>{objects(*(f'team/a/{n}' for n in range(1001)))}</Delete>"),
        ("document", f"<Delete><Bucket>other</Bucket>{objects('team/a/x')}</Delete>"),
        ("document", "<Other/>"),
        ("document", ""),
        ("document", "<Delete>"),
        ("document", f"{BOMB}<Delete><Object><Key>team/a/&b;</Key></Object></Delete>"),
        ("document", '<!DOCTYPE Delete SYSTEM "file:///etc/passwd"><Delete><Object><Key>team/a/x</Key></Object></Delete>'),
        ("document", "\x00"),
        ("document", "<?xml version='1.0' encoding='no-such'?><Delete/>"),
    ],
)  # fmt: skip
def test_deletions_that_are_refused(word: str, body: str) -> None:
    with pytest.raises(Refused) as caught:
        documents.read_deletion(body.encode(), SCOPE)
    assert caught.value.word == word


def test_a_deletion_in_another_encoding_is_read_as_what_it_says() -> None:
    body = f"<?xml version='1.0' encoding='utf-16'?><Delete>{objects('secret.txt')}</Delete>".encode("utf-16")
    with pytest.raises(Refused, match="outside"):
        documents.read_deletion(body, SCOPE)


def test_a_completion_is_written_anew_and_takes_nothing_else() -> None:
    part = '<Part><PartNumber>1</PartNumber><ETag>"x"</ETag><ChecksumCRC32>AAAA</ChecksumCRC32></Part>'
    written = documents.read_completion(f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode())
    assert written.decode() == f"<CompleteMultipartUpload {XMLNS}>{part}</CompleteMultipartUpload>"
    for bad in ("<Part><Key>x</Key></Part>", "<Other/>", BOMB):
        with pytest.raises(Refused):
            documents.read_completion(f"<CompleteMultipartUpload>{bad}</CompleteMultipartUpload>".encode())


@given(st.binary(max_size=200) | st.text(st.sampled_from("<>/&;!DOCTYPEletObjcKyq \"'x"), max_size=120).map(str.encode))
def test_no_body_makes_anything_but_a_refusal_or_a_document(body: bytes) -> None:
    for read in (lambda: documents.read_deletion(body, SCOPE), lambda: documents.read_completion(body)):
        try:
            fromstring(read())
        except Refused:
            continue


def test_a_listing_loses_owners_and_all_that_is_outside() -> None:
    body = f"""<?xml version="1.0"?><ListBucketResult {XMLNS}><Prefix>team/a/</Prefix>
      <Contents><Key>team/a/x</Key><Owner><ID>abc</ID><DisplayName>host</DisplayName></Owner></Contents>
      <Contents><Key>team/ab/x</Key></Contents><CommonPrefixes><Prefix>secret/</Prefix></CommonPrefixes>
      <CommonPrefixes><Prefix>team/a/sub/</Prefix></CommonPrefixes></ListBucketResult>"""
    found = fromstring(answers.clean(body.encode(), SCOPE, listing=True))
    space = "{http://s3.amazonaws.com/doc/2006-03-01/}"
    assert [one.text for one in found.iter(f"{space}Key")] == ["team/a/x"]
    assert [one.text for one in found.iter(f"{space}Prefix")] == ["team/a/", "team/a/sub/"]
    assert b"abc" not in answers.clean(body.encode(), SCOPE, listing=True)


def test_a_listing_with_encoded_keys_is_read_decoded() -> None:
    body = """<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>team%2Fa%2Fx+y</Key></Contents>
      <Contents><Key>team%2Fab</Key></Contents></ListBucketResult>"""
    found = answers.clean(body.encode(), SCOPE, listing=True)
    assert b"team%2Fa%2Fx+y" in found
    assert b"team%2Fab" not in found


def test_the_address_of_what_was_uploaded_and_who_began_it_are_left_out() -> None:
    body = "<R><Location>http://10.0.0.1:9000/bucket/team/a/x</Location><Initiator><ID>arn:aws:iam::1:user/host</ID></Initiator><ETag>e</ETag></R>"
    found = answers.clean(body.encode(), SCOPE, listing=False)
    assert b"10.0.0.1" not in found
    assert b"arn:aws" not in found
    assert b"<ETag>e</ETag>" in found


def test_an_answer_that_is_no_xml_is_not_passed_on() -> None:
    for body in (b"<html>", b"", BOMB.encode() + b"<a/>"):
        with pytest.raises(BadDocument):
            answers.clean(body, SCOPE, listing=True)


def error(code: str, message: str) -> bytes:
    told = f"<Code>{code}</Code><Message>{message}</Message><AWSAccessKeyId>AKIAREAL</AWSAccessKeyId>"
    return f"<Error>{told}</Error>".encode()


@pytest.mark.parametrize(
    ("status", "body", "told", "code"),
    [
        (404, error("NoSuchKey", "The specified key does not exist."), 404, "NoSuchKey"),
        (412, error("PreconditionFailed", "It did not hold"), 412, "PreconditionFailed"),
        (403, error("InvalidAccessKeyId", "AKIAREAL is unknown"), 403, "AccessDenied"),
        (403, error("SignatureDoesNotMatch", "AKIAREAL"), 403, "AccessDenied"),
        (403, error("AccessDenied", "User: arn:aws:iam::1:user/AKIAREAL may not"), 403, "AccessDenied"),
        (404, error("NoSuchBucket", "AKIAREAL"), 403, "AccessDenied"),
        (400, error("ExpiredToken", "AKIAREAL"), 403, "AccessDenied"),
        (301, error("PermanentRedirect", "use AKIAREAL.s3.amazonaws.com"), 403, "AccessDenied"),
        (307, b"", 403, "AccessDenied"),
        (503, error("SlowDown", "Reduce your request rate"), 503, "SlowDown"),
        (500, b"<html>AKIAREAL</html>", 500, "InternalError"),
        (418, error("Odd", "AKIAREAL"), 418, "Odd"),
        (400, error("AKIA REAL !", "AKIAREAL"), 403, "AccessDenied"),
    ],
)
def test_errors_are_rewritten(status: int, body: bytes, told: int, code: str) -> None:
    found = answers.describe_trouble(status, body)
    assert (found.status, found.code) == (told, code)
    assert b"AKIAREAL" not in found.document


def test_errors_within_a_deletion_and_within_a_success_are_rewritten() -> None:
    one = "<Error><Key>team/a/x</Key><Code>AccessDenied</Code><Message>User: arn:aws:iam::1:user/host</Message></Error>"
    found = answers.clean(f"<DeleteResult>{one}</DeleteResult>".encode(), SCOPE, listing=False)
    assert b"arn:aws" not in found
    assert b"team/a/x" in found
    late = answers.clean(error("InvalidAccessKeyId", "AKIAREAL"), SCOPE, listing=False)
    assert b"AKIAREAL" not in late
    assert b"<Error>" in late


def test_headers_pass_by_a_list() -> None:
    given = [
        (b"ETag", b"e"), (b"Server", b"AmazonS3"), (b"Location", b"http://10.0.0.1/"), (b"X-Amz-Meta-A", b"b"),
        (b"Set-Cookie", b"a"), (b"x-amz-server-side-encryption-aws-kms-key-id", b"arn:aws"),
        (b"Content-Length", b"5"), (b"x-amz-bucket-region", b"eu-west-9"), (b"Connection", b"close"),
        (b"x-amz-checksum-crc32", b"AAAA"),
    ]  # fmt: skip
    assert answers.select_headers(given, framed=True) == [
        ("etag", "e"), ("x-amz-meta-a", "b"), ("content-length", "5"), ("x-amz-checksum-crc32", "AAAA"),
    ]  # fmt: skip
    assert ("content-length", "5") not in answers.select_headers(given, framed=False)


@pytest.mark.parametrize(
    "read",
    [
        lambda: documents.read_deletion(b"<Delete>" + b"<Quiet/>" * 200_000 + b"</Delete>", SCOPE),
        lambda: documents.read_completion(
            b"<CompleteMultipartUpload><Part>" + b"<ETag/>" * 250_000 + b"</Part></CompleteMultipartUpload>"
        ),
    ],
)
def test_a_body_of_more_tags_than_any_has_is_refused_unread(read: Callable[[], bytes]) -> None:
    with pytest.raises(Refused, match="send it in parts"):
        read()


def test_the_largest_bodies_are_taken() -> None:
    whole = f"<Delete>{objects(*(f'team/a/{n}' for n in range(1000)))}<Quiet>true</Quiet></Delete>"
    assert documents.read_deletion(whole.encode(), SCOPE).count(b"<Key>") == 1000
    part = "<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC32>x</ChecksumCRC32></Part>" * 10_000
    whole = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"
    assert documents.read_completion(whole.encode()).count(b"<Part>") == 10_000


def test_no_encoding_hides_how_many_tags_there_are() -> None:
    body = f"<?xml version='1.0' encoding='cp037'?><Delete>{objects('team/a/x')}</Delete>".encode("cp037")
    assert b"<" not in body
    with pytest.raises(Refused, match="not XML"):
        documents.read_deletion(body, SCOPE)
