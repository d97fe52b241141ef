"""Signatures: AWS's own way of making them as the oracle, the vectors of the reference, and every way to be wrong."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from kernel_gateway.identity.sigv4 import (
    EMPTY_BODY,
    SKEW_SECONDS,
    UNSIGNED_PAYLOAD,
    SignatureProblem,
    SignedRequest,
    parse_parameters,
    read_claim,
    require_timely,
    verify,
)
from kernel_gateway.identity.sigv4.canonical import make_canonical_path, make_canonical_query, make_canonical_request
from tests.unit.kernel_gateway.identity.signing import HOST, KEY, NOW, SECRET, Made, signed, some_requests

AT = NOW.timestamp()
DAY = 86_400
SESSION = "x-amzn-code-interpreter-session-id"
INVOKE = Made(
    headers=[
        ("Content-Type", "application/json"),
        ("X-Amzn-Code-Interpreter-Session-Id", "01K1PPWYE373Z99SS2A8ABW0TX"),
    ],
    body=b'{"name": "executeCode", "arguments": {"code": "print(1)", "language": "python"}}',
)


def check(request: SignedRequest, made: Made = INVOKE, *, now: float = AT, body: str = "") -> None:
    """As a face does it: the claimed key's secret is looked up, and every key has another one."""
    claim = read_claim(request)
    secret = SECRET if claim.access_key_id == KEY else "the secret of another key"
    verify(request, claim, secret, body or made.body_hash, now)


def refused(request: SignedRequest, made: Made = INVOKE, *, now: float = AT, body: str = "") -> SignatureProblem:
    with pytest.raises(SignatureProblem) as caught:
        check(request, made, now=now, body=body)
    assert caught.value.message
    return caught.value


def with_headers(request: SignedRequest, *more: tuple[str, str], without: str = "") -> SignedRequest:
    kept = [(name, value) for name, value in request.headers if name.lower() != without]
    return replace(request, headers=(*kept, *more))


def authorized(request: SignedRequest, old: str, new: str) -> SignedRequest:
    """The same request with another text in its Authorization header."""
    (authorization,) = request.values("authorization")
    assert old in authorization
    return with_headers(request, ("Authorization", authorization.replace(old, new, 1)), without="authorization")


VECTORS = [
    (
        SignedRequest(
            "POST",
            "/code-interpreters/aws.codeinterpreter.v1/tools/invoke",
            "",
            (
                ("Host", HOST),
                ("Content-Type", "application/json"),
                ("X-Amz-Date", "20260102T030405Z"),
                ("x-amzn-code-interpreter-session-id", "01K1PPWYE373Z99SS2A8ABW0TX"),
                (
                    "Authorization",
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-west-2/bedrock-agentcore/aws4_request, "
                    "SignedHeaders=content-type;host;x-amz-date;x-amzn-code-interpreter-session-id, "
                    "Signature=276d3750f5d548b5c73bc8735be796c0c6e80a738b647be1e3e16cf93b3f1755",
                ),
            ),
        ),
        INVOKE.body,
        "4d9cc19d2f44a527ad7a3e123d9e0eab6bea0073a85bc4ed82e85c9e5b51a67e",
    ),
    (
        SignedRequest(
            "DELETE",
            "/tags/arn%3Aaws%3Abedrock-agentcore%3Aus-west-2%3A123456789012%3Acode-interpreter-custom%2Fmy_ci-AAAAAAAAAA",
            "tagKeys=b%20c&tagKeys=a",
            (
                ("Host", HOST),
                ("X-Amz-Date", "20260102T030405Z"),
                (
                    "Authorization",
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-west-2/bedrock-agentcore/aws4_request, "
                    "SignedHeaders=host;x-amz-date, "
                    "Signature=3e159749131f650f4ffc499b6d25d62c936c5a979b60a72c5a339e61f76907a0",
                ),
            ),
        ),
        b"",
        "940e3d3000968d93ea17d511d9e7b2d5af1795825a5d66b2024b5bbbf4179c32",
    ),
]


@pytest.mark.parametrize(("request_", "body", "canonical_hash"), VECTORS)
def test_the_vectors_of_the_reference(request_: SignedRequest, body: bytes, canonical_hash: str) -> None:
    claim, body_hash = read_claim(request_), hashlib.sha256(body).hexdigest()
    text = make_canonical_request(request_, claim.signed_headers, body_hash)
    assert hashlib.sha256(text.encode()).hexdigest() == canonical_hash
    verify(request_, claim, SECRET, body_hash, AT)
    assert (claim.access_key_id, claim.region, claim.service) == (KEY, "us-west-2", "bedrock-agentcore")
    assert not claim.presigned


