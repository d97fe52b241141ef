"""The files of one directory of a sandbox as one stream of bytes, and the way back into another sandbox.

The stream is what `kernels.guest.workspace.batch` takes. What the files hold is looked at by nobody on this side. A
file is as it is when it is read, and left out when it cannot be read, or is gone by then.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

import msgspec

from kernels.errors import GuestRefused, SandboxFailed
from kernels.guest.workspace.batch import head
from kernels.guest_client.answers import FileStat
from kernels.guest_client.client import GuestClient

MOST_FILES: Final = 2_000


class PackedDirectory(msgspec.Struct, frozen=True):
    """What a directory has, about how many bytes its stream is, and how many at most.

    One that is `partial` goes without files that are gone or may not be read.
    """

    files: tuple[FileStat, ...]
    size: int
    most_bytes: int
    partial: bool = False

    async def chunks(self, guest: GuestClient) -> AsyncGenerator[bytes]:
        """The stream; raises `SandboxFailed` when it is more than may be, and the guest's errors."""
        left = self.most_bytes
        for file in self.files:
            try:
                found, content = await guest.open_file(file.path, max_bytes=left, everywhere=True)
            except GuestRefused as error:
                if not self.partial:
                    raise SandboxFailed(f"/{file.path} cannot be read: {error}") from error
                continue
            async with aclosing(content):
                left -= found.size
                yield head(file.path, found.size)
                async for chunk in content:
                    yield chunk


async def list_packed(
    guest: GuestClient, directory: str, most_bytes: int, *, below: bool = False
) -> PackedDirectory | str:
    """The regular files of a directory, by its path from the sandbox's root, or in a sentence that they are too many.

    `below` are also those of directories in it that are not hidden. Raises `SandboxFailed`.
    """
    listed = await guest.list_files(
        directory, recursive=below, limit=MOST_FILES + 1, everywhere=True, private=not below
    )
    # The smallest first: who reads the directory as it is filled learns early what will be in it.
    files = tuple(sorted((each for each in listed if each.kind == "file"), key=lambda each: each.size))
    size = sum(len(head(each.path, 0)) + each.size for each in files)
    if len(listed) > MOST_FILES or size > most_bytes:
        many = f"more than {MOST_FILES:,}" if len(listed) > MOST_FILES else f"{len(files):,}"
        return f"/{directory} holds more than may be kept: {many} files, {size:,} bytes"
    if not all(each.path.startswith(f"{directory}/") for each in files):
        raise SandboxFailed(f"the guest lists what is not in /{directory}")
    return PackedDirectory(files, size, most_bytes, partial=below)


async def unpack(guest: GuestClient, chunks: AsyncIterator[bytes]) -> None:
    """Write the files of a stream where they were; raises `SandboxFailed` when one of them is refused."""
    refused = await guest.write_packed(chunks)
    if refused:
        raise SandboxFailed(f"{refused:,} files could not be laid into the sandbox")
