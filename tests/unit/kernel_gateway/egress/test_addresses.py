"""What kind an address is: only public ones may be reached."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.egress.addresses import classify, unmap
from kernel_gateway.egress.dialling import is_own

KINDS = {
    "public": "1.1.1.1 8.8.8.8 93.184.216.34 172.15.255.255 172.32.0.0 192.167.0.1 100.63.255.255 100.128.0.0"
    " 198.17.0.1 223.255.255.255 11.0.0.1 2606:2800:220:1:248:1893:25c8:1946 2a00:1450:4001::1 2620:fe::fe"
    " 64:ff9b::808:808 ::ffff:8.8.8.8",
    "loopback": "127.0.0.1 127.0.0.0 127.255.255.255 127.8.8.8 ::1 ::ffff:127.0.0.1 ::ffff:7f00:1 64:ff9b::7f00:1",
    "private": "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fd12:3456::1 fec0::1"
    " ::ffff:10.0.0.1 64:ff9b::10.1.2.3",
    "shared": "100.64.0.1 100.127.255.255 ::ffff:100.64.0.1",
    "link_local": "169.254.0.1 169.254.255.255 fe80::1 febf::1",
    "metadata": "169.254.169.254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 168.63.129.16 100.100.100.200 192.0.0.192"
    " fd00:ec2::254 169.254.170.2",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "reserved": "240.0.0.1 255.255.255.255 192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1"
    " 2001:db8::1 3fff::1 100::1 64:ff9b:1::1 ::2 ::7f00:1 ::127.0.0.1 4000::1 1::1 5f00::1",
    "transition": "2002:7f00:1:: 2002:808:808::1 2001::1 2001:0:1:2:3:4:5:6 2001:2::1 192.88.99.1"
    " 2606:2800::5efe:7f00:1 2606:2800::200:5efe:a00:1",
}


@pytest.mark.parametrize(("expected", "address"), [(word, one) for word, all_ in KINDS.items() for one in all_.split()])
def test_kinds(expected: str, address: str) -> None:
    assert classify(ip_address(address)) == expected


NAT64 = IPv6Network("64:ff9b::/96")


@given(st.ip_addresses(v=4))
def test_an_address_in_an_address_is_no_better_than_itself(address: IPv4Address) -> None:
    mapped, translated = (
        IPv6Address(int(IPv6Address(prefix)) + int(address)) for prefix in ("::ffff:0:0", "64:ff9b::")
    )
    assert unmap(mapped) == address
    assert classify(mapped) == classify(translated) == classify(address)
    assert classify(IPv6Address(int(IPv6Address("2002::")) + (int(address) << 80))) == "transition"
    assert classify(IPv6Address(int(address))) != "public"


@given(st.ip_addresses())
def test_what_is_called_public_is_global_for_the_standard_library(address: IPv4Address | IPv6Address) -> None:
    if classify(address) == "public" and not (address.version == 6 and address in NAT64):
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "255.255.255.255", "::1"])
def test_what_stays_here_is_the_host_s_own(address: str) -> None:
    assert is_own(ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_what_would_leave_is_not(address: str) -> None:
    assert not is_own(ip_address(address))
