"""What patterns match is in no record; no pattern and no text makes that slow or incomplete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.errors import SettingInvalid
from kernel_gateway.redact_patterns import FLOODED, MOST_MATCHES, Patterns
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.settings import load
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from sandcell.models.executions import ExecutionError

KEY = "sk-aaaaaaaaaaaaaaaaaaaaaaaa"
PATTERNS = Patterns([r"sk-[a-z]{20,}", r"(?i)password\s*=\s*\S+"])


def test_every_text_of_an_execution_is_redacted() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": f"key {KEY}\n"},
        {"output_type": "display_data", "metadata": {KEY: 1}, "data": {"image/png": KEY, "text/html": [f"<b>{KEY}"]}},
        {"output_type": "display_data", "metadata": {}, "data": {"application/json": {"a": [KEY, 1, None]}}},
        {"output_type": "error", "ename": "E", "evalue": KEY, "traceback": [f"at {KEY}"]},
    ]
    error = ExecutionError("E", KEY, [f"at {KEY}"])
    row = ExecutionRow(
        "e", "s", "error", "python", f"k = '{KEY}'", 1, 1.0, None, None, None, 0.0,
        outcome=StoredOutcome(stdout=f"key {KEY}\n", stderr="Password = secret x", outputs=outputs, error=error),
    )  # fmt: skip
    kept = Redaction(PATTERNS).row(row)
    outcome = kept.outcome
    assert outcome is not None
    assert kept.code == "k = '[redacted]'"
    assert (outcome.stdout, outcome.stderr) == ("key [redacted]\n", "[redacted] x")
    stream, image, value, raised = outcome.outputs
    assert stream["text"] == "key [redacted]\n"
    assert image == {
        "output_type": "display_data",
        "metadata": {"[redacted]": 1},
        "data": {"image/png": KEY, "text/html": ["<b>[redacted]"]},
    }
    assert value["data"]["application/json"] == {"a": ["[redacted]", 1, None]}
    assert (raised["evalue"], raised["traceback"]) == ("[redacted]", ["at [redacted]"])
    assert outcome.error == ExecutionError("E", "[redacted]", ["at [redacted]"])
    assert row.outcome is not None
    assert row.outcome.stdout == f"key {KEY}\n", "what the caller gets is another value"


def test_what_matches_over_several_lines_is_struck_out_of_a_traceback_too() -> None:
    lines = ["ValueError: -----BEGIN KEY-----", "c2VjcmV0", "-----END KEY-----", "after"]
    output = {"output_type": "error", "ename": "ValueError", "evalue": "\n".join(lines), "traceback": lines}
    outcome = StoredOutcome(outputs=[output], error=ExecutionError("ValueError", "\n".join(lines), lines))
    kept = Redaction(Patterns(["-----BEGIN KEY-----[^-]*-----END KEY-----"])).outcome(outcome)
    assert kept.error == ExecutionError(
        "ValueError", "ValueError: [redacted]\nafter", ["ValueError: [redacted]", "after"]
    )
    assert kept.outputs[0]["traceback"] == ["ValueError: [redacted]", "after"]
    assert kept.outputs[0]["output_type"] == "error"


@given(st.text())
def test_a_text_that_nothing_matches_is_the_same(text: str) -> None:
    assert PATTERNS.redact(text) == text or "password" in text.lower()


@given(st.text(max_size=50), st.text(max_size=50))
def test_what_matches_is_never_left(before: str, after: str) -> None:
    assert KEY not in PATTERNS.redact(f"{before}{KEY}{after}")


def test_of_a_text_with_too_many_matches_nothing_is_kept() -> None:
    assert Patterns(["x"]).redact("x" * MOST_MATCHES) == "[redacted]" * MOST_MATCHES
    assert Patterns(["x"]).redact("kept x" * (MOST_MATCHES + 1)) == FLOODED


def test_no_pattern_is_slow_on_a_text_made_for_it() -> None:
    """Python's own engine takes 2**40 steps for this one."""
    assert Patterns([r"(a+)+$"]).redact("a" * 100_000 + "b") == "a" * 100_000 + "b"


@pytest.mark.parametrize("source", ["(", "a(?=b)", r"(.)\1", "a**"])
def test_a_pattern_that_does_not_compile_is_named(source: str) -> None:
    with pytest.raises(SettingInvalid) as raised:
        load(environ={"SANDCELL_REDACT_PATTERNS": f"fine\n{source}"})
    assert f"{source!r} is no regular expression of RE2: " in str(raised.value)


def test_a_pattern_that_matches_nothing_at_all_is_refused() -> None:
    with pytest.raises(SettingInvalid, match="matches where nothing is"):
        load(environ={"SANDCELL_REDACT_PATTERNS": "x*"})


def test_patterns_are_a_list_in_the_file_and_lines_in_a_variable(tmp_path: object) -> None:
    config = f"{tmp_path}/sandcell.toml"
    with open(config, "w") as file:  # noqa: PTH123
        file.write("redact_patterns = ['sk-[a-z]+', 'b c']")
    assert load(config=config, environ={}).redact_patterns == "sk-[a-z]+\nb c"
    assert load(environ={"SANDCELL_REDACT_PATTERNS": "sk-[a-z]+\nb c"}).redact_patterns == "sk-[a-z]+\nb c"
    with open(config, "w") as file:  # noqa: PTH123
        file.write("redact_patterns = ['(', 3]")
    with pytest.raises(
        SettingInvalid, match=r"must be a list of strings, or a string with one a line, not \['\(', 3\]"
    ):
        load(config=config, environ={})
