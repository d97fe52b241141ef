"""A service whose administrator has an access key, and boto3 clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.running_service import RunningService

KEY, SECRET = "AKIDOFTHEADMIN", "the-secret-of-the-administrators-key"
SYSTEM = "aws.codeinterpreter.v1"


@dataclass
class Caller:
    """One access key at one service."""

    service: RunningService
    key: str = KEY
    secret: str = SECRET
    prefix: str = ""

    def client(self, name: str = "bedrock-agentcore", **config: Any) -> Any:
        return boto3.client(
            name,
            region_name="us-west-2",
            endpoint_url=self.service.url + self.prefix,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            config=Config(**{"retries": {"total_max_attempts": 1}, "read_timeout": 60, **config}),
        )

    def start(self, **members: Any) -> Live:
        client = self.client()
        started = client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, **members)
        return Live(client, started["sessionId"])


@dataclass
class Live:
    """One session of a caller."""

    client: Any
    id: str

    def call(self, name: str, client: Any = None, **arguments: Any) -> dict[str, Any]:
        """The one result of an invocation."""
        stream = (client or self.client).invoke_code_interpreter(
            codeInterpreterIdentifier=SYSTEM, sessionId=self.id, name=name, arguments=arguments
        )["stream"]
        (event,) = list(stream)
        return dict(event["result"])

    def code(self, code: str) -> str:
        result = self.call("executeCode", code=code)
        assert result["isError"] is False, result
        return str(result["content"][0]["text"])

    def stop(self) -> None:
        self.client.stop_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, sessionId=self.id)


@pytest.fixture(scope="module")
def caller(make_service: Callable[..., RunningService]) -> Caller:
    """A service of this module alone, with room for one large request at a time."""
    return Caller(
        make_service(
            access_key_id=KEY,
            secret_access_key=SECRET,
            invocations_per_second=1000,
            session_timeout_seconds=600,
            session_timeout_max_seconds=600,
            agentcore_keep_alive_seconds=0.5,
            agentcore_hold_seconds=0.5,
            body_memory_bytes=80_000_000,
        )
    )


@pytest.fixture
def live(caller: Caller) -> Iterator[Live]:
    """A session of the administrator's."""
    session = caller.start(name="of a test")
    yield session
    session.stop()
