"""Names that requests may be addressed to: what passes and what a page of somebody's could bring about."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import SettingInvalid
from kernel_gateway.hosts import Hosts, read_gateway_address

OURS_ALWAYS = (
    "", "localhost", "localhost:8899", "LOCALHOST.", "127.0.0.1", "127.0.0.1:8899", "127.9.9.9", "[::1]", "[::1]:8899",
    "192.168.1.7:80", "203.0.113.9", "[2001:db8::7]:443",
)  # fmt: skip
LOCAL = ("sandcell", "sandcell:8899", "box.local", "api.corp.internal", "x.localhost", "sandcell.home.arpa")
FOREIGN = ("evil.example", "evil.example:8899", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example.")
BROKEN = (
    "a b.example",
    "evil.example:port",
    "[::1",
    "::1",
    "evil.example,localhost",
    "127.0.0.1@evil.example:1:2",
    ":80",
)


@pytest.mark.parametrize("host", OURS_ALWAYS)
@pytest.mark.parametrize("setting", ["", "sandcell.example.com"])
def test_addresses_and_loopback_are_ours(host: str, setting: str) -> None:
    assert Hosts.of_setting(setting, "127.0.0.1").admit(host, credential=False)


@pytest.mark.parametrize("host", LOCAL)
def test_names_that_no_public_dns_has_are_ours_unless_names_were_given(host: str) -> None:
    assert Hosts.of_setting("", "127.0.0.1").admit(host, credential=False)
    assert not Hosts.of_setting("sandcell.example.com", "127.0.0.1").admit(host, credential=True)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_of_somebodys_passes_only_with_a_credential_and_with_names_given_not_at_all(host: str) -> None:
    assert not Hosts.of_setting("", "0.0.0.0").admit(host, credential=False)
    assert Hosts.of_setting("", "0.0.0.0").admit(host, credential=True)
    for credential in (False, True):
        assert not Hosts.of_setting("sandcell.example.com", "0.0.0.0").admit(host, credential=credential)


@pytest.mark.parametrize("host", BROKEN)
def test_what_is_no_host_is_not_ours(host: str) -> None:
    assert not Hosts.of_setting("", "127.0.0.1").admit(host, credential=True)


@pytest.mark.parametrize("setting", ["sandcell.example.com, *.sand.example", "*.sand.example\nSandcell.example.com."])
def test_names_are_given_with_commas_or_one_a_line(setting: str) -> None:
    hosts = Hosts.of_setting(setting, "127.0.0.1")
    for host in ("sandcell.example.com", "Sandcell.Example.Com:443", "a.sand.example", "b.a.sand.example"):
        assert hosts.admit(host, credential=False)
    for host in ("sand.example", "xsand.example", "sandcell.example.com.evil.example"):
        assert not hosts.admit(host, credential=True)


def test_the_name_that_is_listened_on_is_ours() -> None:
    assert Hosts.of_setting("", "Sandcell.example.com").admit("sandcell.example.com:8899", credential=False)
    assert Hosts.of_setting("other.example", "sandcell.example.com").admit("sandcell.example.com", credential=False)


def test_a_star_admits_all() -> None:
    assert Hosts.of_setting("*", "127.0.0.1").admit("evil.example", credential=False)


@pytest.mark.parametrize("setting", ["https://x.example", "x.example:443", "*.*.example", "a b", "*, x.example", "x*"])
def test_what_is_no_name_is_no_setting(setting: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        Hosts.of_setting(setting, "127.0.0.1")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("http://127.0.0.1:8899", "http://127.0.0.1:8899"),
        ("https://sandcell-1.internal:443", "https://sandcell-1.internal:443"),
        ("http://[fd00::1]:8899", "http://[fd00::1]:8899"),
        ("http://fd00::1:8899", "http://[fd00::1]:8899"),
        ("http://::1:8899", "http://[::1]:8899"),
        ("http://fd00:0:0:0:0:0:0:1:8899", "http://[fd00:0:0:0:0:0:0:1]:8899"),
    ],
)
def test_an_address_of_either_family_is_read_with_brackets_or_without(given: str, read: str) -> None:
    assert read_gateway_address(given) == read


@pytest.mark.parametrize(
    "given",
    [
        "",
        "127.0.0.1:1",
        "http://host",
        "http://host:0",
        "http://host:65536",
        "http://a:b:1",
        "http://::1:8899/x",
        "http://1:2:3:4:5:6:7:8:9:10",
        "http://[::1]",
        "http://[host]:1",
        "ftp://host:1",
        "http://fd00::1::2:1",
    ],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(SettingInvalid, match="gateway_address must be"):
        read_gateway_address(given)
