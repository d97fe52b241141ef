"""What the interface's description says of values beyond their types.

The services check these by themselves, in words of their own, so it is only said and not enforced here: a client, or a
tool that makes one, knows before it asks. `from_setting` stands for what a setting says.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

SETTING: Final = "x-setting"
WORD: Final = "^[A-Za-z0-9][A-Za-z0-9._@-]*$"
PATH: Final = r"^(?!/)(?!.*//)(?!(.*/)?\.\.?(/|$))[^\u0000\r\n]*[^/\u0000\r\n]$"
"""Relative, one line, and without empty parts and parts that are `.` or `..`."""
DIRECTORY: Final = rf"^\.?$|{PATH[:-1]}/?$"
PLAIN: Final = r"^[^\u0000-\u001f\u007f-\u009f]*$"
TAG: Final = r"^[a-zA-Z0-9\s._:/=+@-]*$"


def constrain(**words: Any) -> Meta:
    """JSON Schema's words for a value, written as `minimum`, `maxLength` ..."""
    return Meta(extra_json_schema=words)


def from_setting(setting: str) -> dict[str, str]:
    """Stands for the value of a setting, which `fill_in` puts in its place."""
    return {SETTING: setting}


SECONDS: Final = constrain(exclusiveMinimum=0)
SECONDS_OF_SESSION: Final = constrain(minimum=1, maximum=from_setting("session_timeout_max_seconds"))
SECONDS_OF_EXECUTION: Final = constrain(exclusiveMinimum=0, maximum=from_setting("execution_timeout_max_seconds"))
SECONDS_OF_COMMAND: Final = constrain(exclusiveMinimum=0)
SECONDS_OF_PROGRAM: Final = constrain(exclusiveMinimum=0, maximum=from_setting("task_timeout_seconds"))
MOST_LOOK_SECONDS: Final = 30.0
"""How long a kernel may be asked to complete or inspect code."""
SECONDS_OF_LOOK: Final = constrain(exclusiveMinimum=0, maximum=MOST_LOOK_SECONDS)
MOST_KEPT_MB: Final = 10_240
KEPT_MB: Final = constrain(minimum=1, maximum=MOST_KEPT_MB)
MOST_BETWEEN: Final = 1_000
CHECKPOINT_EVERY: Final = constrain(minimum=0, maximum=MOST_BETWEEN)
CELLS: Final = constrain(minimum=1, maximum=MOST_BETWEEN)
POSITION: Final = constrain(minimum=0)
NOT_EMPTY: Final = constrain(minLength=1)
NAME: Final = constrain(maxLength=200, pattern=r"^[^\u0000]*$")
WITHOUT_NUL: Final = constrain(pattern=r"^[^\u0000]*$")
PRINTABLE: Final = constrain(pattern=PLAIN)
CURSOR: Final = constrain(minLength=1, pattern="^[!-~]*$")
Labels = Annotated[dict[Annotated[str, NAME], Annotated[str, NAME]], constrain(maxProperties=50)]
Tags = Annotated[
    dict[
        Annotated[str, constrain(minLength=1, maxLength=128, pattern=TAG)],
        Annotated[str, constrain(maxLength=256, pattern=TAG)],
    ],
    constrain(maxProperties=50),
]
COMMAND: Final = constrain(pattern=r"^[^\u0000]*[^\s\u0000][^\u0000]*$")
PRINCIPAL: Final = constrain(pattern="^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$")
ENVIRONMENT_NAME: Final = constrain(pattern="^[a-zA-Z][a-zA-Z0-9_]{0,47}$")
PACKAGES: Final = constrain(maxItems=1_000)
REQUIREMENT: Final = constrain(
    maxLength=200,
    pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?((==|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+(,(?!$))?)*$",
)
DEBIAN_PACKAGE: Final = constrain(maxLength=200, pattern=r"^[a-z0-9][a-z0-9.+-]*[a-z0-9.+](=[0-9][A-Za-z0-9.+~:-]*)?$")
ROLE_ARN: Final = constrain(pattern=r"^$|^arn:aws(-[a-z0-9-]{1,30})?:iam::([0-9]{12})?:role/[\u0021-\u007e]{1,2000}$")
DESCRIPTION: Final = constrain(pattern=r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]*$")
MEMORY_MB: Final = constrain(minimum=1_769, maximum=from_setting("memory_mb_max"))
VCPUS: Final = constrain(minimum=0.25, maximum=from_setting("vcpus_max"))
STORAGE_MB: Final = constrain(minimum=512, maximum=from_setting("storage_mb_max"))
LANGUAGE: Final = constrain(pattern=r"^[A-Za-z0-9._ +#()/-]{1,80}$")
KERNEL: Final = constrain(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
NETWORK: Final = constrain(allOf=[{"enum": from_setting("made_network_modes")}])
FILE_PATH: Final = constrain(pattern=PATH, maxLength=4_096)
DIRECTORY_PATH: Final = constrain(pattern=DIRECTORY, maxLength=4_096)
LINK_SECONDS: Final = constrain(maximum=from_setting("link_lifetime_max_seconds"))

BY_NAME: Final[dict[str, dict[str, Any]]] = {
    "path": {"type": "string", "minLength": 1, "maxLength": 4_096, "pattern": PATH},
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "agent_id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$"},
    "image_id": {"type": "string", "maxLength": 128, "pattern": "^(sha256:)?[A-Za-z0-9][A-Za-z0-9._@-]*$"},
    "Idempotency-Key": {"type": "string", "pattern": "^[ -~]{1,200}$"},
    "Last-Event-ID": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "If-Match": {"type": "string", "maxLength": 8_192, "pattern": r'^(\*|(W/)?"[!#-~]*"(, *(W/)?"[!#-~]*")*)$'},
    "If-None-Match": {"type": "string", "maxLength": 8_192, "pattern": r'^(\*|(W/)?"[!#-~]*"(, *(W/)?"[!#-~]*")*)$'},
}
"""Parameters of addresses, and headers; a parameter that is not here is an id."""
ID: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": WORD}
COMMANDS: Final = {
    "not": {
        "required": ["background", "sync"],
        "properties": {"background": {"const": True}, "sync": {"type": "string"}},
    },
    "if": {"required": ["background"], "properties": {"background": {"const": True}}},
    "then": {"properties": {"timeout_seconds": {"maximum": from_setting("task_timeout_seconds")}}},
    "else": {"properties": {"timeout_seconds": {"maximum": from_setting("command_timeout_seconds")}}},
}
TOGETHER: Final[dict[str, dict[str, Any]]] = {
    "Submission": {
        "allOf": [
            {
                "if": {"properties": {"language": {"const": "python"}}},
                "then": {"properties": {"runtime": {"not": {"enum": ["deno", "nodejs"]}}}},
                "else": {"properties": {"runtime": {"not": {"const": "python"}}, "clear_context": {"const": False}}},
            }
        ]
    },
    "CommandRequest": COMMANDS,
    "ReplayRequest": {
        "oneOf": [
            {
                "required": ["notebook"],
                "properties": {
                    "notebook": {"type": ["object", "string"], "pattern": r"\S"},
                    "session_id": {"type": "null"},
                },
            },
            {
                "required": ["session_id"],
                "properties": {"notebook": {"type": "null"}, "session_id": {"type": "string"}},
            },
        ],
        "if": {"required": ["continue_session"], "properties": {"continue_session": {"type": "string"}}},
        "then": {"properties": {"environment": {"enum": ["", None]}, "inputs": {"enum": ["", None]}}},
    },
}
"""What members of a body have to do with each other, by the body's type."""


def fill_in(value: Any, settings: Any) -> Any:
    """The same with the values of settings; of one that is a list in a text, the list."""
    if isinstance(value, dict):
        if value.keys() == {SETTING}:
            found = getattr(settings, value[SETTING])
            return found.split(",") if isinstance(found, str) else found
        return {name: fill_in(each, settings) for name, each in value.items()}
    return [fill_in(each, settings) for each in value] if isinstance(value, list) else value
