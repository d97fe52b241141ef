"""Names of code interpreters and sessions as this face has them, and as the services have them. Pure.

`aws.codeinterpreter.v1` is the environment of the setting `agentcore_environment`, or the first of `SYSTEMS` that there
is; every other code interpreter is an environment under its own id. Wherever one is named its ARN will do. A session's
id is ours without the dashes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Final

import msgspec

from kernel_gateway.errors import NotFound
from kernel_gateway.settings import Settings

SYSTEM: Final = "aws.codeinterpreter.v1"
SYSTEMS: Final = ("data", "python")
"""What the system interpreter is where no setting says it."""
CUSTOM_ID: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,47}-[a-zA-Z0-9]{10}")
_ARN: Final = re.compile(
    r"arn:aws(?:-[^:]+)?:bedrock-agentcore:[a-z0-9-]+:(?P<account>aws|[0-9]{12}):"
    r"code-interpreter(?P<custom>-custom)?/(?P<id>[a-zA-Z0-9._-]+)"
)
_HEX: Final = re.compile(r"[0-9a-f]{32}")


class Identifiers(msgspec.Struct, frozen=True):
    """`account` is that of ARNs, `systems` what the system interpreter may be: the first that `is_there`."""

    account: str
    systems: tuple[str, ...]
    is_there: Callable[[str], bool]

    @classmethod
    def of(cls, settings: Settings, is_there: Callable[[str], bool]) -> Identifiers:
        chosen = settings.agentcore_environment
        return cls(settings.agentcore_account_id, (chosen,) if chosen else SYSTEMS, is_there)

    @property
    def system(self) -> str:
        """The environment that the system interpreter is now."""
        return next(filter(self.is_there, self.systems), self.systems[-1])

    def matches(self, identifier: str, environment: str) -> bool:
        """Whether a session of this environment may be of the code interpreter that is named, without a look at the
        host: a session stays the system interpreter's when another environment has been built since it began."""
        name = self._read(identifier)
        return environment in self.systems if name == SYSTEM else name == environment

    def environment(self, identifier: str) -> str:
        """The environment's id or name; raises NotFound for an ARN of something else, or of another account."""
        name = self._read(identifier)
        return self.system if name == SYSTEM else name

    def _read(self, identifier: str) -> str:
        name = identifier
        if identifier.startswith("arn:"):
            found = _ARN.fullmatch(identifier)
            custom = found is not None and bool(found["custom"])
            if found is None or found["account"] != (self.account if custom else "aws"):
                raise make_unknown_interpreter_error(identifier)
            name = found["id"]
            if custom == (name == SYSTEM):
                raise make_unknown_interpreter_error(identifier)
        return name

    def custom_arn(self, region: str, interpreter_id: str) -> str:
        """The ARN of a made environment; the region is the one that the caller signs for."""
        return f"arn:aws:bedrock-agentcore:{region}:{self.account}:code-interpreter-custom/{interpreter_id}"

    def of_resource(self, arn: str) -> str:
        """The id of the code interpreter that an ARN names, of those that can have tags; raises NotFound."""
        found = _ARN.fullmatch(arn)
        custom = found is not None and found["custom"] and found["account"] == self.account
        if found is None or not custom or not CUSTOM_ID.fullmatch(found["id"]):
            raise NotFound(
                f"there is no resource {arn[:300]!r} that could have tags: custom code interpreters have them"
            )
        return found["id"]


def make_system_arn(region: str) -> str:
    """The ARN of the interpreter that everybody has."""
    return f"arn:aws:bedrock-agentcore:{region}:aws:code-interpreter/{SYSTEM}"


def make_unknown_interpreter_error(identifier: str) -> NotFound:
    """The error for a code interpreter that is not there."""
    return NotFound(f"there is no code interpreter {identifier[:300]!r}")


def format_session_id(session_id: str) -> str:
    """One of our session ids as this face has it."""
    return session_id.replace("-", "")


def parse_session_id(shown: str) -> str:
    """The service's id of a session; raises NotFound for what cannot be one."""
    if not _HEX.fullmatch(shown):
        raise make_unknown_session_error(shown)
    return str(uuid.UUID(hex=shown))


def make_unknown_session_error(shown: str) -> NotFound:
    """The error for a session that is not there, has ended, or belongs to another principal."""
    return NotFound(
        f"there is no session {shown[:40]!r} of this code interpreter: it has ended or never was; start another"
    )