@pytest.mark.parametrize("seed", range(6))
def test_what_botocore_signs_is_right_and_any_other_secret_is_wrong(seed: int) -> None:
    for made in some_requests(seed, 100):
        for request, body in ((signed(made), made.body_hash), (signed(made, expires=60), EMPTY_BODY)):
            claim = read_claim(request)
            verify(request, claim, SECRET, body, AT)
            with pytest.raises(SignatureProblem, match="does not match"):
                verify(request, claim, SECRET + "x", body, AT)


@pytest.mark.parametrize("presigned", [False, True])
def test_with_any_byte_changed_it_fails(*, presigned: bool) -> None:
    rng = random.Random(7)
    for made in some_requests(11, 100):
        request = signed(made, expires=60) if presigned else signed(made)
        body = EMPTY_BODY if presigned else made.body_hash
        check(request, body=body)
        covered = read_claim(request).signed_headers
        for _ in range(25):
            changed, changed_body = _changed(rng, request, body, covered)
            if _means(changed, changed_body, covered) != _means(request, body, covered):
                refused(changed, body=changed_body)


def _changed(
    rng: random.Random, request: SignedRequest, body: str, covered: tuple[str, ...]
) -> tuple[SignedRequest, str]:
    """The request with one byte of it another one."""
    places = [number for number, (name, _) in enumerate(request.headers) if name.lower() in {*covered, "authorization"}]
    part = rng.choice(["method", "raw_path", "raw_query", "header", "header", "header", "body"])
    if part == "body":
        return request, _flipped(rng, body)
    if part == "header":
        place = rng.choice(places)
        name, value = request.headers[place]
        headers = list(request.headers)
        headers[place] = (name, _flipped(rng, value)) if rng.random() < 0.8 else (_flipped(rng, name), value)
        return replace(request, headers=tuple(headers)), body
    return replace(request, **{part: _flipped(rng, getattr(request, part))}), body


def _flipped(rng: random.Random, text: str) -> str:
    if not text:
        return "x"
    place = rng.randrange(len(text))
    other = rng.choice([chr(code) for code in range(33, 127) if chr(code) != text[place]])
    return text[:place] + other + text[place + 1 :]


def _means(request: SignedRequest, body: str, covered: tuple[str, ...]) -> tuple[object, ...]:
    """What the request says, apart from how it is spelled: nothing else may stay the same under a changed byte."""
    path, query = make_canonical_path(request.raw_path), make_canonical_query(request.raw_query)
    signature = [value for name, value in parse_parameters(request.raw_query) if name == b"X-Amz-Signature"]
    names = (*covered, "authorization")
    headers = [[value.replace(",", " ").split() for value in request.values(name)] for name in names]
    return request.method, path, query, signature, headers, body


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("", "/"),
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("//a///b", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/../..", "/"),
        ("/../../a", "/a"),
        ("/arn%3Aaws%2Fx", "/arn%253Aaws%252Fx"),
        ("/a~b-c._d", "/a~b-c._d"),
        ("/a:b@c", "/a%3Ab%40c"),
        ("/%2e%2e/a", "/%252e%252e/a"),
        ("/\xe9", "/%E9"),
        ("/prefix/code-interpreters", "/prefix/code-interpreters"),
    ],
)
def test_paths_are_encoded_twice(raw: str, canonical: str) -> None:
    assert make_canonical_path(raw) == canonical


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("", ""),
        ("b=2&a=1", "a=1&b=2"),
        ("tagKeys=b&tagKeys=a&tagKeys=b", "tagKeys=a&tagKeys=b&tagKeys=b"),
        ("a", "a="),
        ("a=", "a="),
        ("a=b=c", "a=b%3Dc"),
        ("a=%7e%2d&b=~-", "a=~-&b=~-"),
        ("a=b+c", "a=b%2Bc"),
        ("a=b%20c", "a=b%20c"),
        ("a=/%2f", "a=%2F%2F"),
        ("a=%zz%", "a=%25zz%25"),
        ("a=1&&b=2", "=&a=1&b=2"),
        ("a=%C3%A9&a=\xc3\xa9", "a=%C3%A9&a=%C3%A9"),
        ("a-b=1&a=1", "a=1&a-b=1"),
        ("X-Amz-Signature=00&x-amz-signature=1", "x-amz-signature=1"),
    ],
)
def test_queries_are_sorted_and_spelled_one_way(raw: str, canonical: str) -> None:
    assert make_canonical_query(raw) == canonical


