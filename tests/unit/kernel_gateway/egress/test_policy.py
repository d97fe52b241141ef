"""What a policy allows: before a name is looked up, and once its address is known."""

from __future__ import annotations

import posixpath
import re
from ipaddress import ip_address
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.egress.plain_path import unescape
from kernel_gateway.egress.policy import OperatorRules, covers, on_address, on_request
from kernel_gateway.egress.target import Target, parse_tunnel, parse_url
from kernels.environment import Endpoint, NetworkMode, NetworkPolicy

ALLOWLIST = NetworkPolicy(
    NetworkMode.ALLOWLIST,
    (
        Endpoint("pypi.org"),
        Endpoint("*.pythonhosted.org"),
        Endpoint("data.example", 80, methods=("GET", "HEAD"), path_prefix="/public"),
        Endpoint("data.example", 80, path_prefix="/open/"),
        Endpoint("api.example", 80, methods=("GET",)),
        Endpoint("93.184.216.34", 8080),
        Endpoint("[2606:2800::1]", 443),
    ),
)


def word(policy: NetworkPolicy, method: str, text: str) -> str:
    verdict = on_request(policy, method, parse_tunnel(text) if method == "CONNECT" else parse_url(text))
    return verdict.word


@pytest.mark.parametrize(("method", "text"), [("CONNECT", "pypi.org:443"), ("GET", "http://example.com/")])
def test_sandbox_reaches_nothing_and_public_anything(method: str, text: str) -> None:
    assert word(NetworkPolicy(), method, text) == "no_network"
    assert word(NetworkPolicy(NetworkMode.SANDBOX, ALLOWLIST.allow), method, text) == "no_network"
    assert word(NetworkPolicy(NetworkMode.PUBLIC), method, text) == "public"


