"""The client's address behind proxies: from the end of the header, as far as proxies are trusted."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernel_gateway.client_address import find_client_address
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.settings import load

TRUSTED = "10.0.0.0/8, 192.0.2.1, fd00::/8"


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("203.0.113.9", "198.51.100.7", "203.0.113.9"),  # not a trusted proxy: it may write what it likes
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.7", "198.51.100.7"),  # the first was the client's own to write
        ("10.0.0.1", "1.1.1.1,198.51.100.7, 192.0.2.1 ,10.9.9.9", "198.51.100.7"),
        ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.7, nonsense", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7, nonsense, 10.0.0.3", "10.0.0.3"),
        ("::ffff:10.0.0.1", "198.51.100.7:5123", "198.51.100.7"),
        ("fd00::1", "[2001:db8::7]:443", "2001:db8::7"),
        ("10.0.0.1", "1.1.1.1, " + "10.0.0.2, " * 50 + "10.0.0.3", "10.0.0.2"),
        ("", "198.51.100.7", ""),
    ],
)
def test_the_nearest_address_that_is_no_proxys(peer: str, forwarded: str, found: str) -> None:
    request = SimpleNamespace(remote_ip=peer, headers={"X-Forwarded-For": forwarded})
    assert find_client_address(request, TRUSTED) == found
    assert find_client_address(request, "") == peer


@pytest.mark.parametrize("text", ["10.0.0.0/33", "proxy.example", "10.0.0.1/8"])
def test_a_setting_that_is_no_network_stops_the_start(text: str) -> None:
    with pytest.raises(SettingInvalid, match="trusted_proxies"):
        load(environ={"SANDCELL_TRUSTED_PROXIES": text})
