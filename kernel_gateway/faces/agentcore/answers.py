"""What the operations answer with, in the members of the service's model. Pure."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kernel_gateway.faces.agentcore.identifiers import SYSTEM, Identifiers, format_session_id, make_system_arn
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.sessions import Session

LONGEST_NAME = 100
UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"
"""When the system interpreter was created: no time is known, and clients require one."""
SYSTEM_NAME = "aws_codeinterpreter_v1"
Status = Literal["CREATING", "CREATE_FAILED", "READY", "DELETING", "DELETE_FAILED", "DELETED"]


_STATUS: Final[dict[str, Status]] = {
    "UNAVAILABLE": "CREATE_FAILED",
    "FAILED": "CREATE_FAILED",
    "BUILDING": "CREATING",
}


class Answer(msgspec.Struct, rename="camel", omit_defaults=True):
    """Root of every answer."""


class Started(Answer):
    """Answer of StartCodeInterpreterSession."""

    code_interpreter_identifier: str
    session_id: str
    created_at: str


class Shown(Started):
    """Answer of GetCodeInterpreterSession."""

    name: str
    session_timeout_seconds: int
    status: Literal["READY", "TERMINATED"]


class Listed(Started):
    """One item of ListCodeInterpreterSessions."""

    name: str
    status: Literal["READY", "TERMINATED"]
    last_updated_at: str


class ListedSessions(Answer):
    """Answer of ListCodeInterpreterSessions."""

    items: list[Listed]
    next_token: str | UnsetType = UNSET


class Stopped(Answer):
    """Answer of StopCodeInterpreterSession."""

    code_interpreter_identifier: str
    session_id: str
    last_updated_at: str


class Created(Answer):
    """Answer of CreateCodeInterpreter."""

    code_interpreter_id: str
    code_interpreter_arn: str
    created_at: str
    status: Status


class Summary(Created):
    """One item of ListCodeInterpreters."""

    name: str
    last_updated_at: str
    description: str | UnsetType = UNSET


class NetworkConfiguration(Answer):
    """How far code reaches."""

    network_mode: Literal["PUBLIC", "SANDBOX"]


class Interpreter(Summary, kw_only=True):
    """Answer of GetCodeInterpreter."""

    network_configuration: NetworkConfiguration
    execution_role_arn: str | UnsetType = UNSET
    failure_reason: str | UnsetType = UNSET


class ListedInterpreters(Answer):
    """Answer of ListCodeInterpreters."""

    code_interpreter_summaries: list[Summary]
    next_token: str | UnsetType = UNSET


class Deleted(Answer):
    """Answer of DeleteCodeInterpreter."""

    code_interpreter_id: str
    status: Status
    last_updated_at: str


class ListedTags(Answer):
    """Answer of ListTagsForResource."""

    tags: dict[str, str]


def format_time(moment: str) -> str:
    """One of our times as AWS writes it: with three fractional digits."""
    return f"{moment[:23]}Z"


def describe_start(identifier: str, session: Session) -> Started:
    return Started(
        code_interpreter_identifier=identifier,
        session_id=format_session_id(session.id),
        created_at=format_time(session.created_at),
    )


def describe_session(identifier: str, session: Session) -> Shown:
    return Shown(
        code_interpreter_identifier=identifier,
        session_id=format_session_id(session.id),
        created_at=format_time(session.created_at),
        name=session.name[:LONGEST_NAME],
        session_timeout_seconds=session.timeout_seconds,
        status=_status(session),
    )


def _status(session: Session) -> Literal["READY", "TERMINATED"]:
    """One that is hibernated takes calls, which wake it."""
    return "TERMINATED" if session.status == "TERMINATED" else "READY"


def describe_item(identifier: str, session: Session) -> Listed:
    return Listed(
        code_interpreter_identifier=identifier,
        session_id=format_session_id(session.id),
        created_at=format_time(session.created_at),
        name=session.name[:LONGEST_NAME],
        status=_status(session),
        last_updated_at=_find_last_update(session),
    )


def describe_stop(identifier: str, session: Session) -> Stopped:
    return Stopped(
        code_interpreter_identifier=identifier,
        session_id=format_session_id(session.id),
        last_updated_at=_find_last_update(session),
    )


def _find_last_update(session: Session) -> str:
    return format_time(session.ended.at if session.ended is not None else session.last_activity_at)


def describe_creation(info: EnvironmentInfo, identifiers: Identifiers, region: str) -> Created:
    return Created(
        code_interpreter_id=info.id,
        code_interpreter_arn=identifiers.custom_arn(region, info.id),
        created_at=format_time(info.created_at or UNKNOWN_TIME),
        status="READY",
    )


def describe_interpreter(info: EnvironmentInfo, identifiers: Identifiers, region: str) -> Interpreter:
    """One code interpreter, made or the system's."""
    custom = info.kind == "made"
    created_at = format_time(info.created_at or UNKNOWN_TIME)
    return Interpreter(
        code_interpreter_id=info.id if custom else SYSTEM,
        code_interpreter_arn=identifiers.custom_arn(region, info.id) if custom else make_system_arn(region),
        name=info.name if custom else SYSTEM_NAME,
        description=info.description or UNSET,
        status=_STATUS.get(info.status, "READY"),
        failure_reason=info.failure or UNSET,
        created_at=created_at,
        last_updated_at=format_time(info.updated_at) if info.updated_at else created_at,
        network_configuration=NetworkConfiguration(
            network_mode="PUBLIC" if info.network.mode == "PUBLIC" else "SANDBOX"
        ),
        execution_role_arn=info.role_arn or UNSET,
    )


def summarize_interpreter(info: EnvironmentInfo, identifiers: Identifiers, region: str) -> Summary:
    whole = describe_interpreter(info, identifiers, region)
    return Summary(**{name: getattr(whole, name) for name in Summary.__struct_fields__})


def describe_deletion(info: EnvironmentInfo) -> Deleted:
    moment = info.updated_at or info.created_at or UNKNOWN_TIME
    return Deleted(code_interpreter_id=info.id, status="DELETED", last_updated_at=format_time(moment))
