"""Bodies of requests, as LibreChat's clients send them. Fields that are not known are left out of account."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

MOST_INPUTS = 1_000
"""Files that one run names."""
MOST_ARGUMENTS = 1_000
LONGEST_HINT = 1_024


class InputFile(msgspec.Struct):
    """A file that the code is to find: older clients call its storage session `session_id`."""

    id: str
    name: str
    storage_session_id: str | None = None
    session_id: str | None = None
    kind: str | None = None

    @property
    def session(self) -> str:
        return self.storage_session_id or self.session_id or ""

    @property
    def is_shared(self) -> bool:
        """Whether it belongs to an agent or a skill, and so to many conversations."""
        return self.kind not in (None, "user")


class ExecuteCode(msgspec.Struct):
    """`timeout` is in milliseconds. `runtime_session_hint` names a conversation whose runs share a sandbox."""

    lang: str
    code: str
    args: Annotated[list[str], msgspec.Meta(max_length=MOST_ARGUMENTS)] | None = None
    files: Annotated[list[InputFile], msgspec.Meta(max_length=MOST_INPUTS)] | None = None
    session_id: str | None = None
    runtime_session_hint: Annotated[str, msgspec.Meta(max_length=LONGEST_HINT)] | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


class Anything(msgspec.Struct):
    """Of what is not supported."""

    code: Any = None
