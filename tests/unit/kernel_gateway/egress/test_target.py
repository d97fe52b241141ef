"""One way to write a host: everything that could be read as another one is refused."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.egress.target import BadTarget, Target, is_same_authority, parse_tunnel, parse_url


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.com:443", "example.com", 443),
        ("EXAMPLE.com.:443", "example.com", 443),
        ("xn--bcher-kva.example:1", "xn--bcher-kva.example", 1),
        ("a_b.example:65535", "a_b.example", 65535),
        ("8.8.8.8:53", "8.8.8.8", 53),
        ("127.0.0.1.:80", "127.0.0.1", 80),
        ("[2606:2800:0::1]:443", "2606:2800::1", 443),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1", 80),
        ("[::FFFF:7F00:1]:80", "127.0.0.1", 80),
    ],
)
def test_hosts_have_one_form(text: str, host: str, port: int) -> None:
    target = parse_tunnel(text)
    assert (target.host, target.port) == (host, port)
    assert target.address == (ip_address(host) if host[-1].isdigit() and "example" not in host else None)


ODD = (
    "0x7f.1 0x7f.0.0.1 0x7f000001 017700000001 0177.0.0.1 127.1 127.0.1 2130706433 127.0.0.01 0127.0.0.1 1.2.3.4.5"
    " 256.1.1.1 1.1.1 0 0x 4294967295 99999999999 0xA9FEA9FE 169.254.43518 a.1 example.0x7f 1.2.3.0x4 08.8.8.8"
)


@pytest.mark.parametrize("host", ODD.split())
def test_numbers_that_some_take_for_an_address_are_refused(host: str) -> None:
    for text in (f"{host}:80", f"{host}.:80"):
        with pytest.raises(BadTarget) as refused:
            parse_tunnel(text)
        assert refused.value.word == "odd_address"


@given(st.from_regex(r"[0-9xXa-fA-F.]{1,24}", fullmatch=True))
def test_a_host_that_the_system_takes_for_an_address_is_never_taken_for_a_name(host: str) -> None:
    try:
        target = parse_tunnel(f"{host}:80")
    except BadTarget:
        return
    try:
        read = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return
    assert str(target.address) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":443",
        "example.com",
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "example.com:+80",
        "example.com: 80",
        "example.com:80:80",
        "example.com:0x50",
        "example.com:٨٠",
        "user@example.com:80",
        "user:secret@example.com:80",
        "[::1",
        "[::1]",
        "[::1]80",
        "[::1%lo]:80",
        "[::1%25lo]:80",
        "[fe80::1%eth0]:80",
        "[127.0.0.1]:80",
        "[]:80",
        "::1:80",
        "exa mple.com:80",
        "example.com/:80",
        "example.com%00.evil:80",
        "%31%32%37.0.0.1:80",
        "ex\x00ample:80",
        "münchen.de:80",
        "\uff11\uff12\uff17.0.0.1:80",
        "127\u30020\u30020\u30021:80",
        "-x.example:80",
        "x-.example:80",
        "a..b:80",
        ".example:80",
        "example.com..:80",
        "*.example.com:80",
        f"{'a' * 64}.example:80",
        f"{'a.' * 127}aa:80",
        "example.com\\@127.0.0.1:80",
        "a,b:80",
    ],
)
def test_what_is_no_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(BadTarget):
        parse_tunnel(text)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com", Target("example.com", 80, path="/")),
        ("HTTP://Example.COM:8080/a/b?c=d?e", Target("example.com", 8080, path="/a/b", query="?c=d?e")),
        ("http://example.com?x=http://127.0.0.1/", Target("example.com", 80, path="/", query="?x=http://127.0.0.1/")),
        ("http://[::1]:81/", Target("::1", 81, ip_address("::1"), "/")),
        ("http://example.com//a/../b", Target("example.com", 80, path="//a/../b")),
    ],
)
def test_urls(url: str, expected: Target) -> None:
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "/path",
        "*",
        "example.com:80",
        "https://example.com/",
        "ftp://example.com/",
        "http:/example.com/",
        "http:///path",
        "http://",
        "http://user@example.com/",
        "http://a:b@127.0.0.1/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com/\\x",
        "http://example.com/#frag",
        "http://exam ple.com/",
        "http://example.com/ü",
        "http://example.com:/",
        "http://[::1]x/",
        "http://example.com:80@127.0.0.1/",
        "http://127.1/",
        "//example.com/",
        " http://example.com/",
    ],
)
def test_what_is_no_url_for_a_proxy_is_refused(url: str) -> None:
    with pytest.raises(BadTarget):
        parse_url(url)


@pytest.mark.parametrize(
    ("target", "header", "same"),
    [
        (parse_url("http://example.com/"), "example.com", True),
        (parse_url("http://example.com/"), "EXAMPLE.com:80", True),
        (parse_url("http://example.com:8080/"), "example.com:8080", True),
        (parse_url("http://example.com:8080/"), "example.com", False),
        (parse_url("http://example.com/"), "example.com:8080", False),
        (parse_url("http://example.com/"), "other.example", False),
        (parse_url("http://example.com/"), "", False),
        (parse_url("http://example.com/"), "example.com, other.example", False),
        (parse_url("http://example.com/"), "user@example.com", False),
        (parse_url("http://127.0.0.1/"), "0x7f.1", False),
        (parse_tunnel("example.com:443"), "example.com:443", True),
        (parse_tunnel("example.com:443"), "example.com", True),
        (parse_tunnel("example.com:443"), "example.com:444", False),
        (parse_tunnel("[::1]:443"), "[0::1]:443", True),
    ],
)
def test_the_host_header_says_the_same_as_the_target(target: Target, header: str, same: bool) -> None:
    assert is_same_authority(target, header) is same
