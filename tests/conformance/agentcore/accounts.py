"""Access keys at an endpoint, the boto3 clients that use them, and sessions as boto3 sees them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

REGION = "us-west-2"
KEY, SECRET = "SCAKCONFORMANCETESTS", "the/secret+of/the+conformance/tests/0123"
SYSTEM = "aws.codeinterpreter.v1"
DATA, CONTROL = "bedrock-agentcore", "bedrock-agentcore-control"


@dataclass(frozen=True)
class Account:
    """An access key at an endpoint, and boto3 clients that use it."""

    url: str
    key: str = KEY
    secret: str = SECRET

    def client(self, service: str = DATA, **config: Any) -> Any:
        """A client that does not try again unless `config` says so."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            config=Config(**{"retries": {"total_max_attempts": 1}, "read_timeout": 600, **config}),
        )

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a client's script: endpoint and key as every client reads them, and nothing else."""
        return {
            "PATH": os.environ["PATH"],
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL_BEDROCK_AGENTCORE": self.url,
            "AWS_ENDPOINT_URL_BEDROCK_AGENTCORE_CONTROL": self.url,
            "BEDROCK_AGENTCORE_DP_ENDPOINT": self.url,
            "BEDROCK_AGENTCORE_CP_ENDPOINT": self.url,
        }


@dataclass(frozen=True)
class Session:
    """A session and its tools, through a boto3 client."""

    client: Any
    id: str
    identifier: str = SYSTEM

    def call(self, tool: str, **arguments: Any) -> Any:
        """The one result of an invocation."""
        answer = self.client.invoke_code_interpreter(
            codeInterpreterIdentifier=self.identifier, sessionId=self.id, name=tool, arguments=arguments
        )
        (event,) = list(answer["stream"])
        return event["result"]

    def code(self, text: str, language: str = "python", **arguments: Any) -> str:
        """What code printed; it did not fail."""
        result = self.call("executeCode", code=text, language=language, **arguments)
        assert not result["isError"], result
        return str(result["structuredContent"]["stdout"])

    def stop(self) -> Any:
        return self.client.stop_code_interpreter_session(codeInterpreterIdentifier=self.identifier, sessionId=self.id)

    def show(self) -> Any:
        return self.client.get_code_interpreter_session(codeInterpreterIdentifier=self.identifier, sessionId=self.id)
