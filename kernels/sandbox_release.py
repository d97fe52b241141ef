"""How a launcher that lives is asked, by another of its host, for a sandbox that the other's gateway has taken over.

Its service has lost its lease, as one that was stopped for a while has, or has only just begun. One line each way, over
a Unix socket in the run directory of the launcher that is asked; both are root's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from kernels.errors import KernelsError, SandboxFailed, SandboxGone

SECONDS: Final = 8.0
"""For all of it, which may be the end of a service that hangs."""
_CREDENTIALS: Final = struct.Struct("3i")


class Wanted(msgspec.Struct, frozen=True):
    """Which sandbox, and the data directory of the gateway that has it from now on."""

    sandbox_id: str
    data: str


class Answered(msgspec.Struct, frozen=True):
    """Empty once it has been released; else why not."""

    error: str


def ask(place: Path, wanted: Wanted) -> None:
    """Blocking. Raises SandboxGone where it is refused or nobody is asked, SandboxFailed where no answer comes."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(SECONDS)
        try:
            end.connect(str(place))
            end.sendall(msgspec.json.encode(wanted) + b"\n")
            with end.makefile("rb") as answers:
                answered = msgspec.json.decode(answers.readline(), type=Answered)
        except (FileNotFoundError, ConnectionRefusedError):
            raise SandboxGone(
                f"the launcher that has the sandbox {wanted.sandbox_id} lives, and is not asked"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise SandboxFailed(
                f"the launcher that has the sandbox {wanted.sandbox_id} lives, and does not answer: {error!r}"
            ) from None
    if answered.error:
        raise SandboxGone(f"the launcher that has the sandbox {wanted.sandbox_id} lives: {answered.error}")


@contextlib.asynccontextmanager
async def answering(place: Path, release: Callable[[Wanted], Awaitable[None]]) -> AsyncIterator[None]:
    """Answer there; a KernelsError or OSError of `release` is passed on as the reason."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):  # msgspec's errors among these, and deadlines among those
            async with asyncio.timeout(SECONDS):
                if _user_of(writer.get_extra_info("socket")) == os.geteuid():
                    answered = await _try(release, msgspec.json.decode(await reader.readline(), type=Wanted))
                    writer.write(msgspec.json.encode(answered) + b"\n")
                    await writer.drain()
        writer.close()

    place.unlink(missing_ok=True)  # of a launcher that was killed: this one has the lock of the data directory
    server = await asyncio.start_unix_server(answer, place)
    try:
        place.chmod(0o600)
        yield
    finally:
        server.close()
        place.unlink(missing_ok=True)


async def _try(release: Callable[[Wanted], Awaitable[None]], wanted: Wanted) -> Answered:
    try:
        await release(wanted)
    except (KernelsError, OSError) as error:
        return Answered(str(error) or repr(error))
    return Answered("")


def _user_of(end: Any) -> int:
    """Who is at the other end, as the kernel has it."""
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)
