"""Where packages come from, as operators say it."""

from __future__ import annotations

import pytest

from kernel_gateway.package_sources import DEBIAN_SOURCES, parse_apt_sources
from kernels.environment import Endpoint


def test_of_a_source_of_debian_packages_its_path_is_all_that_can_be_asked_for() -> None:
    found = parse_apt_sources(
        "http://deb.example.org/debian {codename} main contrib\n"
        "[trusted=yes] http://[2001:db8::1]:8080 stable main\n"
        "https://mirror.example.org/debian/ {codename}/updates main"
    )
    assert found == (
        Endpoint("deb.example.org", 80, ("GET",), "/debian"),
        Endpoint("2001:db8::1", 8080, ("GET",), ""),
        Endpoint("mirror.example.org", 443),
    )
    assert {each.host for each in parse_apt_sources(DEBIAN_SOURCES)} == {"deb.debian.org"}


@pytest.mark.parametrize(
    "line",
    [
        "deb http://x/debian a main",
        "http://x/debian a",
        "ftp://x/debian a main",
        "http://user:secret@x/debian a main",
        "http://x/../y a main",
        "http://x/a%2fb a main",
        "[signed-by=/etc/passwd] http://x/debian a main",
        "http://x/debian a main\tb",
        "http://x:99999/debian a main",
        "",
        "file:///debian a main",
    ],
)
def test_what_is_no_source_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"is no source of Debian packages|port"):
        parse_apt_sources(f"http://deb.example.org/debian a main\n{line}\n")
