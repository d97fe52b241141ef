"""How long a body is said to be: every form that tornado takes counts, or a large body would pass for none."""

from __future__ import annotations

import pytest

from kernel_gateway.faces.receiving import LENGTH_DIGITS, length_of


@pytest.mark.parametrize("announced", ["134000000", "0" * LENGTH_DIGITS + "134000000", "134000000,134000000"])
def test_every_form_of_a_length_is_that_length(announced: str) -> None:
    assert length_of(announced) == 134_000_000


def test_an_endless_length_is_a_large_one() -> None:
    assert length_of("9" * 5_000) == 10**LENGTH_DIGITS - 1


@pytest.mark.parametrize("announced", ["", "0", "0,0", "-5", "+5", "1_0", "0x10", "²", "many"])
def test_what_is_no_length_is_none(announced: str) -> None:
    assert length_of(announced) == 0
