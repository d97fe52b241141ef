"""Bodies of requests, as E2B's clients send them. Fields that are not known are left out of account."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

MOST_FORKS: Final = 20
"""Of one request, as E2B's clients have it."""
Positive = Annotated[int, msgspec.Meta(ge=1)]
Texts = dict[str, str]


class Body(msgspec.Struct, rename="camel"):
    """Of the control plane and envd."""


class NewSandbox(Body):
    template_id: str = msgspec.field(default="base", name="templateID")
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None
    metadata: Texts | None = None
    env_vars: Texts | None = None
    allow_internet_access: bool | None = msgspec.field(default=None, name="allow_internet_access")
    auto_pause: bool | None = None
    network: dict[str, Any] | None = None
    mcp: dict[str, Any] | None = None
    volume_mounts: list[Any] | None = None


class Timeout(Body):
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None
    memory: bool | None = None
    """Of a connect: false asks for a kernel without the variables that were kept."""


class Snapshot(Body):
    name: str = ""


class Fork(Body):
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_FORKS)] = 1


class Refresh(Body):
    duration: Annotated[int, msgspec.Meta(ge=0, le=3600)] | None = None


class Anything(Body):
    """Of what is not supported."""


class RunCode(msgspec.Struct):
    code: str
    context_id: str | None = None
    language: str | None = None
    env_vars: Texts | None = None


class CreateContext(msgspec.Struct):
    language: str | None = None
    cwd: str | None = None


class Path(Body):
    path: str
    depth: Annotated[int, msgspec.Meta(ge=0)] = 1


class Watch(Body):
    path: str
    recursive: bool = False


class Watcher(Body):
    watcher_id: str


class Move(Body):
    source: str
    destination: str


class Size(Body):
    cols: Positive = 80
    rows: Positive = 24


class Terminal(Body):
    size: Size = msgspec.field(default_factory=Size)


class ProcessConfig(Body):
    cmd: str
    args: list[str] = msgspec.field(default_factory=list)
    envs: Texts = msgspec.field(default_factory=dict)
    cwd: str | None = None


class Start(Body):
    process: ProcessConfig
    pty: Terminal | None = None
    tag: str | None = None
    stdin: bool | None = None


class Selector(Body):
    pid: Positive | None = None
    tag: str | None = None


class Selected(Body):
    process: Selector


class ProcessInput(Body):
    stdin: str | None = None
    pty: str | None = None


class SendInput(Body):
    process: Selector
    input: ProcessInput


class DataOfInput(Body):
    input: ProcessInput


class StreamInput(Body):
    start: Selected | None = None
    data: DataOfInput | None = None


class SendSignal(Body):
    process: Selector
    signal: str


class Update(Body):
    process: Selector
    pty: Terminal | None = None
