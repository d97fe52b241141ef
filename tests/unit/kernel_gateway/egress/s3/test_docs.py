"""The page about execution roles says every word that a refusal may start with, and every operation."""

from __future__ import annotations

from pathlib import Path

from kernel_gateway.egress.s3.operations import OPERATIONS
from kernel_gateway.egress.s3.refusal import WORDS

PAGE = (Path(__file__).parents[5] / "docs" / "reference" / "execution-roles.md").read_text()


def test_the_page_lists_every_word_and_every_operation() -> None:
    assert [word for word in WORDS if f"| `{word}` |" not in PAGE] == []
    assert [one.name for one in OPERATIONS if one.name not in PAGE] == []
