"""The AWS SDK pointed at our service, as the benchmarks of the AgentCore face use it."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from tests.running_service import RunningService

ACCESS_KEY = "SCAKBENCHMARKBENCHMA"
SECRET_KEY = "benchmark-secret-benchmark-secret-123456"
REGION = "eu-central-1"
INTERPRETER = "aws.codeinterpreter.v1"
_session_lock = threading.Lock()


class Interpreter:
    """One boto3 client; calls that fail raise, and a result that is an error fails the benchmark."""

    def __init__(self, service: RunningService, connections: int = 10) -> None:
        with _session_lock:  # boto3 says that sessions are not for several threads
            session = boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
            self._client = session.client(
                "bedrock-agentcore",
                endpoint_url=service.url,
                config=Config(max_pool_connections=connections, read_timeout=300, retries={"total_max_attempts": 1}),
            )

    def start(self) -> str:
        answer = self._client.start_code_interpreter_session(
            codeInterpreterIdentifier=INTERPRETER, sessionTimeoutSeconds=3_600
        )
        return str(answer["sessionId"])

    def stop(self, session: str) -> None:
        self._client.stop_code_interpreter_session(codeInterpreterIdentifier=INTERPRETER, sessionId=session)

    def invoke(self, session: str, name: str, **arguments: Any) -> dict[str, Any]:
        """The one result of a tool."""
        answer = self._client.invoke_code_interpreter(
            codeInterpreterIdentifier=INTERPRETER, sessionId=session, name=name, arguments=arguments
        )
        results = [event["result"] for event in answer["stream"] if "result" in event]
        assert len(results) == 1, results
        assert not results[0].get("isError"), results[0]["content"]
        return dict(results[0])

    def add(self, session: str) -> None:
        """`1+1`, and that it is 2."""
        result = self.invoke(session, "executeCode", code="1+1", language="python")
        assert [block["text"] for block in result["content"]] == ["2"], result
