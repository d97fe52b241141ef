"""What an execution answers: a chunk with what was printed, then one for each image that was shown and file changed.

A large answer goes out while its files are read, so that none of them is in memory whole.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.images import EXTENSIONS, find_image
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import JSON, Response, Stream
from sandcell.models.executions import Execution
from sandcell.models.workspaces import FileEntry

MOST_FILES: Final = 1_000
SMALL_BYTES: Final = 1_000_000
"""Files of so many bytes together are read before the next call to the sandbox may change them."""
PIECE_BYTES: Final = 98_304
"""Of a file, sent at once; a multiple of three, so that pieces of base64 join."""
IMAGE_NAME: Final = "code_execution_image_"


@dataclass
class Produced:
    """`text` is the JSON of the first chunk, `small` are files with their content, `large` those still to be read."""

    text: bytes
    small: list[tuple[str, bytes]] = field(default_factory=list)
    large: list[FileEntry] = field(default_factory=list)


def describe_text(stdout: str, stderr: str) -> bytes:
    """The first chunk's JSON, each text under both names that Google's and ADK's releases have read."""
    return encode({"msg_out": stdout, "msg_err": stderr, "stdout": stdout, "stderr": stderr})


async def collect(
    call: Call,
    session_id: str,
    execution: Execution,
    before: Mapping[str, FileEntry] | None,
    after: Mapping[str, FileEntry] | None,
) -> Produced:
    """What came of an execution, with the files that are new or changed since `before`."""
    stdout, stderr = _join_texts(execution)
    images = _find_images(execution)
    if before is None or after is None:
        stderr += "\n[No files are returned: the workspace has too many to look through.]\n"
        return Produced(describe_text(stdout, stderr), images)
    changed = [entry for path, entry in sorted(after.items()) if before.get(path) != entry]
    room = call.services.settings.payload_bytes - sum(len(content) for _, content in images)
    kept: list[FileEntry] = []
    for entry in changed:
        if entry.size <= room and len(kept) < MOST_FILES:
            kept.append(entry)
            room -= entry.size
    if len(kept) < len(changed):
        stderr += f"\n[{len(changed) - len(kept):,} changed files are not returned: an answer holds"
        stderr += f" {MOST_FILES:,} files and {call.services.settings.payload_bytes:,} bytes.]\n"
    produced = Produced(describe_text(stdout, stderr), images)
    if sum(entry.size for entry in kept) > SMALL_BYTES:
        produced.large = kept
    else:
        produced.small += [each for entry in kept if (each := await _read(call, session_id, entry)) is not None]
    return produced


def answer(call: Call, session_id: str, produced: Produced) -> Response:
    """The whole answer; piece by piece where files are still to be read."""
    head = b'{"outputs":[' + _chunk(JSON, base64.b64encode(produced.text), None)
    small = [_chunk(_find_type(name), base64.b64encode(content), name) for name, content in produced.small]
    head = b",".join((head, *small))
    if not produced.large:
        return Response(head + b"]}", headers={"Content-Type": JSON})
    pieces = _stream(call, session_id, head, produced.large)
    return Response(Stream(pieces), headers={"Content-Type": JSON})


async def _stream(call: Call, session_id: str, head: bytes, files: list[FileEntry]) -> AsyncIterator[bytes]:
    """The answer up to its end; a file that is gone is left out, one that changes under way cuts the answer off."""
    yield head
    for entry in files:
        try:
            reading = await call.services.files.read(call.principal, session_id, entry.path)
        except GatewayError:
            continue
        async with aclosing(reading.chunks):
            before, after = _split_chunk(entry.path)
            yield b"," + before
            rest = bytearray()
            async for chunk in reading.chunks:
                rest += chunk
                whole = len(rest) // PIECE_BYTES * PIECE_BYTES
                for start in range(0, whole, PIECE_BYTES):
                    yield base64.b64encode(rest[start : start + PIECE_BYTES])
                del rest[:whole]
            yield base64.b64encode(rest) + after
    yield b"]}"


async def _read(call: Call, session_id: str, entry: FileEntry) -> tuple[str, bytes] | None:
    """A small file; None when it is gone or has grown since it was listed."""
    try:
        content = await call.services.files.read_whole(call.principal, session_id, entry.path, SMALL_BYTES)
    except GatewayError:
        return None
    return entry.path, content


def _chunk(media_type: str, data: bytes, name: str | None) -> bytes:
    """One output. The first has no metadata at all: clients know it by that."""
    about: dict[str, Any] = {"mimeType": media_type}
    if name is not None:
        shown = name.encode("utf-8", "surrogateescape")
        about["metadata"] = {"attributes": {"file_name": base64.b64encode(shown).decode()}}
    return encode(about)[:-1] + b',"data":"' + data + b'"}'


def _split_chunk(name: str) -> tuple[bytes, bytes]:
    """What stands before and after a file's data."""
    whole = _chunk(_find_type(name), b"", name)
    return whole[:-2], whole[-2:]


def _find_type(name: str) -> str:
    return mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"


def _join_texts(execution: Execution) -> tuple[str, str]:
    """Standard output, as it is: programs parse it. Standard error, with whatever ended the code early."""
    stdout, stderr = execution.stdout, execution.stderr
    if execution.error is not None:
        stderr += "\n".join(execution.error.traceback) + "\n"
    if execution.death is not None:
        stderr += f"{execution.death.detail}\n"
    elif execution.status not in ("ok", "error"):
        stderr += f"{execution.why or f'The execution ended: {execution.status}.'}\n"
    return stdout, stderr


def _find_images(execution: Execution) -> list[tuple[str, bytes]]:
    """Images that the code has shown, as files with names of Google's."""
    found: list[tuple[str, bytes]] = []
    for output in execution.outputs:
        data = output.get("data")
        if output.get("output_type") in ("display_data", "execute_result") and isinstance(data, dict):
            image = find_image(data)
            if image is not None:
                number = f"{execution.execution_count or 0}_{len(found) + 1}"
                found.append((f"{IMAGE_NAME}{number}.{EXTENSIONS[image[0]]}", image[1]))
    return found
