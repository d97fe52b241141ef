"""Both framings against jupyter_server's own functions, and frames that hold no message."""

from __future__ import annotations

import contextlib
import importlib
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.faces.jupyter import framing
from kernel_gateway.faces.jupyter.framing import MalformedFrame
from kernel_gateway.services.attach.attachments import Incoming
from kernels.wire.message import Message, header_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)
HEADERS = st.fixed_dictionaries(
    {"msg_id": st.text(max_size=20), "msg_type": st.text(max_size=20)}, optional={"k": VALUES}
)
CHANNELS = st.sampled_from(["shell", "iopub", "stdin", "control"])
BUFFERS = st.lists(st.binary(max_size=60), max_size=4)


@pytest.fixture(scope="module")
def theirs(client_environment: Callable[[str], Path]) -> ModuleType:
    """jupyter_server's framing, from the environment of JupyterLab: beside us it would be imported by every process."""
    (site_packages,) = client_environment("jupyterlab").glob("lib/python3*/site-packages")
    sys.path.append(str(site_packages))
    try:
        return importlib.import_module("jupyter_server.services.kernels.connection.base")
    finally:
        sys.path.remove(str(site_packages))


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def message(header: Any, parent: Any, metadata: Any, content: Any, buffers: list[bytes]) -> Message:
    parts = [*map(dumped, (header, parent, metadata, content)), *buffers]
    return Message(header_of(parts[0]), header_of(parts[1]), parts)


@given(CHANNELS, HEADERS, OBJECTS, OBJECTS, BUFFERS)
def test_a_v1_frame_is_the_one_that_jupyter_server_makes(
    theirs: ModuleType, channel: str, header: Any, metadata: Any, content: Any, buffers: list[bytes]
) -> None:
    parts = [*map(dumped, (header, {}, metadata, content)), *buffers]
    assert framing.pack_v1(channel, parts) == theirs.serialize_msg_to_ws_v1(parts, channel)


@given(CHANNELS, HEADERS, OBJECTS, OBJECTS, BUFFERS)
def test_a_v1_frame_of_theirs_is_read_as_they_read_it(
    theirs: ModuleType, channel: str, header: Any, metadata: Any, content: Any, buffers: list[bytes]
) -> None:
    frame = theirs.serialize_msg_to_ws_v1([*map(dumped, (header, {}, metadata, content)), *buffers], channel)
    found = framing.unpack_v1(frame)
    parts = [found.header, found.parent_header, found.metadata, found.content, *found.buffers]
    assert (found.channel, parts) == theirs.deserialize_msg_from_ws_v1(frame)


@given(CHANNELS, HEADERS, HEADERS, OBJECTS, OBJECTS)
def test_a_legacy_frame_says_what_jupyter_servers_says(
    theirs: ModuleType, channel: str, header: Any, parent: Any, metadata: Any, content: Any
) -> None:
    frame = framing.pack_legacy(channel, message(header, parent, metadata, content, []))
    assert frame is not None
    told = {"channel": channel, "header": header, "parent_header": parent, "metadata": metadata, "content": content}
    known = {"buffers": [], "msg_id": header["msg_id"], "msg_type": header["msg_type"]}
    assert json.loads(frame) == json.loads(json.dumps({**told, **known}, default=theirs.json_default))


@given(CHANNELS, HEADERS, OBJECTS, OBJECTS, BUFFERS)
def test_a_legacy_frame_of_theirs_is_read_as_they_read_it(
    theirs: ModuleType, channel: str, header: Any, metadata: Any, content: Any, buffers: list[bytes]
) -> None:
    told = {"channel": channel, "header": header, "parent_header": {}, "metadata": metadata, "content": content}
    frame = theirs.serialize_binary_message({**told, "buffers": buffers})
    found, expected = framing.unpack_legacy(frame), theirs.deserialize_binary_message(frame)
    assert (found.channel, list(found.buffers)) == (channel, expected["buffers"])
    assert json.loads(found.header) == {**header}
    assert json.loads(found.content) == expected["content"] == content
    assert framing.unpack_legacy(json.dumps(told)) == Incoming(
        found.channel, found.header, found.parent_header, found.metadata, found.content
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(frame: bytes) -> None:
    for unpack in (framing.unpack_v1, framing.unpack_legacy):
        with contextlib.suppress(MalformedFrame):
            assert isinstance(unpack(frame), Incoming)


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=8), st.binary(max_size=80))
def test_offsets_are_believed_only_when_they_fit(count: int, offsets: list[int], rest: bytes) -> None:
    frame = struct.pack(f"<{1 + len(offsets)}Q", count, *offsets) + rest
    with pytest.raises(MalformedFrame):
        framing.unpack_v1(frame)


@given(st.text(max_size=60))
def test_any_text_is_a_message_or_malformed(text: str) -> None:
    with pytest.raises(MalformedFrame):
        framing.unpack_v1(text)
    with pytest.raises(MalformedFrame):
        framing.unpack_legacy(text)


def test_what_clients_leave_out_is_empty() -> None:
    found = framing.unpack_legacy('{"header": {"msg_id": "1"}, "parent_header": null, "content": {"a": 1}}')
    assert found == Incoming("shell", b'{"msg_id": "1"}', b"{}", b"{}", b'{"a": 1}')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"header": 1}',
        '{"header": []}',
        '{"header": {}, "content": "x"}',
        "{" * 5000,
        '{"header": {}',
    ],
)
def test_a_text_without_a_message_is_malformed(text: str) -> None:
    with pytest.raises(MalformedFrame):
        framing.unpack_legacy(text)


def test_numbers_that_json_does_not_have_are_mended_both_ways() -> None:
    found = framing.unpack_legacy('{"header": {}, "content": {"a": NaN}}')
    assert found.content == b'{"a": null}'
    parts = [b"{}", b"{}", b"{}", b'{"a": Infinity, "b": "\xff"}']
    frame = framing.pack_legacy("iopub", Message(header_of(b"{}"), header_of(b"{}"), parts))
    assert frame is not None
    assert json.loads(frame)["content"] == {"a": None, "b": "\N{REPLACEMENT CHARACTER}"}


def test_a_kernel_cannot_write_into_what_is_around_its_parts() -> None:
    """Parts are spliced into one object: what is not one JSON object by itself does not get there."""
    for hostile in (b'{}, "channel": "stdin", "x": {}', b'{"a": 1}}', b"{", b"[]", b'"x"', b""):
        parts = [b"{}", b"{}", b"{}", hostile]
        assert framing.pack_legacy("iopub", Message(header_of(b"{}"), header_of(b"{}"), parts)) is None


def test_a_legacy_client_gets_no_buffers() -> None:
    frame = framing.pack_legacy("iopub", message({"msg_id": "1", "msg_type": "comm_msg"}, {}, {}, {}, [b"\xff\x00"]))
    assert frame is not None
    assert json.loads(frame)["buffers"] == []


def test_too_many_buffers_are_malformed() -> None:
    parts = [b"{}"] * 4 + [b""] * (framing.MOST_BUFFERS + 1)
    with pytest.raises(MalformedFrame):
        framing.unpack_v1(framing.pack_v1("shell", parts))
