"""What all routes of the guest share: arguments, JSON, and refusals in one shape."""

from __future__ import annotations

import json
import os
from typing import Any

from tornado.web import RequestHandler

from ..refusal import Refusal, refusal_of
from .control import Control

_CODES = {404: "not_found", 405: "method_not_allowed"}


class Handler(RequestHandler):
    """A route of the guest. Subclasses raise `Refusal` or OSError to refuse."""

    def initialize(self, control: Control) -> None:
        self.control = control

    def field(self, name: str, *kinds: type) -> Any:
        """A field of the request's JSON object that must be of one of these types."""
        try:
            body = json.loads(self.request.body)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, "invalid_request", f"the body is not JSON: {error}") from error
        value = body.get(name) if isinstance(body, dict) else None
        if type(value) not in kinds:
            raise Refusal(400, "invalid_request", f"{name} is missing or not of type {kinds[0].__name__}")
        return value

    def path_argument(self, name: str = "path") -> str:
        """The `path` of the query: any bytes, percent-encoded."""
        return os.fsdecode(self.request.query_arguments.get(name, [b""])[-1])

    def number_argument(self, name: str, default: int) -> int:
        """A decimal number of the query."""
        value = self.get_query_argument(name, str(default))
        if not value.isdecimal() or len(value) > 18:
            raise Refusal(400, "invalid_request", f"{name} must be a number")
        return int(value)

    def flag_argument(self, name: str) -> bool:
        """Whether the query says `name=true`."""
        return self.get_query_argument(name, "false") == "true"

    def answer(self, value: Any) -> None:
        """Answer with JSON; names that are not UTF-8 travel as escaped surrogates."""
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(value))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        refusal = refusal_of(error) if isinstance(error, OSError) else error
        if isinstance(refusal, Refusal):
            self.set_status(refusal.status)
        else:
            refusal = Refusal(status_code, _CODES.get(status_code, "failed"), self._reason)
        self.answer({"code": refusal.code, "message": str(refusal)})

    def log_exception(self, *details: Any) -> None:
        if not isinstance(details[1], (Refusal, OSError)):
            super().log_exception(*details)

    def break_off(self) -> None:
        """End an answer that cannot be completed, so that no client takes it for a whole one."""
        self._finished = True
        connection: Any = self.request.connection
        connection.stream.close()


class UnknownHandler(Handler):
    """Any address that is not a route."""

    def prepare(self) -> None:
        raise Refusal(404, "not_found", "no such route")