@pytest.mark.parametrize(
    ("method", "text", "expected"),
    [
        ("CONNECT", "pypi.org:443", "declared"),
        ("CONNECT", "PyPI.org.:443", "declared"),
        ("CONNECT", "pypi.org:80", "not_declared"),
        ("CONNECT", "pypi.org.evil.example:443", "not_declared"),
        ("CONNECT", "evil-pypi.org:443", "not_declared"),
        ("CONNECT", "sub.pypi.org:443", "not_declared"),
        ("GET", "http://pypi.org:443/", "declared"),
        ("GET", "http://pypi.org/", "not_declared"),
        ("CONNECT", "files.pythonhosted.org:443", "declared"),
        ("CONNECT", "a.b.pythonhosted.org:443", "declared"),
        ("CONNECT", "pythonhosted.org:443", "not_declared"),
        ("CONNECT", "evilpythonhosted.org:443", "not_declared"),
        ("CONNECT", "files.pythonhosted.org.evil.example:443", "not_declared"),
        ("CONNECT", "93.184.216.34:8080", "declared"),
        ("CONNECT", "[::ffff:93.184.216.34]:8080", "declared"),
        ("CONNECT", "93.184.216.35:8080", "not_declared"),
        ("CONNECT", "[2606:2800:0:0::1]:443", "declared"),
        ("GET", "http://api.example/anything", "declared"),
        ("POST", "http://api.example/anything", "method"),
        ("get", "http://api.example/anything", "method"),
        ("CONNECT", "api.example:80", "no_tunnel"),
        ("GET", "http://data.example/public", "declared"),
        ("GET", "http://data.example/public/x?y=/../z", "declared"),
        ("HEAD", "http://data.example/pub%6Cic/x", "declared"),
        ("POST", "http://data.example/open/x", "declared"),
        ("GET", "http://data.example/open", "path"),
        ("GET", "http://data.example/publicity", "path"),
        ("GET", "http://data.example/", "path"),
        ("GET", "http://data.example/PUBLIC/x", "path"),
        ("CONNECT", "data.example:80", "no_tunnel"),
    ],
)
def test_an_allowlist(method: str, text: str, expected: str) -> None:
    assert word(ALLOWLIST, method, text) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/open/../secret",
        "/open/./x",
        "/open/..",
        "/open/.",
        "/open/%2e%2e/secret",
        "/open/.%2E/secret",
        "/open/%2E/x",
        "/open/..%2fsecret",
        "/open/..%5csecret",
        "/open/x%2Fy",
        "/open/%252e%252e/secret",
        "/open/%00",
        "/open//x",
        "//open/x",
        "/open/..;/secret",
        "/open/..;x=y/secret",
        "/open/.;/x",
        "/open/..%3b/secret",
        "/open/..%3B%78=1/secret",
        "/open/%2e%2e%3b/secret",
        "/open/..%20/secret",
        "/open/%20../secret",
        "/open/.%20./secret",
        "/open/..%09/secret",
        "/open/..%0a/secret",
        "/open/..%01/secret",
        "/open/..%7f/secret",
        "/open/..%c2%a0/secret",
        "/open/..%e2%80%8b/secret",
        "/open/..%ef%bb%bf/secret",
        "/open/.../secret",
        "/open/;/secret",
        "/open/%3bx/secret",
        "/open/%20/secret",
        "/open/x/;",
        "/open/%c0%ae%c0%ae/secret",
        "/open/%e0%80%ae%e0%80%ae/secret",
        "/open/%f0%80%80%ae/secret",
        "/open/%ff%2e/secret",
        "/open/%ef%bc%8e%ef%bc%8e/secret",
        "/open/%e2%80%a5/secret",
        "/open/%e2%80%a4%e2%80%a4/secret",
        "/open/x%ef%bc%8fy",
        "/open/x%ef%bc%bcy",
        "/open/x%e2%88%95..%e2%88%95y",
        "/open/x%e2%81%84y",
        "/open/%ef%bc%852e/x",
        "/open/%u002e%u002e/secret",
        "/open/%2",
        "/open/%",
        "/open/%zz",
        "/open/%ed%a0%80",
        "/open/caf\u00e9",
    ],
)
def test_a_path_that_servers_read_differently_is_below_no_prefix(path: str) -> None:
    assert unescape(path) is None
    if path.isascii():
        assert word(ALLOWLIST, "GET", f"http://data.example{path}") == "unclear_path"
        assert word(ALLOWLIST, "GET", f"http://api.example{path}") == "declared"


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/a/", "/a/.b/..c/d...", "/a;b=c/d", "/~user/%41%E2%82%AC", "/a.b/c:d@e", "/my%20file%20.txt"),
        *("/caf%C3%A9/%E6%97%A5%E6%9C%AC/%F0%9F%93%88", "/a%3Bb/c", "/C%23/%3Fx", "/v1/models/a:b,c$(d)"),
    ],
)
def test_other_paths_are_plain(path: str) -> None:
    assert unescape(path) == unquote(path)


@given(
    st.lists(st.sampled_from(["a", ".", "..", "%2e", ";", "%3b", " ", "%20", "%c0%ae", "/", "%2f", "%25", "\\", "x"]))
)
def test_however_often_a_plain_path_is_read_it_leads_nowhere_else(parts: list[str]) -> None:
    """Decoded again and again, without parameters and blanks, and with its steps taken, it is below the same prefix."""
    read = unescape("/open/" + "".join(parts))
    for _ in range(3):
        if read is None:
            return
        steps = [re.sub(";.*", "", segment).strip() for segment in read.replace("\\", "/").split("/")]
        assert posixpath.normpath("/".join(steps)).startswith("/open")
        read = unquote(read)


OVERRIDES = {
    "X-HTTP-Method-Override": "DELETE",
    "x_http_method_override": "DELETE",
    "X-HTTP-Method": "PUT",
    "X-Method-Override": "PATCH",
    "X-Original-URL": "/secret",
    "X-Rewrite-URL": "/secret",
    "X-Forwarded-Host": "other.example",
    "Forwarded": "host=other.example",
}


