"""Code interpreters of the control plane: made, shown, listed, tagged, deleted; and what each operation refuses."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError

from tests.conformance.agentcore.accounts import CONTROL, SYSTEM, Account, Session
from tests.conformance.agentcore.signed_requests import ask

SANDBOX = {"networkMode": "SANDBOX"}
VPC = {
    "networkMode": "VPC",
    "vpcConfig": {"securityGroups": ["sg-0123456789abcdef0"], "subnets": ["subnet-0123456789abcdef0"]},
}


def code_of(attempt: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as raised:
        attempt()
    return str(raised.value.response["Error"]["Code"])


def name() -> str:
    return f"made_{uuid.uuid4().hex[:12]}"


def test_the_system_interpreter_is_everybodys_and_nobody_changes_it(control: Any) -> None:
    shown = control.get_code_interpreter(codeInterpreterId=SYSTEM)
    assert shown["codeInterpreterArn"].endswith(f":aws:code-interpreter/{SYSTEM}")
    assert (shown["status"], shown["codeInterpreterId"]) == ("READY", SYSTEM)
    assert code_of(lambda: control.delete_code_interpreter(codeInterpreterId=SYSTEM)) in {
        "AccessDeniedException",
        "ConflictException",
        "ValidationException",
    }


def test_an_interpreter_is_made_with_all_its_members(control: Any) -> None:
    given = {
        "name": name(),
        "description": "d" * 4096,
        "executionRoleArn": "arn:aws:iam::123456789012:role/path/of/Role",
        "networkConfiguration": SANDBOX,
    }
    made = control.create_code_interpreter(**given, tags={"a": ""})
    assert made["ResponseMetadata"]["HTTPStatusCode"] == 202
    shown = control.get_code_interpreter(codeInterpreterId=made["codeInterpreterId"])
    assert {key: shown[key] for key in given} == given
    assert made["codeInterpreterId"].startswith(f"{given['name']}-")
    assert control.delete_code_interpreter(codeInterpreterId=made["codeInterpreterId"])["status"] in {
        "DELETING",
        "DELETED",
    }


def test_a_name_is_used_once_and_a_client_token_gives_the_same_answer(control: Any) -> None:
    token, given = str(uuid.uuid4()), {"name": name(), "networkConfiguration": SANDBOX}
    made = control.create_code_interpreter(**given, clientToken=token)
    again = control.create_code_interpreter(**given, clientToken=token)
    assert again["codeInterpreterId"] == made["codeInterpreterId"]
    assert code_of(lambda: control.create_code_interpreter(**given)) == "ConflictException"
    with pytest.raises(control.exceptions.ValidationException) as raised:
        control.create_code_interpreter(**{**given, "description": "another"}, clientToken=token)
    assert raised.value.response["reason"] == "IdempotentParameterMismatchException"
    deletion, named = str(uuid.uuid4()), {"codeInterpreterId": made["codeInterpreterId"]}
    first = control.delete_code_interpreter(**named, clientToken=deletion)
    assert control.delete_code_interpreter(**named, clientToken=deletion)["lastUpdatedAt"] == first["lastUpdatedAt"]
    assert code_of(lambda: control.delete_code_interpreter(**named)) == "ResourceNotFoundException"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("name", "with-hyphen"),
        ("name", "1starts_with_a_digit"),
        ("name", "n" * 49),
        ("name", ""),
        ("name", None),
        ("networkConfiguration", None),
        ("networkConfiguration", {}),
        ("networkConfiguration", {"networkMode": "INTERNET"}),
        ("networkConfiguration", VPC),
        ("networkConfiguration", {"networkMode": "VPC"}),
        ("description", ""),
        ("description", "d" * 4097),
        ("executionRoleArn", "arn:aws:s3:::bucket"),
        ("tags", {"a": "b" * 257}),
        ("tags", {"a*": "b"}),
        ("tags", {"": "b"}),
        ("tags", {f"k{number}": "" for number in range(51)}),
        ("tags", ["a"]),
        ("clientToken", "short"),
        ("certificates", [{"location": {"secretsManager": {"secretArn": "no arn"}}}]),
        ("filesystemConfigurations", [{"efsConfiguration": {}}]),
    ],
)
def test_a_member_that_create_cannot_take_is_named(account: Account, member: str, value: object) -> None:
    body = {"name": name(), "networkConfiguration": SANDBOX, member: value}
    reply = ask(account, "PUT", "/code-interpreters", body)
    assert (reply.status, reply.code) == (400, "ValidationException"), reply
    assert reply.json["reason"] == "FieldValidationFailed"
    assert reply.json["fieldList"][0]["name"].startswith(member), reply.json


def test_a_vpc_is_refused_in_words(control: Any) -> None:
    with pytest.raises(control.exceptions.ValidationException) as raised:
        control.create_code_interpreter(name=name(), networkConfiguration=VPC)
    message = raised.value.response["Error"]["Message"]
    assert "VPC" in message
    assert "SANDBOX" in message


def test_interpreters_are_listed_by_page_and_type(make_account: Callable[[str], Account]) -> None:
    control = make_account("maker").client(CONTROL)
    made = {
        control.create_code_interpreter(name=name(), networkConfiguration=SANDBOX)["codeInterpreterId"]
        for _ in range(3)
    }

    def listed(**members: Any) -> list[str]:
        pages = control.get_paginator("list_code_interpreters").paginate(**members)
        return [item["codeInterpreterId"] for page in pages for item in page["codeInterpreterSummaries"]]

    assert set(listed(type="CUSTOM", PaginationConfig={"PageSize": 1})) == made
    assert sorted(listed(PaginationConfig={"PageSize": 2})) == sorted([*made, SYSTEM])
    assert listed(type="SYSTEM") == [SYSTEM]
    for one in made:
        control.delete_code_interpreter(codeInterpreterId=one)
    assert listed(type="CUSTOM") == []


@pytest.mark.parametrize(
    "query", ["maxResults=0", "maxResults=101", "maxResults=x", "type=OTHER", "nextToken=no%20one"]
)
def test_a_listing_that_makes_no_sense_is_refused(account: Account, query: str) -> None:
    reply = ask(account, "POST", f"/code-interpreters?{query}")
    assert (reply.status, reply.code) == (400, "ValidationException"), reply


def test_an_interpreter_is_its_principals_own(control: Any, make_account: Callable[[str], Account]) -> None:
    made = control.create_code_interpreter(name=name(), networkConfiguration=SANDBOX)
    other = make_account("another-maker")
    theirs = other.client(CONTROL)
    named = {"codeInterpreterId": made["codeInterpreterId"]}
    assert code_of(lambda: theirs.get_code_interpreter(**named)) == "ResourceNotFoundException"
    assert code_of(lambda: theirs.delete_code_interpreter(**named)) == "ResourceNotFoundException"
    tagging = {"resourceArn": made["codeInterpreterArn"]}
    assert code_of(lambda: theirs.list_tags_for_resource(**tagging)) == "ResourceNotFoundException"
    starting = {"codeInterpreterIdentifier": made["codeInterpreterId"]}
    assert code_of(lambda: other.client().start_code_interpreter_session(**starting)) == "ResourceNotFoundException"
    control.delete_code_interpreter(**named)


def test_an_interpreter_with_a_live_session_is_not_deleted(
    control: Any, data: Any, interpreter: str, start: Callable[..., Session]
) -> None:
    session = start(data, interpreter)
    with pytest.raises(control.exceptions.ConflictException) as raised:
        control.delete_code_interpreter(codeInterpreterId=interpreter)
    assert "session" in raised.value.response["Error"]["Message"]
    session.stop()


def test_tags_are_merged_and_removed_by_key(control: Any, interpreter: str) -> None:
    arn = {"resourceArn": control.get_code_interpreter(codeInterpreterId=interpreter)["codeInterpreterArn"]}
    control.tag_resource(**arn, tags={"a": "1", "b": "2", "with a/slash:=+@-._": "é".encode().hex()})
    control.tag_resource(**arn, tags={"a": "3"})
    tagged = control.list_tags_for_resource(**arn)["tags"]
    assert (tagged["a"], tagged["b"]) == ("3", "2")
    control.untag_resource(**arn, tagKeys=["a", "b", "with a/slash:=+@-._", "never"])
    assert control.list_tags_for_resource(**arn)["tags"] == {}
    with pytest.raises(ClientError) as raised:
        control.tag_resource(**arn, tags={f"k{number}": "" for number in range(51)})
    assert raised.value.response["Error"]["Code"] in {"ValidationException", "ServiceQuotaExceededException"}


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:bedrock-agentcore:us-west-2:aws:code-interpreter/aws.codeinterpreter.v1",
        "arn:aws:s3:::a-bucket-of-some-length",
        "short",
    ],
)
def test_what_cannot_have_tags_is_invalid(account: Account, arn: str) -> None:
    reply = ask(account, "GET", f"/tags/{quote(arn, safe='')}")
    assert (reply.status, reply.code) == (400, "ValidationException"), reply


def test_tags_of_an_interpreter_that_is_not_there_are_not_found(control: Any) -> None:
    arn = "arn:aws:bedrock-agentcore:us-west-2:000000000000:code-interpreter-custom/none-AAAAAAAAAA"
    assert code_of(lambda: control.list_tags_for_resource(resourceArn=arn)) == "ResourceNotFoundException"
    assert code_of(lambda: control.tag_resource(resourceArn=arn, tags={"a": "b"})) == "ResourceNotFoundException"
    assert code_of(lambda: control.untag_resource(resourceArn=arn, tagKeys=["a"])) == "ResourceNotFoundException"
