"""The tools: names, descriptions, arguments. Every protocol and framework gets them from here.

The arguments of a tool are a struct, from which its JSON schema is made and by which a call is checked. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sandcell.errors import InvalidRequest

DEFAULT_SESSION: Final = "default"
MOST_PACKAGES: Final = 50
"""Packages that one call installs."""
MOST_OUTPUT_BYTES: Final = 1_000_000
"""The most that a call may ask to be shown."""
MOST_UNDONE: Final = 100
"""Cells that one call takes back."""
LONGEST_NAME: Final = 100
"""The name of a session, in characters."""

SessionName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        description="Which session: `default`, a name given to `start_session`, or a session's id",
    ),
]
OutputBytes = (
    Annotated[
        int,
        Meta(
            ge=1_000,
            le=MOST_OUTPUT_BYTES,
            description="How much text to show; what is cut can be read with `read_file` at the address that is given",
        ),
    ]
    | UnsetType
)
Seconds = Annotated[float, Meta(gt=0, description="It is stopped after this long")] | UnsetType


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Root of the arguments of tools; each works in a session."""

    session: SessionName = DEFAULT_SESSION


class RunPython(Arguments, kw_only=True):
    """Arguments of run_python."""

    code: Annotated[str, Meta(description="Python code, as in a notebook cell: the last expression's value is shown")]
    timeout_seconds: Seconds = UNSET
    max_output_bytes: OutputBytes = UNSET


class RunShell(Arguments, kw_only=True):
    """Arguments of run_shell."""

    command: Annotated[str, Meta(min_length=1, description="A command line for bash, run in /workspace")]
    timeout_seconds: Seconds = UNSET
    max_output_bytes: OutputBytes = UNSET


class InstallPackages(Arguments, kw_only=True):
    """Arguments of install_packages."""

    packages: Annotated[
        list[Annotated[str, Meta(pattern=r"^[A-Za-z0-9]", max_length=200)]],
        Meta(min_length=1, max_length=MOST_PACKAGES, description="Requirements as pip reads them: `name`, `name==1.2`"),
    ]
    timeout_seconds: Seconds = UNSET


class WriteFile(Arguments, kw_only=True):
    """Arguments of write_file."""

    path: Annotated[str, Meta(min_length=1, description="Path below /workspace; its directories are made")]
    content: Annotated[str, Meta(description="The whole content of the file")]
    encoding: Annotated[Literal["utf-8", "base64"], Meta(description="base64 for what is not text")] = "utf-8"


class ReadFile(Arguments, kw_only=True):
    """Arguments of read_file."""

    path: Annotated[
        str, Meta(min_length=1, description="Path below /workspace, or a `sandcell://` address of a result")
    ]
    offset: Annotated[int, Meta(ge=0, description="The first byte to read")] = 0
    max_output_bytes: OutputBytes = UNSET


class ListFiles(Arguments, kw_only=True):
    """Arguments of list_files."""

    path: Annotated[str, Meta(description="A directory below /workspace; empty for all of it")] = ""
    recursive: Annotated[bool, Meta(description="Also what is in its directories")] = False


class ListVariables(Arguments, kw_only=True):
    """Arguments of list_variables."""


class Interrupt(Arguments, kw_only=True):
    """Arguments of interrupt."""


class Restart(Arguments, kw_only=True):
    """Arguments of restart."""


class Undo(Arguments, kw_only=True):
    """Arguments of undo."""

    cells: Annotated[
        int, Meta(ge=1, le=MOST_UNDONE, description="How many calls that ran code or a command are taken back")
    ] = 1