@pytest.mark.parametrize("field", OVERRIDES)
def test_a_field_that_makes_a_request_another_one_is_refused_where_methods_or_paths_are_declared(field: str) -> None:
    headers = [(b"accept", b"*/*"), (field.encode(), OVERRIDES[field].encode())]
    for url in ("http://data.example/open/x", "http://data.example/public/x", "http://api.example/x"):
        assert on_request(ALLOWLIST, "GET", parse_url(url), headers[:1]).word == "declared"
        assert on_request(ALLOWLIST, "GET", parse_url(url), headers).word == "override"
    assert on_request(ALLOWLIST, "GET", parse_url("http://pypi.org:443/x"), headers).word == "declared"


@pytest.mark.parametrize(
    "query", ["?_method=DELETE", "?a=b&%5Fmethod=delete", "?X-HTTP-Method-Override=PUT", "?_METHOD"]
)
def test_so_is_a_query_that_names_a_method(query: str) -> None:
    assert word(ALLOWLIST, "POST", f"http://data.example/open/x{query}") == "override"
    assert word(ALLOWLIST, "POST", "http://data.example/open/x?method=y&my_method=z") == "declared"


def test_a_wildcard_covers_names_not_addresses() -> None:
    assert not covers(Endpoint("*.34", 80), parse_tunnel("93.184.216.34:80"))


NOT_PUBLIC = {
    "127.0.0.1": "loopback",
    "10.1.2.3": "private",
    "100.64.0.1": "shared",
    "169.254.1.1": "link_local",
    "169.254.169.254": "metadata",
    "224.0.0.1": "multicast",
    "fd00::1": "private",
    "2002:7f00:1::": "transition",
}


@pytest.mark.parametrize(("address", "kind"), NOT_PUBLIC.items())
def test_an_address_that_is_not_public_needs_the_operator(address: str, kind: str) -> None:
    one, target = ip_address(address), parse_tunnel("innocent.example:443")
    literal = Target(address, 443, one)
    for target_ in (target, literal):
        verdict = on_address(OperatorRules(), target_, one, own=False)
        assert (verdict.allowed, verdict.word) == (False, f"{kind}_address")
        assert address in verdict.sentence
    declared = OperatorRules((Endpoint(address, 443),))
    assert on_address(declared, target, one, own=False).word == "operator"
    assert not on_address(declared, Target(address, 444, one), one, own=False).allowed
    assert not on_address(OperatorRules((Endpoint(address, 444),)), literal, one, own=False).allowed


@pytest.mark.parametrize(("address", "kind"), NOT_PUBLIC.items())
def test_a_name_of_the_operator_s_may_be_private_and_nothing_else(address: str, kind: str) -> None:
    rules = OperatorRules((Endpoint("mirror.internal", 443),))
    verdict = on_address(rules, parse_tunnel("mirror.internal:443"), ip_address(address), own=False)
    assert verdict.allowed == (kind in {"private", "shared"})
    assert not on_address(rules, parse_tunnel("other.internal:443"), ip_address(address), own=False).allowed


def test_the_host_s_own_public_address_is_refused_unless_declared_itself() -> None:
    one, target = ip_address("93.184.216.34"), parse_tunnel("example.com:443")
    assert on_address(OperatorRules(), target, one, own=False).allowed
    assert on_address(OperatorRules(), target, one, own=True).word == "host_address"
    assert not on_address(OperatorRules((Endpoint("example.com", 443),)), target, one, own=True).allowed
    assert on_address(OperatorRules((Endpoint("93.184.216.34", 443),)), target, one, own=True).allowed


def test_the_host_s_own_private_address_is_refused_also_by_a_declared_name() -> None:
    rules = OperatorRules((Endpoint("mirror.internal", 443),))
    assert not on_address(rules, parse_tunnel("mirror.internal:443"), ip_address("10.0.0.1"), own=True).allowed
