"""What is answered: engines, sandboxes, snapshots, templates and operations in Google's members. Pure.

An operation is what its resource says of it, so it is kept as long as that is: `{resource}/operations/create`, and
`/delete` once it is deleted. All are done when they are first answered.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from kernel_gateway.faces.agent_engine.names import Place
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.storage.agent_engine import SESSIONS, ResourceRow

Verb = Literal["create", "delete", "pause", "resume"]
TYPES: Final = "type.googleapis.com/google.cloud.aiplatform.v1beta1"
MESSAGES: Final = {
    "engine": "ReasoningEngine",
    "sandbox": "SandboxEnvironment",
    "snapshot": "SandboxEnvironmentSnapshot",
    "template": "SandboxEnvironmentTemplate",
}
STATES: Final = {
    "READY": "STATE_RUNNING",
    "HIBERNATED": "STATE_PAUSED",
    "TERMINATED": "STATE_TERMINATED",
    None: "STATE_DELETED",
}


def place_of(row: ResourceRow) -> Place:
    """Where a resource is; what is made in an engine is where that is, however short the address was."""
    return Place(row.project, row.location)


def name_of(row: ResourceRow) -> str:
    place = place_of(row)
    return place.engine(row.id) if row.engine_id is None else place.child(row.engine_id, row.kind, row.id)


def describe(row: ResourceRow) -> dict[str, Any]:
    """One of any kind."""
    created = rfc3339(row.created)
    answer: dict[str, Any] = {"name": name_of(row), "createTime": created, "updateTime": created, **row.content}
    if row.display_name:
        answer["displayName"] = row.display_name
    if row.kind == "template":
        answer["state"] = "DELETED" if row.deleted is not None else "ACTIVE"
    if row.kind == "sandbox":
        gone = row.deleted is not None
        answer["state"] = STATES[None if gone else row.status]
        answer["updateTime"] = rfc3339(row.last_activity or row.created)
    if row.kind in SESSIONS:
        answer["expireTime"] = rfc3339(row.expires or row.created)
    return answer


def describe_operation(row: ResourceRow, verb: Verb) -> dict[str, Any]:
    """The creation or deletion of a resource, which is done."""
    message = MESSAGES[row.kind]
    at = rfc3339(row.created if row.deleted is None else row.deleted)
    metadata = {
        "@type": f"{TYPES}.{verb.title()}{message}OperationMetadata",
        "genericMetadata": {"createTime": at, "updateTime": at},
    }
    response = {"@type": "type.googleapis.com/google.protobuf.Empty"}
    if verb != "delete":
        response = {"@type": f"{TYPES}.{message}", **describe(row)}
    return {"name": f"{name_of(row)}/operations/{verb}", "metadata": metadata, "done": True, "response": response}