def test_a_query_is_read_as_it_was_signed() -> None:
    assert parse_parameters("a=b+c%20d&a=&b") == [(b"a", b"b+c d"), (b"a", b""), (b"b", b"")]


def test_a_path_prefix_is_part_of_what_is_signed() -> None:
    made = replace(INVOKE, path="/prefix/code-interpreters/arn%3Aaws%3Ax%2Fy/tools/invoke")
    request = signed(made)
    check(request, made)
    refused(replace(request, raw_path=request.raw_path.removeprefix("/prefix")), made)


def test_blanks_around_and_within_signed_values_do_not_count() -> None:
    made = replace(INVOKE, headers=[*INVOKE.headers, ("X-Note", "a  b\tc"), ("X-Note", " d ")])
    request = signed(made)
    check(with_headers(request, ("X-Note", "  a b  c "), ("x-note", "d"), without="x-note"), made)
    check(with_headers(request, ("X-Note", "a b c,d"), without="x-note"), made)
    refused(with_headers(request, ("X-Note", "d"), ("X-Note", "a b c"), without="x-note"), made)


def test_the_declared_hash_must_be_the_bodys() -> None:
    declared = replace(INVOKE, headers=[*INVOKE.headers, ("X-Amz-Content-Sha256", INVOKE.body_hash)])
    check(signed(declared), declared)
    assert "not the SHA-256" in refused(signed(declared), body=EMPTY_BODY).message
    left_open = replace(INVOKE, headers=[*INVOKE.headers, ("X-Amz-Content-Sha256", UNSIGNED_PAYLOAD)])
    check(signed(left_open), body=EMPTY_BODY)
    streaming = replace(
        INVOKE, headers=[*INVOKE.headers, ("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")]
    )
    assert "not the SHA-256" in refused(signed(streaming)).message


def test_nobody_can_declare_the_body_open_afterwards() -> None:
    request = with_headers(signed(INVOKE), ("X-Amz-Content-Sha256", UNSIGNED_PAYLOAD))
    assert refused(request, body=EMPTY_BODY).code == "IncompleteSignatureException"
    request = authorized(request, "x-amz-date", "x-amz-content-sha256;x-amz-date")
    assert refused(request, body=EMPTY_BODY).code == "InvalidSignatureException"


@pytest.mark.parametrize("away", [-SKEW_SECONDS, -1, 0, 1, SKEW_SECONDS])
def test_clocks_may_differ_by_five_minutes(away: int) -> None:
    check(signed(INVOKE), now=AT + away)


@pytest.mark.parametrize(
    ("away", "says"),
    [
        (SKEW_SECONDS + 1, "Signature expired"),
        (DAY, "Signature expired"),
        (-SKEW_SECONDS - 1, "Signature not yet current"),
        (-400 * DAY, "Signature not yet current"),
    ],
)
def test_a_replay_and_a_clock_that_is_wrong_are_refused_before_the_body_is_read(away: int, says: str) -> None:
    request = signed(INVOKE)
    problem = refused(request, now=AT + away)
    assert (problem.code, problem.status) == ("InvalidSignatureException", 403)
    assert says in problem.message
    with pytest.raises(SignatureProblem, match=says):
        require_timely(read_claim(request), AT + away)


def test_a_presigned_url_counts_until_it_expires() -> None:
    made = replace(INVOKE, method="GET", query=[("sessionId", "a b/c")], headers=[], body=b"")
    request = signed(made, expires=3_600)
    assert read_claim(request).presigned
    for now in (AT - SKEW_SECONDS, AT, AT + 3_600):
        check(request, made, now=now)
    assert "expired" in refused(request, made, now=AT + 3_601).message
    assert "not yet" in refused(request, made, now=AT - SKEW_SECONDS - 1).message
    check(signed(made, expires=7 * DAY), made, now=AT + 7 * DAY)


