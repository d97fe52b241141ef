"""The names of sockets that the launcher connects to for the service: a closed set, each to one place."""

from __future__ import annotations

import msgspec
import pytest

from kernels.errors import SandboxFailed
from kernels.launcher.wire import Dial
from kernels.oci import sockets

ID = "00000000-0000-4000-8000-000000000000"
PLACES = {
    "guest": ("guest", "http.sock"),
    "kernel/g1-1": ("kernel", "g1-1"),
    "kernel/g99999999-5": ("kernel", "g99999999-5"),
    "kernel/deno-g1-1": ("guest", "deno-g1-1"),
    "kernel/deno-g99999999-4": ("guest", "deno-g99999999-4"),
    "kernel/spec-g7-1": ("guest", "spec-g7-1"),
}
OTHERS = [
    "",
    "guest/http.sock",
    "guest/deno-g1-1",
    "kernel/",
    "kernel/g0-1",
    "kernel/g1-6",
    "kernel/g123456789-1",
    "kernel/g1-1\n",
    "kernel/deno-g0-1",
    "kernel/deno-g1-5",
    "kernel/deno-g123456789-1",
    "kernel/deno-g1-1\n",
    "kernel/deno-g1-1/../http.sock",
    "kernel/node-g1-1",
    "kernel/spec-g1-5",
    "guest/spec-g1-1",
    "kernel/../guest/http.sock",
    "/run/x",
]


def asked(name: str) -> Dial:
    message = {"type": "Dial", "sandbox_id": ID, "name": name, "patience_seconds": 0}
    return msgspec.json.decode(msgspec.json.encode(message), type=Dial)


@pytest.mark.parametrize(("name", "place"), PLACES.items())
def test_each_name_is_one_place(name: str, place: tuple[str, str]) -> None:
    assert asked(name).name == name
    assert sockets._place(name) == place


@pytest.mark.parametrize("name", OTHERS)
def test_there_are_no_others(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        asked(name)
    with pytest.raises(SandboxFailed, match="no socket"):
        sockets._place(name)
