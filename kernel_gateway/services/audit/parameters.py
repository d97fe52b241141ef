"""What the audit log keeps of a request's parameters and of an answer: names and numbers, never content. Pure.

Code and commands become their length and SHA-256, which can be compared with the session's notebook; the bodies of
files become their length. Text under a name that is not listed here becomes its length too: a new member is hidden
until a developer has thought about it. Names are those of every face, in its own spelling.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from kernel_gateway.services.audit.text import cut_text

LONGEST_SHOWN = 300
MOST_SHOWN = 20
"""Entries of one list or object."""
MOST_LEVELS = 6
HASHED = frozenset({"code", "command"})
"""Shown by length and SHA-256."""
OPEN = frozenset({"labels", "set", "tags"})
"""Objects whose keys are the caller's; their texts are shown."""
COUNTED = frozenset({"data", "state", "variables"})
"""Texts of which the length is kept, and objects of which the number of entries is: either may have secrets."""
SHOWN = frozenset(
    {
        *("accessPointArn", "agent", "agent_id", "agents", "apt", "can", "clientToken", "codeInterpreterArn"),
        *("codeInterpreterId", "codeInterpreterIdentifier", "createdAt", "cursor", "description"),
        *("detached_from", "directory", "directoryPath", "environment", "environment_id", "error_code", "event"),
        *("executionRoleArn", "execution_id", "fileSystemArn", "id", "image", "image_id", "key_id", "kind"),
        "language",
        *("lastUpdatedAt", "mode", "model_id", "mountPath", "name", "network", "networkMode", "nextToken", "on_busy"),
        *("path", "paths", "principal", "remove", "resourceArn", "role_arn", "runtime", "secretArn"),
        *("securityGroups", "sessionId", "session_id", "since", "status", "subnets", "tagKeys", "tag_keys"),
        *("taskId", "taskStatus", "task_id", "token_id", "traceId", "traceParent", "type", "until"),
        *(
            "continue_session",
            "encoding",
            "format",
            "inputs",
            "packages",
            "replay_id",
            "replay_of",
            "session",
            "sync",
            "to",
            "to_path",
        ),
        *("expires_at", "workspace_id", "scope", "sessions", "sha256", "upload_id"),
        *("codeLanguage", "defaultContainerCategory", "displayName", "engine", "expireTime", "location"),
        *("machineConfig", "operation", "owner", "project", "sandbox", "sandboxEnvironmentTemplate", "snapshot"),
        *("template", "ttl"),
    }
)
"""Names of texts that are shown as they are, cut to `LONGEST_SHOWN`."""
ANSWERED = frozenset(
    {
        *("access_key_id", "environment", "execution_count", "exit_code", "generation", "id", "image"),
        *("key_id", "kind", "name", "path", "principal", "session_id", "size", "status", "task_id"),
        *("dry_run", "expires_at", "file_count", "overwritten", "pending", "size_bytes", "timed_out", "workspace_id"),
    }
)
"""What is kept of an answer on the REST face; of nothing else even the name."""


def select_values(values: Any) -> dict[str, Any]:
    """Members of a request, an object's or a struct's, as the log keeps them; those that are not given are left out."""
    return _members(values, 1)


def select_answer(value: Any) -> dict[str, Any] | None:
    """What the log keeps of an answer; None when that is nothing."""
    if not isinstance(value, msgspec.Struct):
        return None
    return select_values({name: each for name, each in _list_members(value) if name in ANSWERED}) or None


def digest(content: str) -> dict[str, Any]:
    """Code, without the code."""
    encoded = content.encode("utf-8", "surrogatepass")
    return {"characters": len(content), "sha256": hashlib.sha256(encoded).hexdigest()}


def _members(values: Any, level: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in _list_members(values):
        if len(kept) == MOST_SHOWN:
            kept["omitted"] = sum(1 for _ in _list_members(values)) - MOST_SHOWN
            break
        kept[_text(name)] = _one(name, value, level)
    return kept


def _list_members(values: Any) -> Iterator[tuple[str, Any]]:
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(values, msgspec.Struct):
        names = zip(values.__struct_encode_fields__, values.__struct_fields__, strict=True)
        pairs = ((name, getattr(values, attribute)) for name, attribute in names)
    elif isinstance(values, Mapping):
        pairs = values.items()
    return ((str(name), value) for name, value in pairs if value is not None and value is not msgspec.UNSET)


def _one(name: str, value: Any, level: int) -> Any:
    if isinstance(value, str):
        return _select_text(name, value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview | msgspec.Raw):
        return {"bytes": len(memoryview(value))}
    return {"omitted": True} if level == MOST_LEVELS else _several(name, value, level)


def _several(name: str, value: Any, level: int) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        items = [_one(name, each, level + 1) for each in islice(value, MOST_SHOWN)]
        return items if len(value) <= MOST_SHOWN else [*items, {"omitted": len(value) - MOST_SHOWN}]
    if isinstance(value, dict) and name in COUNTED:
        return {"entries": len(value)}
    if isinstance(value, dict) and name in OPEN:
        return {_text(str(key)): _text(str(each)) for key, each in islice(value.items(), MOST_SHOWN)}
    return _members(value, level + 1) if isinstance(value, msgspec.Struct | Mapping) else _text(str(value))


def _select_text(name: str, text: str) -> Any:
    if name in HASHED:
        return digest(text)
    return _text(text) if name in SHOWN else {"characters": len(text)}


def _text(text: str) -> str:
    return cut_text(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "...")
