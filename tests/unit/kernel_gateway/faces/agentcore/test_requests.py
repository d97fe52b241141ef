"""Every constraint of the model on members of a body, at its edge and one past it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agentcore import requests, unsupported
from kernel_gateway.faces.errors import MalformedJson
from kernel_gateway.faces.json_bodies import decode

SECRET = {"location": {"secretsManager": {"secretArn": "arn:aws:secretsmanager:us-west-2:123456789012:secret:a/b"}}}
EFS = {
    "efsConfiguration": {
        "accessPointArn": "arn:aws:elasticfilesystem:us-west-2:123456789012:access-point/fsap-0123abcd",
        "mountPath": "/mnt/data",
        "fileSystemArn": "arn:aws:elasticfilesystem:us-west-2:123456789012:file-system/fs-0123abcd",
    }
}
FILE_SYSTEM = "arn:aws:s3files:us-west-2:123456789012:file-system/fs-" + "0" * 17
S3 = {
    "s3FilesConfiguration": {
        "accessPointArn": f"{FILE_SYSTEM}/access-point/fsap-{'0' * 17}",
        "mountPath": "/mnt/data/",
        "fileSystemArn": FILE_SYSTEM,
    }
}
NETWORK = {"networkMode": "SANDBOX"}
CREATE = {"name": "n", "networkConfiguration": NETWORK}
VPC = {"networkMode": "VPC", "vpcConfig": {"securityGroups": ["sg-12345678"], "subnets": ["subnet-12345678"]}}


def changed(given: dict[str, Any], **members: Any) -> dict[str, Any]:
    ((name, inner),) = given.items()
    return {name: {**inner, **members}}


FITS: list[tuple[type, dict[str, Any]]] = [
    (requests.Start, {}),
    (requests.Start, {"name": "n" * 100, "sessionTimeoutSeconds": 28_800, "clientToken": "a" * 256}),
    (requests.Start, {"name": "n", "sessionTimeoutSeconds": 1, "clientToken": "a" * 33}),
    (requests.Start, {"name": None, "unknown": [1]}),
    (requests.Start, {"clientToken": "d0c0349b-2bbc-4ed9-b257-043793cdcbda", "filesystemConfigurations": []}),
    (requests.Start, {"certificates": [SECRET] * 200, "filesystemConfigurations": [EFS, S3] * 5}),
    (requests.ListSessions, {"maxResults": 100, "nextToken": "x" * 2048, "status": "READY"}),
    (
        requests.Create,
        {**CREATE, "name": "a" + "_" * 47, "description": "d" * 4096, "tags": {"k" * 128: "v" * 256}},
    ),
    (
        requests.Create,
        {**CREATE, "networkConfiguration": VPC, "executionRoleArn": "arn:aws:iam::123456789012:role/a/b"},
    ),
    (requests.Create, {**CREATE, "tags": {str(number): "" for number in range(50)}}),
    (requests.TagResource, {"tags": {}}),
    (requests.Invoke, {"name": "listFiles"}),
    (requests.Invoke, {"name": "listFiles", "arguments": None}),
]
DOES_NOT_FIT: list[tuple[type, dict[str, Any], str]] = [
    (requests.Start, {"name": ""}, "name"),
    (requests.Start, {"name": "n" * 101}, "name"),
    (requests.Start, {"name": 5}, "name"),
    (requests.Start, {"sessionTimeoutSeconds": 0}, "sessionTimeoutSeconds"),
    (requests.Start, {"sessionTimeoutSeconds": 28_801}, "sessionTimeoutSeconds"),
    (requests.Start, {"sessionTimeoutSeconds": "900"}, "sessionTimeoutSeconds"),
    (requests.Start, {"clientToken": "a" * 32}, "clientToken"),
    (requests.Start, {"clientToken": "a" * 257}, "clientToken"),
    (requests.Start, {"clientToken": "a" * 40 + "-"}, "clientToken"),
    (requests.Start, {"clientToken": "a" * 40 + "\n"}, "clientToken"),
    (requests.Start, {"certificates": []}, "certificates"),
    (requests.Start, {"certificates": [SECRET] * 201}, "certificates"),
    (requests.Start, {"certificates": [{"location": {}}]}, "certificates[0].location"),
    (requests.Start, {"filesystemConfigurations": [EFS] * 11}, "filesystemConfigurations"),
    (requests.Start, {"filesystemConfigurations": [changed(EFS, mountPath="/data")]}, "mountPath"),
    (requests.Start, {"filesystemConfigurations": [changed(EFS, mountPath="/mnt/")]}, "mountPath"),
    (requests.Start, {"filesystemConfigurations": [changed(EFS, mountPath="/mnt/" + "a" * 196)]}, "mountPath"),
    (requests.Start, {"filesystemConfigurations": [changed(EFS, accessPointArn="arn:aws:s3:::b")]}, "accessPointArn"),
    (requests.Start, {"filesystemConfigurations": [changed(S3, fileSystemArn="x")]}, "fileSystemArn"),
    (requests.ListSessions, {"maxResults": 0}, "maxResults"),
    (requests.ListSessions, {"maxResults": 101}, "maxResults"),
    (requests.ListSessions, {"nextToken": ""}, "nextToken"),
    (requests.ListSessions, {"nextToken": "a b"}, "nextToken"),
    (requests.ListSessions, {"nextToken": "x" * 2049}, "nextToken"),
    (requests.ListSessions, {"status": "ACTIVE"}, "status"),
    (requests.Create, {"name": "n"}, "networkConfiguration"),
    (requests.Create, {"networkConfiguration": NETWORK}, "name"),
    (requests.Create, {**CREATE, "name": "a-b"}, "name"),
    (requests.Create, {**CREATE, "name": "1a"}, "name"),
    (requests.Create, {**CREATE, "name": "a" * 49}, "name"),
    (requests.Create, {**CREATE, "description": ""}, "description"),
    (requests.Create, {**CREATE, "description": "d" * 4097}, "description"),
    (requests.Create, {**CREATE, "executionRoleArn": "role"}, "executionRoleArn"),
    (requests.Create, {**CREATE, "networkConfiguration": {"networkMode": "OPEN"}}, "networkMode"),
    (
        requests.Create,
        {**CREATE, "networkConfiguration": changed({"x": VPC}, vpcConfig={"subnets": ["s"]})["x"]},
        "vpcConfig",
    ),
    (requests.Create, {**CREATE, "tags": {str(number): "" for number in range(51)}}, "tags"),
    (requests.Create, {**CREATE, "tags": {"k": "v" * 257}}, "tags"),
    (requests.Create, {**CREATE, "tags": {"k" * 129: ""}}, "tags"),
    (requests.Create, {**CREATE, "tags": {"": ""}}, "tags"),
    (requests.Create, {**CREATE, "tags": {"k": "é"}}, "tags"),
    (requests.TagResource, {}, "tags"),
    (requests.Invoke, {}, "name"),
    (requests.Invoke, {"name": "executeCode", "arguments": "{}"}, "arguments"),
    (requests.Invoke, {"name": "executeCode", "arguments": {"code": 1}}, "arguments.code"),
]


@pytest.mark.parametrize(("kind", "body"), FITS)
def test_what_the_model_allows_is_taken(kind: type, body: dict[str, Any]) -> None:
    assert isinstance(decode(json.dumps(body).encode(), kind), kind)


@pytest.mark.parametrize(("kind", "body", "field"), DOES_NOT_FIT)
def test_what_it_does_not_allow_is_refused_by_name(kind: type, body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(json.dumps(body).encode(), kind)
    assert field in caught.value.details["field"]
    assert not isinstance(caught.value, MalformedJson)


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b"\xff", b'{"name": "\\ud800"}', b"{" * 100_000, b"PK\x03\x04"])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode(body, requests.Start)


def test_what_aws_has_and_we_have_not_is_refused_with_what_to_do_instead() -> None:
    unsupported.refuse(None, None, "PUBLIC")
    unsupported.refuse(None, [], "SANDBOX")
    with pytest.raises(InvalidRequest, match="use SANDBOX or PUBLIC"):
        unsupported.refuse(None, None, "VPC")
    with pytest.raises(InvalidRequest, match="writeFiles"):
        unsupported.refuse([SECRET], None)
    with pytest.raises(InvalidRequest, match="writeFiles"):
        unsupported.refuse(None, [EFS])