@pytest.mark.parametrize("expires", [0, -1, 7 * DAY + 1, 10**12])
def test_a_presigned_url_lasts_seven_days_at_most(expires: int) -> None:
    problem = refused(signed(INVOKE, expires=expires), body=EMPTY_BODY)
    assert (problem.code, problem.status) == ("IncompleteSignatureException", 400)
    assert "604,800" in problem.message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("X-Amz-Expires=60", "X-Amz-Expires=1e2", "X-Amz-Expires"),
        ("X-Amz-Expires=60", "X-Amz-Expires=%D9%A1", "X-Amz-Expires"),
        ("X-Amz-Expires=60", "X-Amz-Expires=60&X-Amz-Expires=600", "more than once"),
        ("X-Amz-Expires=60", "", "X-Amz-Expires is missing"),
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=AWS4-HMAC-SHA1", "X-Amz-Algorithm"),
        ("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=", "SignedHeaders"),
        ("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=x-note", "host must be among"),
        ("X-Amz-Date=20260102T030405Z", "X-Amz-Date=20260102T030465Z", "X-Amz-Date"),
        ("X-Amz-Signature=", "X-Amz-Signature=0&X-Amz-Signature=", "more than once"),
        ("X-Amz-Signature=", "X-Amz-Nonsense=", "X-Amz-Signature is missing"),
    ],
)
def test_presigned_nonsense(old: str, new: str, says: str) -> None:
    request = signed(replace(INVOKE, headers=[]), expires=60)
    assert old in request.raw_query
    problem = refused(replace(request, raw_query=request.raw_query.replace(old, new)), body=EMPTY_BODY)
    assert says in problem.message


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "IncompleteSignatureException", "AWS4-HMAC-SHA256"),
        ("AWS4-HMAC-SHA256", "Bearer", "MissingAuthenticationTokenException", "AWS4-HMAC-SHA256"),
        ("/20260102/", "/20260103/", "InvalidSignatureException", "date"),
        ("/aws4_request", "/aws3_request", "IncompleteSignatureException", "credential"),
        ("AKIDEXAMPLE/", "AKID/EXAMPLE/", "IncompleteSignatureException", "credential"),
        ("AKIDEXAMPLE/", "/", "IncompleteSignatureException", "credential"),
        ("AKIDEXAMPLE/", "K" * 129 + "/", "IncompleteSignatureException", "credential"),
        ("/us-west-2/", "/US-WEST-2/", "IncompleteSignatureException", "credential"),
        ("/us-west-2/", "/eu-west-2/", "InvalidSignatureException", "does not match"),
        ("/bedrock-agentcore/", "/s3/", "InvalidSignatureException", "'bedrock-agentcore'"),
        ("SignedHeaders=", "Signed=", "IncompleteSignatureException", "SignedHeaders"),
        (";host;", ";", "IncompleteSignatureException", "host must be among"),
        (";host;", ";Host;", "IncompleteSignatureException", "lower case"),
        (";host;", ";host;host;", "IncompleteSignatureException", "each once"),
        (";host;", ";host;;", "IncompleteSignatureException", "SignedHeaders"),
        (";host;", ";host;x-absent;", "IncompleteSignatureException", "x-absent is signed and not there"),
        (";x-amz-date", "", "IncompleteSignatureException", "x-amz-date must be among"),
        (f";{SESSION}", "", "IncompleteSignatureException", f"{SESSION} must be among"),
        ("Signature=", "Signature=00", "IncompleteSignatureException", "64 hexadecimal"),
        (", Signature=", ", Signature=é", "IncompleteSignatureException", "64 hexadecimal"),
        ("Credential=", "Credential=a, Credential=", "IncompleteSignatureException", "Authorization header must be"),
        (", Signature=", " Signature=", "IncompleteSignatureException", "Authorization header must be"),
        (", Signature=", ", More=1, Signature=", "IncompleteSignatureException", "Authorization header must be"),
        (", Signature=", ', Signature="', "IncompleteSignatureException", "Authorization header must be"),
        (", Signature=", f", {'x' * 9_000}, Signature=", "IncompleteSignatureException", "longer than"),
        (";host;", ";host;" + "".join(f"x-{n};" for n in range(100)), "IncompleteSignatureException", "up to 100"),
    ],
)
def test_authorization_nonsense(old: str, new: str, code: str, says: str) -> None:
    problem = refused(authorized(signed(INVOKE), old, new))
    assert (problem.code, problem.status) == (code, 400 if code.startswith("Incomplete") else 403)
    assert says in problem.message


def test_the_parts_of_an_authorization_stand_in_any_order_and_spacing() -> None:
    request = signed(INVOKE)
    (authorization,) = request.values("authorization")
    scheme, _, rest = authorization.partition(" ")
    parts = rest.split(", ")
    quoted = [part.replace("=", '="', 1) + '"' for part in parts]
    lists = [",".join(parts), " ,\t".join(parts), ", ".join(reversed(parts)), f", {parts[2]},,{parts[0]} , {parts[1]},"]
    lists += [", ".join(quoted), ", ".join(part.replace("=", " = ", 1) for part in parts)]
    for each in lists:
        for blanks in (" ", " \t "):
            other = ("Authorization", f"{scheme}{blanks}{each}")
            check(with_headers(request, other, without="authorization"))


