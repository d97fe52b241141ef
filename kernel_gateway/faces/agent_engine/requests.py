"""What the small bodies and the queries say, typed. Pure.

Google's clients write the same member as `displayName` or `display_name`, at times both ways in one body: names are
read in either. Members that are not known are ignored, as Google does.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.json_bodies import decode, describe_refusal, quote

LONGEST_TEXT: Final = 1_024
LONGEST_DISPLAY_NAME: Final = 200
MOST_LABELS: Final = 64
MOST_PARAMETERS: Final = 32
_SNAKE: Final = re.compile(r"_([a-z0-9])")
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s")

Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
DisplayName = Annotated[str, Meta(max_length=LONGEST_DISPLAY_NAME)]
Labels = Annotated[dict[Text, Text], Meta(max_length=MOST_LABELS)]


class Members(msgspec.Struct, rename="camel"):
    """Root of every body."""


class CreateEngine(Members):
    """A ReasoningEngine; what would deploy an agent is in `spec`."""

    display_name: DisplayName | None = None
    description: Text | None = None
    labels: Labels | None = None
    spec: dict[str, Any] | None = None
    context_spec: dict[str, Any] | None = None
    encryption_spec: dict[str, Any] | None = None


class CodeEnvironment(Members):
    """A code execution environment."""

    code_language: str | None = None
    machine_config: str | None = None


class Spec(Members):
    """One of them at most."""

    code_execution_environment: CodeEnvironment | None = None
    shell_environment: dict[str, Any] | None = None
    computer_use_environment: dict[str, Any] | None = None
    use_gke_td: bool | None = None


class CreateSandbox(Members):
    """A SandboxEnvironment."""

    display_name: DisplayName | None = None
    description: Text | None = None
    spec: Spec | None = None
    ttl: str | None = None
    expire_time: str | None = None
    owner: Text | None = None
    sandbox_environment_template: Text | None = None
    sandbox_environment_snapshot: Text | None = None


class CreateSnapshot(Members):
    """A SandboxEnvironmentSnapshot."""

    display_name: DisplayName | None = None
    owner: Text | None = None
    ttl: str | None = None
    expire_time: str | None = None
    post_snapshot_action: str | None = None


class DefaultContainer(Members):
    """A container of the service's own."""

    default_container_category: str | None = None
    resources: dict[str, Any] | None = None


class Egress(Members):
    """How far code would reach."""

    internet_access: bool | None = None
    network_attachment: str | None = None


class CreateTemplate(Members):
    """A SandboxEnvironmentTemplate."""

    display_name: DisplayName | None = None
    default_container_environment: DefaultContainer | None = None
    custom_container_environment: dict[str, Any] | None = None
    egress_control_config: Egress | None = None
    ingress_control_config: dict[str, Any] | None = None
    persistent_disk_config: dict[str, Any] | None = None


class DeleteEngine(Members):
    """`force` stands in the body, as the Python clients send it, or in the query, as the specification has it."""

    force: bool | None = None


class Query(Members):
    """Of lists, and of the deletion of an engine."""

    page_size: Annotated[int, Meta(ge=0, le=2**31)] = 0
    page_token: Annotated[str, Meta(max_length=2_048)] = ""
    filter: Annotated[str, Meta(max_length=2_048)] = ""
    force: bool = False


def read_body(body: bytes | bytearray, of: Any) -> Any:
    """A small body as `of`; an empty one is an empty object."""
    try:
        return msgspec.convert(_camel(decode(body, dict[str, Any])), of)
    except msgspec.ValidationError as error:
        raise describe_refusal(str(error), "the body") from None


def read_query(text: str) -> Query:
    """A query; Google's own parameters (`alt`, `$prettyPrint` ...) are ignored."""
    try:
        given = dict(parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=MOST_PARAMETERS))
        return msgspec.convert({_camel_name(name): value for name, value in given.items()}, Query, strict=False)
    except msgspec.ValidationError as error:
        raise describe_refusal(str(error), "the query") from None
    except ValueError:
        raise InvalidRequest(f"more than {MOST_PARAMETERS} query parameters") from None


def read_duration(text: str) -> int:
    """Whole seconds of `"3600s"` or `"3.5s"`, rounded up; raises InvalidRequest."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"ttl: {quote(text)} is no duration: write seconds and an s, as 3600s", field="ttl")
    return math.ceil(float(found[1]))


def _camel(value: Any) -> Any:
    """The same with every name as Google's JSON has it; keys of labels are the caller's."""
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {_camel_name(key): each if key == "labels" else _camel(each) for key, each in value.items()}


def _camel_name(name: str) -> str:
    return _SNAKE.sub(lambda match: match[1].upper(), name)
