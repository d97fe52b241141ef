"""What the service and the launcher say to each other: JSON in packets, one request or answer each. Pure.

The set is closed and every value bounded: what does not fit these types is refused before anything looks at it. A
descriptor that belongs to an answer travels with its packet. The service names things, it never says how they are done:
no path on the host, no command line, no environment variable and no root file system is among the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from kernels.environment import NetworkMode
from kernels.sandbox import Finding, PagedOut, SandboxInfo, SandboxUsage

PACKET_BYTES: Final = 64 * 1024
"""Of one packet, either way."""
PAGE: Final = 100
"""Sandboxes in one answer to `List`."""
LONGEST_MESSAGE: Final = 4096
"""Of an error, in characters."""

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SandboxId = Annotated[str, Meta(pattern=rf"^{_UUID}\Z")]
ImageName = Annotated[str, Meta(pattern=r"^(\.layers|[A-Za-z0-9][A-Za-z0-9._-]{0,99})\Z")]
"""`.layers` is that of all images that `LayPackages` makes; no other image's name begins with a dot."""
Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=1, le=2**31)]
Generation = Annotated[int, Meta(ge=1, le=99_999_999)]
Percent = Annotated[int, Meta(ge=1, le=99)]
Number = Annotated[int, Meta(ge=1, le=2**53)]
SocketName = Annotated[
    str, Meta(pattern=r"^(guest|relay|kernel/g[1-9][0-9]{0,7}-[1-5]|kernel/(deno|spec)-g[1-9][0-9]{0,7}-[1-4])\Z")
]


class _Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """One thing said; its class name travels with it."""


class _Verb(_Said, frozen=True):
    """A request that is the method `verb` of `SandboxRuntime`, its fields the arguments.

    The server calls it as it is: a new verb is a class here, a line of `Request` and a method of the client.
    """

    verb: ClassVar[str]


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the guest gets to know of an execution role; credentials are none of the launcher's business."""

    bucket: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")]
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9!_.*'()=@+,:$&;~/-]{0,1024}\Z")]
    region: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}\Z")]
    write: bool


class Check(_Said, frozen=True):
    """`SandboxRuntime.check`."""


class Create(_Said, frozen=True):
    """`SandboxRuntime.create`: an image by its name and digest, and what the sandbox made of it gets."""

    sandbox_id: SandboxId
    image: ImageName
    digest: Digest
    generation: Generation
    hostname: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}\Z")]
    memory_mb: Count
    storage_mb: Count
    pids: Count
    vcpus: Annotated[float, Meta(gt=0, le=1024)]
    runtime: Annotated[str, Meta(pattern=r"^([a-z][a-z0-9-]{0,31})?\Z")]
    network: NetworkMode
    role: Role | None
    index: bool = False
    keep_packages: bool = False
    spare: bool = False


class Claim(_Verb, frozen=True):
    """A spare sandbox gets its full share of the processors: it is a session's now. The answer is what it uses."""

    verb = "claim"
    sandbox_id: SandboxId
    workspace_ready: bool = False


class MarkWorkspaceReady(_Verb, frozen=True):
    """All that belongs in the workspace at its start is there."""

    verb = "mark_workspace_ready"
    sandbox_id: SandboxId


class Reopen(_Verb, frozen=True):
    """Make the workspace readable again."""

    verb = "reopen"
    sandbox_id: SandboxId


class List(_Said, frozen=True):
    """`SandboxRuntime.list`, a page at a time: those after this id."""

    after: Annotated[str, Meta(pattern=rf"^({_UUID})?\Z")]


class Running(_Verb, frozen=True):
    """Whether PID 1 is alive."""

    verb = "running"
    sandbox_id: SandboxId


class Usage(_Verb, frozen=True):
    """Counters and limits."""

    verb = "usage"
    sandbox_id: SandboxId


class WatchMemory(_Verb, frozen=True):
    """The answer brings the descriptor."""

    verb = "watch_memory"
    sandbox_id: SandboxId
    percents: Annotated[tuple[Percent, ...], Meta(max_length=2)]


class PageOut(_Verb, frozen=True):
    """Stop it and move its memory to swap."""

    verb = "page_out"
    sandbox_id: SandboxId


class Thaw(_Verb, frozen=True):
    """Let it go on."""

    verb = "thaw"
    sandbox_id: SandboxId


class Save(_Verb, frozen=True):
    """Write all of it to its disk and end its processes."""

    verb = "save"
    sandbox_id: SandboxId


class PutAway(_Verb, frozen=True):
    """One that was saved keeps its disk alone."""

    verb = "put_away"
    sandbox_id: SandboxId


