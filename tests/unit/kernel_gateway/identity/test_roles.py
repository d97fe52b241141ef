"""What the lines of `oidc_roles` make of what an identity provider says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kernel_gateway.identity.roles import Rights, find_claim, find_rights, parse_roles

LINES = """
administrator groups=platform
user "groups=data science"
viewer groups=audit agent-7 agent-8
viewer email=boss@example.com agent-8 alice@example.com
user realm_access.roles=coder
"""


@pytest.mark.parametrize(
    ("claims", "rights"),
    [
        ({"groups": ["platform"]}, Rights("administrator")),
        ({"groups": "data science"}, Rights("user")),
        ({"groups": ["audit"]}, Rights("viewer", ("agent-7", "agent-8"))),
        (
            {"groups": ["audit", "data science"], "email": "boss@example.com"},
            Rights("user", ("agent-7", "agent-8", "alice@example.com")),
        ),
        ({"realm_access": {"roles": ["coder"]}}, Rights("user")),
        ({"groups": ["data"]}, None),
        ({"groups": [["platform"], {"platform": 1}, True]}, None),
        ({"groups": {"platform": "platform"}}, None),
        ({"email": "Boss@example.com"}, None),
        ({}, None),
    ],
)
def test_the_highest_role_that_fits_counts_and_all_principals_do(claims: dict[str, Any], rights: Rights | None) -> None:
    assert find_rights(parse_roles(LINES), claims) == rights


def test_any_value_is_some_text() -> None:
    rules = parse_roles("user sub=*")
    assert find_rights(rules, {"sub": "1"}) == Rights("user")
    for nothing in ("", [], [""], None, 1, True, {}):
        assert find_rights(rules, {"sub": nothing}) is None


def test_a_name_with_dots_is_the_claim_of_that_name_first() -> None:
    claims = {"https://example.com/roles": ["a"], "a.b": 1, "a": {"b": 2, "c": {"d": 3}}}
    assert [find_claim(claims, each) for each in ("https://example.com/roles", "a.b", "a.c.d", "a.c.d.e", "x.y")] == [
        ["a"],
        1,
        3,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("root groups=a", "no role"),
        ("user", "is not `ROLE"),
        ("user groups", "CLAIM=VALUE"),
        ("user groups=", "CLAIM=VALUE"),
        ("user =a", "CLAIM=VALUE"),
        ("viewer groups=a *", "no principal's name"),
        ("viewer 'groups=a", "is not `ROLE"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_roles(f"user a=b\n{line}")
