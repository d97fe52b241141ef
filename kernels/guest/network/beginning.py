"""What the guest gets after its start: its keys and its kernel's generation, in one line of JSON at standard input.

Pods of one template are all alike, so none has keys when it starts. A service that may attach to this container hands
them over, once; until then nobody reaches the guest.
"""

from __future__ import annotations

import asyncio
import json
import os

FILES = ("ca.crt", "guest.crt", "guest.key")
LONGEST_LINE = 64 * 1024


async def take_beginning(directory: str) -> int:
    """Wait for it, write the keys there, and return the generation; raises OSError, ValueError.

    Standard input is at its end afterwards.
    """
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb", 0)
    )
    try:
        line = await reader.readline()
    finally:
        transport.close()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    generation, keys = parse_beginning(line)
    write_keys(directory, keys)
    return generation


def parse_beginning(line: bytes) -> tuple[int, dict[str, str]]:
    """The generation, and what the files are to hold (pure); raises ValueError."""
    if not line.endswith(b"\n"):
        raise ValueError("the line breaks off")
    try:
        told = json.loads(line)
        generation, keys = told["generation"], {name: told["keys"][name] for name in FILES}
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is not as it is to be: {error}") from None
    if type(generation) is not int or generation < 1 or not all(isinstance(each, str) for each in keys.values()):
        raise ValueError("it is not as it is to be")
    return generation, keys


def write_keys(directory: str, keys: dict[str, str]) -> None:
    """Readable by this user alone; raises OSError where some are there already."""
    os.makedirs(directory, mode=0o700)
    for name, content in keys.items():
        descriptor = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        with open(descriptor, "w") as file:
            file.write(content)