class StartSession(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Arguments of start_session."""

    session: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="The name it gets here")]
    environment: (
        Annotated[str, Meta(description="The environment it is made from; left out, that of the default session")]
        | UnsetType
    ) = UNSET
    workspace_id: (
        Annotated[str, Meta(description="Go on with the files of this workspace, of a session that has ended")]
        | UnsetType
    ) = UNSET
    fork_of: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=LONGEST_NAME,
                description="Begin with the variables and the files that this session has now, and leave that one as "
                "it is: to try several ways from one state. Give no environment and no workspace_id then",
            ),
        ]
        | UnsetType
    ) = UNSET


class StopSession(Arguments, kw_only=True):
    """Arguments of stop_session."""


class Replay(Arguments, kw_only=True):
    """Arguments of replay."""

    with_files: (
        Annotated[
            bool,
            Meta(
                description="Begin with a copy of the session's files as they are now. Else only those are there that "
                "the code itself writes, and none from `write_file` or an upload"
            ),
        ]
        | UnsetType
    ) = UNSET
    max_output_bytes: OutputBytes = UNSET


@dataclass(frozen=True)
class Tool:
    """A tool; what it says of itself in an environment is made by `manifest`.

    `read_only`: it changes nothing. `destructive`: it may undo or overwrite what is there. `idempotent`: doing it twice
    is as doing it once. `runs_code`: it reaches as far as the environment's network does.
    """

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    runs_code: bool = False


TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        "run_python",
        "Run Python",
        "Run Python code in a session whose variables, imports and files stay from call to call. Shows what was "
        "printed, the value of the last expression, plots as images, and the traceback of an exception.",
        RunPython,
        destructive=True,
        runs_code=True,
    ),
    Tool(
        "run_shell",
        "Run a shell command",
        "Run a command line with bash in the session's sandbox, beside its Python: same files, same packages. Shows "
        "stdout, stderr and the exit code.",
        RunShell,
        destructive=True,
        runs_code=True,
    ),
    Tool(
        "install_packages",
        "Install Python packages",
        "Install Python packages with pip for the session. Many are in the image already: try the import first.",
        InstallPackages,
        idempotent=True,
        runs_code=True,
    ),
    Tool(
        "write_file",
        "Write a file",
        "Write a file of the workspace, whole or not at all; one that is there is replaced.",
        WriteFile,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "read_file",
        "Read a file",
        "Read a file of the workspace, or what was cut from an earlier result: text as text, pictures as images. Long "
        "ones come in parts, by `offset`.",
        ReadFile,
        read_only=True,
    ),
    Tool(
        "list_files",
        "List files",
        "List the files of a directory of the workspace, with their sizes.",
        ListFiles,
        read_only=True,
    ),
    Tool(
        "list_variables",
        "List variables",
        "List the names that the session's Python code has defined, with types, shapes and previews. Runs no code, and "
        "answers also while code runs.",
        ListVariables,
        read_only=True,
    ),
    Tool(
        "interrupt",
        "Interrupt what runs",
        "Interrupt the Python code that runs in a session, as Ctrl-C does; variables stay.",
        Interrupt,
        idempotent=True,
    ),
    Tool(
        "restart",
        "Restart Python",
        "Start Python afresh in a session: all variables and imports go, files and installed packages stay.",
        Restart,
        destructive=True,
    ),
    Tool(
        "undo",
        "Undo the last calls",
        "Take back what the last calls that ran code or a command have done to the variables and files of a session. "
        "Where nothing is kept of the state before them, earlier code runs again for it.",
        Undo,
        destructive=True,
        runs_code=True,
    ),
    Tool(
        "start_session",
        "Start a session",
        "Start another session under a name: a sandbox of its own, with its own variables and files, blank or as those "
        "of another session are now. The session `default` starts by itself at the first call.",
        StartSession,
    ),
    Tool(
        "stop_session",
        "Stop a session",
        "Stop a session: its variables go, its files and its notebook are kept in its workspace.",
        StopSession,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "replay",
        "Replay the session's notebook",
        "Run everything that ran in a session again, in a fresh sandbox that is removed afterwards, and compare the "
        "results cell by cell: shows whether the work can be reproduced.",
        Replay,
        runs_code=True,
    ),
)
BY_NAME: Final = {tool.name: tool for tool in TOOLS}


def parse_arguments(tool: Tool, arguments: Any) -> Any:
    """The arguments of a call as the tool's struct; raises InvalidRequest, which says what is wrong with them."""
    try:
        return msgspec.convert(arguments or {}, tool.arguments)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"the arguments of {tool.name}: {error}", code="invalid_arguments") from None


def make_schema(tool: Tool, most_seconds: float) -> dict[str, Any]:
    """The JSON schema of the tool's arguments; no call may take longer than `most_seconds`."""
    _, components = msgspec.json.schema_components([tool.arguments])
    found = components[tool.arguments.__name__]
    schema = {"type": "object", "properties": found["properties"], "required": found.get("required", [])}
    if "timeout_seconds" in schema["properties"]:
        schema["properties"]["timeout_seconds"]["maximum"] = most_seconds
    return schema | {"additionalProperties": False}
