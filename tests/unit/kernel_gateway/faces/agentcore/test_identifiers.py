"""Names of code interpreters, ARNs and sessions, both ways."""

from __future__ import annotations

import re
import uuid

import pytest

from kernel_gateway.errors import NotFound
from kernel_gateway.faces.agentcore.identifiers import (
    CUSTOM_ID,
    SYSTEM,
    Identifiers,
    format_session_id,
    make_system_arn,
    parse_session_id,
)
from kernel_gateway.settings import Settings

IDENTIFIERS = Identifiers("123456789012", ("python",), lambda _: True)
PATTERN = re.compile(
    r"arn:aws(-[^:]+)?:bedrock-agentcore:[a-z0-9-]+:(aws|[0-9]{12}):code-interpreter(-custom)?/"
    r"(aws\.codeinterpreter\.v1|[a-zA-Z][a-zA-Z0-9_]{0,47}-[a-zA-Z0-9]{10})"
)


def test_an_identifier_or_an_arn_will_do() -> None:
    custom = IDENTIFIERS.custom_arn("eu-west-1", "my_ci-AAAAAAAAAA")
    assert PATTERN.fullmatch(custom)
    assert PATTERN.fullmatch(make_system_arn("eu-west-1"))
    for given in ("my_ci-AAAAAAAAAA", custom, custom.replace("eu-west-1", "us-east-2")):
        assert IDENTIFIERS.environment(given) == "my_ci-AAAAAAAAAA"
        assert CUSTOM_ID.fullmatch(IDENTIFIERS.environment(given))
    for given in ("aws.codeinterpreter.v1", make_system_arn("us-east-1")):
        assert IDENTIFIERS.environment(given) == "python"
    assert IDENTIFIERS.environment("data") == "data"
    assert IDENTIFIERS.of_resource(custom) == "my_ci-AAAAAAAAAA"


@pytest.mark.parametrize(
    "arn",
    [
        "arn:",
        "arn:aws:s3:::bucket",
        "arn:aws:bedrock-agentcore:us-east-1:999999999999:code-interpreter-custom/my_ci-AAAAAAAAAA",
        "arn:aws:bedrock-agentcore:us-east-1:aws:code-interpreter-custom/my_ci-AAAAAAAAAA",
        "arn:aws:bedrock-agentcore:us-east-1:123456789012:code-interpreter/aws.codeinterpreter.v1",
        "arn:aws:bedrock-agentcore:us-east-1:123456789012:code-interpreter-custom/aws.codeinterpreter.v1",
        "arn:aws:bedrock-agentcore:us-east-1:aws:code-interpreter/data",
        "arn:aws:bedrock-agentcore:us-east-1:123456789012:browser-custom/my_ci-AAAAAAAAAA",
        "arn:aws:bedrock-agentcore:us-east-1:123456789012:code-interpreter-custom/my_ci-AAAAAAAAAA\n",
    ],
)
def test_other_arns_name_nothing(arn: str) -> None:
    with pytest.raises(NotFound):
        IDENTIFIERS.environment(arn)
    with pytest.raises(NotFound):
        IDENTIFIERS.of_resource(arn)


def test_the_system_interpreter_has_no_tags() -> None:
    with pytest.raises(NotFound):
        IDENTIFIERS.of_resource(make_system_arn("us-east-1"))


def test_a_session_is_ours_without_its_dashes() -> None:
    ours = str(uuid.uuid4())
    shown = format_session_id(ours)
    assert re.fullmatch(r"[0-9a-zA-Z]{1,40}", shown)
    assert parse_session_id(shown) == ours


@pytest.mark.parametrize("shown", ["", "x", "01K1PPWYE373Z99SS2A8ABW0TX", "A" * 32, "0" * 33, "0" * 32 + "\n"])
def test_what_can_be_no_session_of_ours_is_not_found(shown: str) -> None:
    with pytest.raises(NotFound):
        parse_session_id(shown)


def test_the_system_interpreter_is_the_first_of_its_environments_that_there_is() -> None:
    there: set[str] = set()
    found = Identifiers.of(Settings(), there.__contains__)
    assert found.environment(SYSTEM) == "python"  # which a session then says is not built
    there.add("python")
    assert found.environment(SYSTEM) == "python"
    there.add("data")
    assert found.environment(SYSTEM) == "data"
    assert found.matches(SYSTEM, "python")  # of before the other one was built
    assert not found.matches("data", "python")
    chosen = Identifiers.of(Settings(agentcore_environment="mine"), there.__contains__)
    assert (chosen.environment(SYSTEM), chosen.matches(SYSTEM, "python")) == ("mine", False)
