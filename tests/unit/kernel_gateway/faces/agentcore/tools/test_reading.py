"""How readFiles asks for room in memory: before it holds much, be it of one file or of many."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kernel_gateway.errors import PayloadTooLarge
from kernel_gateway.faces.agentcore.tools import Arguments, Invocation
from kernel_gateway.faces.agentcore.tools.file_errors import AT_ONCE
from kernel_gateway.faces.agentcore.tools.reading import SMALL_BYTES, read_files
from kernel_gateway.identity.principal import Principal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services


@pytest.mark.parametrize(
    ("sizes", "first_in_room"),
    [
        ([1] * 3 * AT_ONCE, None),
        ([SMALL_BYTES], None),
        ([SMALL_BYTES + 1], 0),
        ([SMALL_BYTES // 2] * 3 * AT_ONCE, AT_ONCE),
    ],
)
def test_much_is_read_only_in_room_that_was_taken_for_it(sizes: list[int], first_in_room: int | None) -> None:
    taken = False
    read_in_room: list[int] = []

    async def room() -> None:
        nonlocal taken
        taken = True

    async def read_whole(_principal: Principal, _session_id: str, path: str, most_bytes: int) -> bytes:
        number = int(path)
        if sizes[number] > most_bytes:
            raise PayloadTooLarge("it is larger")
        if taken:
            read_in_room.append(number)
        return b"x" * sizes[number]

    services = cast("Services", SimpleNamespace(files=SimpleNamespace(read_whole=read_whole)))
    arguments = Arguments(paths=[str(number) for number in range(len(sizes))])
    call = Invocation(services, Principal("id", "name", admin=False), "session", arguments, room=room)
    result = asyncio.run(read_files(call))
    assert not result.is_error
    assert len(result.content) == len(sizes)
    assert read_in_room == ([] if first_in_room is None else list(range(first_in_room, len(sizes))))
