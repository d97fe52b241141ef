"""Which requests count as the console's own, and the cookie that counts with those alone."""

from __future__ import annotations

import pytest

from kernel_gateway.faces.browser import comes_from_console, find_secret, make_cookie

OWN = {"X-Sandcell-Console": "1"}
OURS = {"Host": "box:8899", "Origin": "http://box:8899"}


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, False),
        ({"Sec-Fetch-Site": "same-origin"}, False),
        ({**OWN, "Sec-Fetch-Site": "same-origin"}, True),
        ({**OWN, "Sec-Fetch-Site": "same-site"}, False),
        ({**OWN, "Sec-Fetch-Site": "cross-site"}, False),
        ({**OWN, "Sec-Fetch-Site": "none"}, False),
        ({**OWN, "Sec-Fetch-Site": "cross-site", **OURS}, False),
        (OWN, True),
        ({**OWN, **OURS}, True),
        ({**OWN, **OURS, "Origin": "http://box:8900"}, False),
        ({**OWN, **OURS, "Origin": "http://evil.example"}, False),
        ({**OWN, **OURS, "Origin": "null"}, False),
        ({**OWN, **OURS, "Origin": ""}, False),
        ({**OURS, "X-Sandcell-Console": "0"}, False),
    ],
)
def test_only_the_consoles_own_page_counts(headers: dict[str, str], *, own: bool) -> None:
    assert comes_from_console(headers) is own
    assert find_secret({**headers, "Cookie": "a=b; sandcell_console=secret"}) == ("secret" if own else "")


def test_a_cookie_is_bounded_and_may_be_missing() -> None:
    assert find_secret(OWN) == ""
    assert find_secret({**OWN, "Cookie": "sandcell_console=" + "x" * 513}) == ""


def test_no_script_reads_the_cookie_and_no_other_site_sends_it() -> None:
    assert make_cookie(OURS, "secret", 60) == "sandcell_console=secret; Path=/; HttpOnly; SameSite=Strict; Max-Age=60"
    assert make_cookie({"Origin": "https://box"}, "secret", 60).endswith("; Max-Age=60; Secure")
    assert "Max-Age=0" in make_cookie(OURS, "", 60)