class Dial(_Verb, frozen=True):
    """The answer brings the socket."""

    verb = "dial"
    sandbox_id: SandboxId
    name: SocketName
    patience_seconds: Annotated[float, Meta(ge=0, le=1)]


class Listen(_Verb, frozen=True):
    """The answer brings the socket."""

    verb = "listen"
    sandbox_id: SandboxId
    name: Literal["http", "s3", "packages"]


class OpenBeneath(_Verb, frozen=True):
    """The answer brings the descriptor."""

    verb = "open_beneath"
    sandbox_id: SandboxId
    path: Annotated[bytes, Meta(max_length=4096)]


class OpenKept(_Verb, frozen=True):
    """The answer brings the descriptor: of a file that a kernel keeps variables in, or of their directory."""

    verb = "open_kept"
    sandbox_id: SandboxId
    name: Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9.-]{0,99})?\Z")]


class Kill(_Verb, frozen=True):
    """Nothing of it runs any more; answered with what it used until then, if that is known."""

    verb = "kill"
    sandbox_id: SandboxId


class Destroy(_Verb, frozen=True):
    """Remove every trace."""

    verb = "destroy"
    sandbox_id: SandboxId


class SaveToken(_Said, frozen=True):
    """Save the first token for the user who started the service; where that is, the launcher knows."""

    token: Annotated[str, Meta(pattern=r"^[!-,.-~][!-~]{7,511}\Z")]


class View(_Said, frozen=True):
    """A process that makes a page or a script of a notebook; the answer brings its stream."""

    form: Literal["html", "py"]


class LayPackages(_Said, frozen=True):
    """Make the image `layer` of the one that the sandbox runs on and of what it has installed in its workspace."""

    sandbox_id: SandboxId
    image: ImageName
    digest: Digest
    layer: Digest
    part: Literal["python", "debian"]


class StopLaying(_Said, frozen=True):
    """Give up the image that `LayPackages` is making, or is to make, of what this sandbox has installed."""

    sandbox_id: SandboxId


class RemoveLayer(_Said, frozen=True):
    """Remove such an image, on which no sandbox runs."""

    layer: Digest


Verb = (
    Claim | MarkWorkspaceReady | Reopen | Running | Usage | WatchMemory | PageOut | Thaw | Save | PutAway | Dial
    | Listen | OpenBeneath | OpenKept | Kill | Destroy
)  # fmt: skip
"""Requests that the server hands to the runtime as they are."""
Request = (
    Check | Create | Claim | MarkWorkspaceReady | Reopen | List | Running | Usage | WatchMemory | PageOut | Thaw | Save
    | PutAway | Dial | Listen | OpenBeneath | OpenKept | Kill | Destroy | SaveToken | View | LayPackages | StopLaying
    | RemoveLayer
)  # fmt: skip


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request, still to be read, with the number that its answer will carry; a number is used once at a time."""

    number: Number
    request: msgspec.Raw


class Nothing(_Said, frozen=True):
    """It was done."""


class Descriptor(_Said, frozen=True):
    """It was done, and the packet brings a descriptor."""


class Found(_Said, frozen=True):
    """What `Check` found."""

    findings: list[Finding]


class Made(_Said, frozen=True):
    """A sandbox."""

    info: SandboxInfo


class Page(_Said, frozen=True):
    """Some sandboxes by id, and whether there are more."""

    infos: list[SandboxInfo]
    more: bool


class Truth(_Said, frozen=True):
    """Yes or no."""

    value: bool


class Used(_Said, frozen=True):
    """What a sandbox uses."""

    usage: SandboxUsage


class Moved(_Said, frozen=True):
    """What came of moving a sandbox's memory."""

    paged_out: PagedOut


class Failed(_Said, frozen=True):
    """It was not done. `kind` is the name of an error in `kernels.errors`, or `OSError` with its number."""

    kind: str
    message: str
    error_number: int = 0


Answer = Nothing | Descriptor | Found | Made | Page | Truth | Used | Moved | Failed


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer; the number 0 answers what had none that could be read."""

    number: int
    answer: Answer


encode = msgspec.json.Encoder().encode
decode_call = msgspec.json.Decoder(Call).decode
decode_request: Callable[[bytes | msgspec.Raw], Request] = msgspec.json.Decoder(Request).decode
decode_reply = msgspec.json.Decoder(Reply).decode
"""Each raises `ValueError` for what was not said in these words: msgspec's own errors, or `UnicodeDecodeError`."""


def encode_call(number: int, request: Request) -> bytes:
    """The packet of a request."""
    return encode(Call(number, msgspec.Raw(encode(request))))
