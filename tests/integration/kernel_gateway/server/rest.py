"""The REST face in one small class, so that these tests read as what a caller does."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

import httpx

from sandcell.transport import make_verification
from tests.running_service import RunningService


class Rest:
    """Calls one service as one principal; answers are the JSON bodies."""

    def __init__(self, service: RunningService, token: str | None = None) -> None:
        self.http = httpx.Client(
            base_url=service.url,
            headers={"Authorization": f"Bearer {token or service.token}"},
            timeout=180,
            verify=make_verification(service.url),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def get(self, path: str) -> Any:
        return self._json(self.http.get(path))

    def post(self, path: str, **body: Any) -> Any:
        return self._json(self.http.post(path, json=body))

    def session(self, **body: Any) -> LiveSession:
        return LiveSession(self, self.post("/v1/sessions", **body))

    @staticmethod
    def _json(answer: httpx.Response) -> Any:
        assert answer.is_success, f"{answer.status_code} {answer.text}"
        return answer.json()


class LiveSession:
    """One session; ends with the `with` block."""

    def __init__(self, rest: Rest, shown: dict[str, Any]) -> None:
        self.rest = rest
        self.id = shown["id"]
        self.path = f"/v1/sessions/{self.id}"
        self.workspace_id = shown["workspace_id"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest.http.delete(self.path)

    def show(self) -> Any:
        return self.rest.get(self.path)

    def run(self, code: str, **options: Any) -> Any:
        """The outcome of an execution."""
        return self.rest.post(f"{self.path}/executions", code=code, **options)

    def submit(self, code: str, **options: Any) -> Any:
        """The row of an execution that goes on by itself."""
        return self.run(code, wait=False, **options)

    def outcome(self, execution_id: str, deadline_seconds: float = 120) -> Any:
        """Poll until the execution has ended."""
        give_up = time.monotonic() + deadline_seconds
        while True:
            shown = self.rest.get(f"{self.path}/executions/{execution_id}")
            if shown["status"] not in {"queued", "running"}:
                return shown
            assert time.monotonic() < give_up, f"the execution is still {shown['status']}"
            time.sleep(0.05)

    def works(self) -> None:
        """The next execution is an ordinary one."""
        outcome = self.run("6 * 7")
        assert outcome["status"] == "ok", outcome
        assert outcome["outputs"][0]["data"]["text/plain"] == "42"

    def stop(self) -> Any:
        answer = self.rest.http.delete(self.path)
        assert answer.is_success, answer.text
        return self.show()


def seen_from(rest: Rest, session: LiveSession) -> LiveSession:
    """The same session, asked for elsewhere."""
    return LiveSession(rest, rest.get(session.path))
