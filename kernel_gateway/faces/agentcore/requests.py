"""What the operations take, with every constraint of the service's model: clients check few of them. Pure.

A request has two parts, each read on its own: the body, and what stands outside of it (labels of the address, query,
headers). A member that is null counts as absent; unknown members are ignored, as AWS does.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kernel_gateway.faces.agentcore.blobs import SentArguments

_ARN = r"^arn:aws[-a-z]*"
_S3_FILES = rf"{_ARN}:s3files:[0-9a-z-:]+:file-system/fs-[0-9a-f]{{17,40}}"

Trace = Annotated[str, Meta(max_length=1024)]
ClientToken = Annotated[str, Meta(min_length=33, max_length=256, pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,256}\Z")]
SessionId = Annotated[str, Meta(min_length=1, max_length=40, pattern=r"^[0-9a-zA-Z]{1,40}\Z")]
MaxResults = Annotated[int, Meta(ge=1, le=100)]
NextToken = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^\S*\Z")]
TagKey = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[a-zA-Z0-9\s._:/=+@-]*\Z")]
TagValue = Annotated[str, Meta(max_length=256, pattern=r"^[a-zA-Z0-9\s._:/=+@-]*\Z")]
Tags = Annotated[dict[TagKey, TagValue], Meta(max_length=50)]
ResourceArn = Annotated[
    str,
    Meta(
        min_length=20,
        max_length=1011,
        pattern=r"^arn:(?:[^:]+)?:bedrock-agentcore:[a-z0-9-]+:[0-9]{12}:([a-z-]+/[^/]+)(?:/[a-z-]+/[^/]+)*\Z",
    ),
]
RoleArn = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+\Z")]
SecretArn = Annotated[
    str, Meta(pattern=r"^arn:aws(-[a-z-]+)?:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[a-zA-Z0-9/_+=.@-]+\Z")
]
MountPath = Annotated[str, Meta(min_length=6, max_length=200, pattern=r"^/mnt/[a-zA-Z0-9._-]+/?\Z")]
SecurityGroup = Annotated[str, Meta(pattern=r"^sg-[0-9a-zA-Z]{8,17}\Z")]
Subnet = Annotated[str, Meta(pattern=r"^subnet-[0-9a-zA-Z]{8,17}\Z")]


class Members(msgspec.Struct, rename="camel"):
    """Root of every part of a request."""


class SecretsManager(Members):
    """Where a certificate is, on AWS."""

    secret_arn: SecretArn


class CertificateLocation(Members):
    """A union of one member."""

    secrets_manager: SecretsManager


class Certificate(Members):
    """A certificate authority that a session would trust."""

    location: CertificateLocation


class S3Files(Members):
    """An S3 Files access point to mount."""

    access_point_arn: Annotated[
        str, Meta(max_length=256, pattern=rf"{_S3_FILES}/access-point/fsap-[0-9a-f]{{17,40}}\Z")
    ]
    mount_path: MountPath
    file_system_arn: Annotated[str, Meta(max_length=256, pattern=rf"{_S3_FILES}\Z")]


class Efs(Members):
    """An EFS access point to mount."""

    access_point_arn: Annotated[
        str,
        Meta(max_length=128, pattern=rf"{_ARN}:elasticfilesystem:[0-9a-z-:]+:access-point/fsap-[0-9a-f]{{8,40}}\Z"),
    ]
    mount_path: MountPath
    file_system_arn: Annotated[str, Meta(max_length=256)]


class FileSystem(Members):
    """A union: exactly one of both."""

    s3_files_configuration: S3Files | None = None
    efs_configuration: Efs | None = None


Certificates = Annotated[list[Certificate], Meta(min_length=1, max_length=200)]
FileSystems = Annotated[list[FileSystem], Meta(max_length=10)]


class Addressed(Members):
    """Outside of the body: whose session it is about."""

    code_interpreter_identifier: str


class StartAddressed(Addressed):
    """The idle timeout is ours: the model has none, so it stands in a header of its own."""

    trace_id: Trace | None = None
    trace_parent: Trace | None = None
    idle_timeout_seconds: Annotated[int, Meta(ge=1, le=1_209_600)] | None = None


class Start(Members):
    """Body of StartCodeInterpreterSession."""

    name: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    session_timeout_seconds: Annotated[int, Meta(ge=1, le=28_800)] | None = None
    certificates: Certificates | None = None
    filesystem_configurations: FileSystems | None = None
    client_token: ClientToken | None = None


class SessionAddressed(Addressed):
    """Outside of the body of Get and Stop."""

    session_id: SessionId
    trace_id: Trace | None = None
    trace_parent: Trace | None = None


class ListSessions(Members):
    """Body of ListCodeInterpreterSessions."""

    max_results: MaxResults | None = None
    next_token: NextToken | None = None
    status: Literal["READY", "TERMINATED"] | None = None


class Stop(Members):
    """Body of StopCodeInterpreterSession."""

    client_token: ClientToken | None = None


class Invoke(Members):
    """Body of InvokeCodeInterpreter; `tools` knows the names and what each tool needs."""

    name: str
    arguments: SentArguments | None = None


class VpcConfig(Members):
    """A network of AWS."""

    security_groups: Annotated[list[SecurityGroup], Meta(min_length=1, max_length=16)]
    subnets: Annotated[list[Subnet], Meta(min_length=1, max_length=16)]
    require_service_s3_endpoint: bool | None = msgspec.field(default=None, name="requireServiceS3Endpoint")


class NetworkConfiguration(Members):
    """How far code may reach."""

    network_mode: Literal["PUBLIC", "SANDBOX", "VPC"]
    vpc_config: VpcConfig | None = None


class Create(Members):
    """Body of CreateCodeInterpreter."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z][a-zA-Z0-9_]{0,47}\Z")]
    network_configuration: NetworkConfiguration
    description: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    execution_role_arn: RoleArn | None = None
    certificates: Certificates | None = None
    filesystem_configurations: FileSystems | None = None
    client_token: ClientToken | None = None
    tags: Tags | None = None


class Interpreter(Members):
    """Outside of the body: which code interpreter."""

    code_interpreter_id: str


class ListInterpreters(Members):
    """The query of ListCodeInterpreters, which has no body."""

    max_results: MaxResults | None = None
    next_token: NextToken | None = None
    type: Literal["SYSTEM", "CUSTOM"] | None = None


class DeleteInterpreter(Interpreter):
    """Everything of DeleteCodeInterpreter."""

    client_token: ClientToken | None = None


class Resource(Members):
    """Outside of the body: what is tagged."""

    resource_arn: ResourceArn


class UntagResource(Resource):
    """Everything of UntagResource."""

    tag_keys: Annotated[list[TagKey], Meta(max_length=200)]


class TagResource(Members):
    """Body of TagResource."""

    tags: Tags


class Nothing(Members):
    """No member."""
