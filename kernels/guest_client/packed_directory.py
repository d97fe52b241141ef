"""The files of one directory of a sandbox as one stream of bytes, and the way back into another sandbox.

The stream is what `kernels.guest.workspace.batch` takes. What the files hold is looked at by nobody on this side; a
directory that is not as it was listed by the time it is read is `SandboxFailed`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from kernels.errors import SandboxFailed
from kernels.guest.workspace.batch import head
from kernels.guest_client.answers import FileStat
from kernels.guest_client.client import GuestClient

MOST_FILES: Final = 2_000


@dataclass(frozen=True)
class PackedDirectory:
    """What a directory has, and how many bytes its stream is."""

    files: tuple[FileStat, ...]
    size: int

    async def chunks(self, guest: GuestClient) -> AsyncGenerator[bytes]:
        """The stream, of exactly `size` bytes; raises `SandboxFailed` and the guest's errors."""
        for file in self.files:
            yield head(file.path, file.size)
            found, content = await guest.open_file(file.path, max_bytes=file.size, everywhere=True)
            async with aclosing(content):
                if found.size != file.size:
                    raise SandboxFailed(f"{file.path!a} is not as it was listed")
                async for chunk in content:
                    yield chunk


async def list_packed(guest: GuestClient, directory: str, most_bytes: int) -> PackedDirectory:
    """The regular files of a directory, by its path from the sandbox's root; raises `SandboxFailed` for too many."""
    listed = await guest.list_files(directory, recursive=False, limit=MOST_FILES + 1, everywhere=True)
    # The smallest first: who reads the directory as it is filled learns early what will be in it.
    files = tuple(sorted((each for each in listed if each.kind == "file"), key=lambda each: each.size))
    size = sum(len(head(each.path, 0)) + each.size for each in files)
    if len(listed) > MOST_FILES or size > most_bytes:
        raise SandboxFailed(f"/{directory} holds more than may be kept: {len(listed):,} files, {size:,} bytes")
    if any(each.path.rpartition("/")[0] != directory for each in files):
        raise SandboxFailed(f"the guest lists what is not in /{directory}")
    return PackedDirectory(files, size)


async def unpack(guest: GuestClient, chunks: AsyncIterator[bytes]) -> None:
    """Write the files of a stream where they were; raises `SandboxFailed` when one of them is refused."""
    refused = await guest.write_packed(chunks)
    if refused:
        raise SandboxFailed(f"{refused:,} files could not be laid into the sandbox")