@pytest.mark.parametrize(
    "stamp",
    [
        *(
            "",
            "0",
            "2026-01-02T03:04:05Z",
            "20260102T030405",
            "20260102T030405z",
            "20260102T0304055Z",
            "20261302T030405Z",
        ),
        *("20260230T030405Z", "20260102T240000Z", "20260102T036000Z", "20260102T030460Z", "00000102T030405Z"),
        *(
            "Fri, 02 Jan 2026 03:04:05 GMT",
            "\uff12\uff10\uff12\uff16\uff10\uff11\uff10\uff12T030405Z",
            "20260102T030405Z,20260102T030405Z",
        ),
    ],
)
def test_dates_that_do_not_parse(stamp: str) -> None:
    request = with_headers(signed(INVOKE), ("X-Amz-Date", stamp), without="x-amz-date")
    day = stamp[:8]
    if len(day) == 8 and day.isascii() and day.isdigit():
        request = authorized(request, "/20260102/", f"/{day}/")
        assert refused(request).code == "IncompleteSignatureException"
    else:
        assert refused(request).code in ("IncompleteSignatureException", "InvalidSignatureException")


def test_nothing_signed_and_too_much_signed() -> None:
    request = signed(INVOKE)
    bare = with_headers(request, without="authorization")
    problem = refused(bare)
    assert (problem.code, problem.status) == ("MissingAuthenticationTokenException", 403)
    twice = with_headers(request, ("authorization", request.values("authorization")[0]))
    assert "more than once" in refused(twice).message
    smuggled = with_headers(request, ("AUTHORIZATION", "Bearer x"))
    assert "more than once" in refused(smuggled).message
    presigned = signed(replace(INVOKE, headers=[]), expires=60)
    both = replace(request, raw_query=presigned.raw_query)
    assert "sign it once" in refused(both).message
    assert "sign it once" in refused(replace(request, raw_query="X-Amz-Signature=00")).message
    undated = with_headers(request, without="x-amz-date")
    assert "X-Amz-Date header is missing" in refused(undated).message


@pytest.mark.parametrize("name", ["Host", "X-Amz-Date", "Content-Type", SESSION, "x-amz-content-sha256"])
def test_what_counts_once_is_not_taken_twice(name: str) -> None:
    made = replace(INVOKE, headers=[*INVOKE.headers, ("X-Amz-Content-Sha256", INVOKE.body_hash)])
    request = signed(made)
    again = with_headers(request, (name.upper(), request.values(name.lower())[0]))
    assert "more than once" in refused(again, made).message


def test_very_many_parameters_are_refused_unread() -> None:
    made = replace(INVOKE, query=[("tagKeys", str(number)) for number in range(500)])
    check(signed(made), made)
    request = replace(signed(made), raw_query="&" * 60_000)
    assert "more than 500 parameters" in refused(request, made).message


def test_a_session_that_is_named_afterwards_is_refused() -> None:
    made = replace(INVOKE, headers=[])
    request = with_headers(signed(made), ("X-Amzn-Code-Interpreter-Session-Id", "another"))
    assert f"{SESSION} must be among" in refused(request, made).message
    request = with_headers(signed(made), ("X-Sandcell-Anything", "1"))
    assert "x-sandcell-anything must be among" in refused(request, made).message
    request = with_headers(signed(made), ("X-Sandcell-" + "a" * 60_000, "1"))
    assert len(refused(request, made).message) < 300


def test_session_tokens_are_refused_with_what_to_do() -> None:
    for request in (signed(INVOKE, token="t"), signed(INVOKE, token="t", expires=60)):
        problem = refused(request)
        assert (problem.code, problem.status) == ("UnrecognizedClientException", 403)
        assert "AWS_SESSION_TOKEN" in problem.message
    unsigned = with_headers(signed(INVOKE), ("X-Amz-Security-Token", "t"))
    assert refused(unsigned).code == "UnrecognizedClientException"


def test_a_request_signed_a_second_later_has_another_signature() -> None:
    first, second = signed(INVOKE), signed(INVOKE, at=NOW + timedelta(seconds=1))
    assert read_claim(first).signature != read_claim(second).signature
    mixed = with_headers(first, *((n, v) for n, v in second.headers if n == "X-Amz-Date"), without="x-amz-date")
    refused(mixed)


def test_neither_secrets_nor_signatures_show() -> None:
    request = signed(INVOKE)
    claim = read_claim(request)
    assert claim.signature not in repr(claim) + repr(request)
    with pytest.raises(SignatureProblem) as caught:
        verify(request, claim, "another-secret-key", INVOKE.body_hash, AT)
    assert "another-secret-key" not in str(caught.value)
    assert claim.signature not in str(caught.value)
