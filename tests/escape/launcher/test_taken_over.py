"""The service has fallen to somebody, who now speaks to the launcher: every packet that is no honest request.

Each is refused with the reason, and refused before anything is looked at, made or started. What is granted concerns
sandboxes of this service alone.
"""

from __future__ import annotations

import array
import json
import os
import re
import socket
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from kernels.errors import LauncherRefused
from kernels.launcher import wire
from kernels.launcher.checks import Bounds, Checks
from kernels.launcher.server import MOST_AT_ONCE
from tests.escape.launcher.conftest import MOST_LAYERS, MOST_SANDBOXES, SERVICE, Launcher

ID = "00000000-0000-4000-8000-000000000000"
DIGEST = "sha256:" + "0" * 64
DEEP = b"[" * 30_000


def packet(request: Any, number: Any = 1) -> bytes:
    return json.dumps({"number": number, "request": request}).encode()


NO_PACKETS: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"\xff\xfe\x00", "malformed"),
    "half a message": (packet({"type": "List", "after": ""})[:-7], "truncated"),
    "two messages in one": (packet({"type": "Check"}) * 2, "trailing"),
    "an array": (b"[1, 2]", "Expected `object`"),
    "a key that is no UTF-8": (b'{"number": 1, "requ\xffest": {"type": "Check"}}', "utf-8"),
    "nothing in it": (b"{}", "missing required field"),
    "deeply nested": (DEEP, "recursion|truncated|nested|Expected `object`"),
    "deep inside a field": (b'{"number": 1, "request": ' + DEEP, "recursion|truncated|nested|malformed"),
    "number zero": (packet({"type": "Check"}, 0), ">= 1"),
    "negative number": (packet({"type": "Check"}, -1), ">= 1"),
    "huge number": (packet({"type": "Check"}, 2**60), "<= 9007199254740992"),
    "number beyond every integer": (packet({"type": "Check"}, 10**400), "out of range|Expected"),
    "number as text": (packet({"type": "Check"}, "1"), "Expected `int`"),
    "number as truth": (packet({"type": "Check"}, number=True), "Expected `int`"),
    "a field more": (b'{"number": 1, "request": {"type": "Check"}, "root": true}', "unknown field"),
}


def _lay(**other: Any) -> dict[str, Any]:
    """A request for an image with packages that would be granted, but for what is `other`."""
    named = {"sandbox_id": ID, "image": "python", "digest": DIGEST, "layer": DIGEST, "part": "python"}
    return {"type": "LayPackages", **named, **other}


NO_REQUESTS: dict[str, tuple[Any, str]] = {
    "no type": ({}, "missing required field `type`"),
    "a verb that is not there": ({"type": "Exec", "command": "id"}, "Invalid value 'Exec'"),
    "a method of the runtime's class": ({"type": "_remove", "sandbox_id": ID}, "Invalid value '_remove'"),
    "an answer": ({"type": "Nothing"}, "Invalid value 'Nothing'"),
    "no object": ("Check", "Expected `object`"),
    "nothing": (None, "Expected `object`"),
    "path as id": ({"type": "Destroy", "sandbox_id": "../x"}, "matching regex"),
    "absolute path as id": ({"type": "Destroy", "sandbox_id": "/etc"}, "matching regex"),
    "id and a path": ({"type": "Destroy", "sandbox_id": f"{ID}/../../x"}, "matching regex"),
    "id and a newline": ({"type": "Destroy", "sandbox_id": f"{ID}\n"}, "matching regex"),
    "id and a zero byte": ({"type": "Destroy", "sandbox_id": f"{ID}\0"}, "matching regex"),
    "id in capitals": ({"type": "Destroy", "sandbox_id": "ABCDEF00-0000-4000-8000-000000000000"}, "matching regex"),
    "empty id": ({"type": "Reopen", "sandbox_id": ""}, "matching regex"),
    "pattern as id": ({"type": "Running", "sandbox_id": "*"}, "matching regex"),
    "number as id": ({"type": "Usage", "sandbox_id": 1}, "Expected `str`"),
    "list as id": ({"type": "MarkWorkspaceReady", "sandbox_id": [ID]}, "Expected `str`"),
    "path to list after": ({"type": "List", "after": "../"}, "matching regex"),
    "a socket of the host": (
        {"type": "Dial", "sandbox_id": ID, "name": "/run/dbus/system_bus_socket", "patience_seconds": 0},
        "matching regex",
    ),
    "a socket through the parent": (
        {"type": "Dial", "sandbox_id": ID, "name": "kernel/../guest/http.sock", "patience_seconds": 0},
        "matching regex",
    ),
    "a socket that kernels have not": (
        {"type": "Dial", "sandbox_id": ID, "name": "kernel/g1-6", "patience_seconds": 0},
        "matching regex",
    ),
    "a socket that the kernel for JavaScript has not": (
        {"type": "Dial", "sandbox_id": ID, "name": "kernel/deno-g1-5", "patience_seconds": 0},
        "matching regex",
    ),
    "another socket of the guest's": (
        {"type": "Dial", "sandbox_id": ID, "name": "guest/deno-g1-1", "patience_seconds": 0},
        "matching regex",
    ),
    "patience without end": (
        {"type": "Dial", "sandbox_id": ID, "name": "guest", "patience_seconds": 1e9},
        "<= 1.0|<= 1",
    ),
    "patience below nothing": (
        {"type": "Dial", "sandbox_id": ID, "name": "guest", "patience_seconds": -1},
        ">= 0",
    ),
    "a view of another form": ({"type": "View", "form": "../html"}, "Invalid enum value"),
    "a view by a command": ({"type": "View", "form": "py", "command": ["/bin/sh"]}, "unknown field `command`"),
    "a way out of another name": ({"type": "Listen", "sandbox_id": ID, "name": "../guest/http"}, "Invalid enum value"),
    "a path longer than paths": (
        {"type": "OpenBeneath", "sandbox_id": ID, "path": "QUFB" * 5000},
        "length <= 4096",
    ),
    "kept variables above": ({"type": "OpenKept", "sandbox_id": ID, "name": ".."}, "matching regex"),
    "kept variables in a directory": ({"type": "OpenKept", "sandbox_id": ID, "name": "a/b"}, "matching regex"),
    "kept variables with a zero byte": ({"type": "OpenKept", "sandbox_id": ID, "name": "a\0b"}, "matching regex"),
    "kept variables of a longer name": ({"type": "OpenKept", "sandbox_id": ID, "name": "a" * 101}, "matching regex"),
    "kept variables by another place": (
        {"type": "OpenKept", "sandbox_id": ID, "name": "f", "directory": "/etc"},
        "unknown field `directory`",
    ),
    "an image made of a path": (_lay(layer="../../environments/python"), "matching regex"),
    "an image made under a name": (_lay(layer="python"), "matching regex"),
    "an image made over a path": (_lay(image="../environments"), "matching regex"),
    "an image made over another hidden one": (_lay(image=".lock"), "matching regex"),
    "another part of a workspace laid": (_lay(part="../.."), "Invalid enum value"),
    "a place to lay files": (_lay(place="/usr/bin"), "unknown field `place`"),
    "an image given up by a path": ({"type": "StopLaying", "sandbox_id": "../x"}, "matching regex"),
    "an image removed by a path": ({"type": "RemoveLayer", "layer": "../sandboxes"}, "matching regex"),
    "an image removed by its name": ({"type": "RemoveLayer", "layer": DIGEST, "image": "python"}, "unknown field"),
    "a path that is no base64": ({"type": "OpenBeneath", "sandbox_id": ID, "path": "\u2603"}, "base64"),
}

NO_CREATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a root file system": ({"root": "/"}, "unknown field `root`"),
    "a command line": ({"args": ["/bin/sh"]}, "unknown field `args`"),
    "an environment variable": ({"env": ["LD_PRELOAD=/x"]}, "unknown field `env`"),
    "an interpreter": ({"python": "/bin/sh"}, "unknown field `python`"),
    "a mount": ({"mounts": []}, "unknown field `mounts`"),
    "image in the parent": ({"image": "../../"}, "matching regex"),
    "image by an absolute path": ({"image": "/"}, "matching regex"),
    "image of dots": ({"image": ".."}, "matching regex"),
    "digest with slashes": ({"digest": "sha256:../../../../etc"}, "matching regex"),
    "digest of another kind": ({"digest": "md5:" + "0" * 32}, "matching regex"),
    "digest and a path": ({"digest": "sha256:" + "0" * 64 + "/.."}, "matching regex"),
    "runtime by a path": ({"runtime": "/bin/sh"}, "matching regex"),
    "runtime with a flag": ({"runtime": "runc --debug"}, "matching regex"),
    "negative memory": ({"memory_mb": -1}, ">= 1"),
    "no memory": ({"memory_mb": 0}, ">= 1"),
    "memory past every number": ({"memory_mb": 10**30}, "out of range|<= 2147483648|Expected"),
    "memory as a fraction": ({"memory_mb": 0.5}, "Expected `int`"),
    "memory as text": ({"memory_mb": "2048"}, "Expected `int`"),
    "memory as truth": ({"memory_mb": True}, "Expected `int`"),
    "no processors": ({"vcpus": 0}, "> 0"),
    "processors as text": ({"vcpus": "2"}, "Expected `float`"),
    "processors past every host": ({"vcpus": 1e30}, "<= 1024"),
    "no disk": ({"storage_mb": 0}, ">= 1"),
    "no generation": ({"generation": 0}, ">= 1"),
    "generation past sockets' names": ({"generation": 10**9}, "<= 99999999"),
    "host name as a flag": ({"hostname": "-rf"}, "matching regex"),
    "host name as a path": ({"hostname": "../x"}, "matching regex"),
    "host name without end": ({"hostname": "a" * 64}, "matching regex"),
    "the host's network": ({"network": "HOST"}, "Invalid enum value"),
    "a role of another bucket": (
        {"role": {"bucket": "b/../c", "prefix": "p", "region": "r", "write": False}},
        "matching regex",
    ),
    "a role with a line break": (
        {"role": {"bucket": "bucket", "prefix": "p\n--python /bin/sh", "region": "r", "write": False}},
        "matching regex",
    ),
    "a role with a key": (
        {"role": {"bucket": "bucket", "prefix": "p", "region": "r", "write": False, "secret": "x"}},
        "unknown field `secret`",
    ),
    "a region as a flag": (
        {"role": {"bucket": "bucket", "prefix": "p", "region": "--python", "write": False}},
        "matching regex",
    ),
}

PAST_BOUNDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "more memory": ({"memory_mb": 2049}, "LauncherRefused", "at most 2048 memory_mb, not 2049"),
    "more disk": ({"storage_mb": 2**31}, "LauncherRefused", "at most 512 storage_mb"),
    "more processes": ({"pids": 513}, "LauncherRefused", "at most 512 pids"),
    "more processors": ({"vcpus": 2.5}, "LauncherRefused", "at most 2.0 vcpus, not 2.5"),
    "a runtime that was not chosen": ({"runtime": "crun"}, "LauncherRefused", "none of runc"),
    "an image that is not built": ({"image": "nothing"}, "UnknownEnvironment", "no image nothing"),
    "a digest that is not built": (
        {"digest": "sha256:" + "0" * 64},
        "UnknownEnvironment",
        "of digest sha256:0000",
    ),
    "a name beside the images": ({"image": ".lock"}, "LauncherRefused", "matching regex"),
}


def refused(answer: dict[str, Any], kind: str, reason: str) -> None:
    assert answer["type"] == "Failed", answer
    assert answer["kind"] == kind
    assert any(part.lower() in answer["message"].lower() for part in reason.split("|")), answer["message"]


@pytest.mark.parametrize("name", NO_PACKETS)
def test_what_is_no_packet_is_refused_unread(launcher: Launcher, name: str) -> None:
    sent, reason = NO_PACKETS[name]
    launcher.say(sent)
    reply = launcher.hear()
    if name != "deep inside a field":  # its number could be read, or not, as the parser pleases
        assert reply["number"] == 0
    refused(reply["answer"], "LauncherRefused", reason)
    assert launcher.seen == []


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_is_no_request_is_refused_before_anything_is_looked_at(launcher: Launcher, name: str) -> None:
    request, reason = NO_REQUESTS[name]
    refused(launcher.ask(request), "LauncherRefused", reason)
    assert launcher.seen == []


BYTES_IN_REQUESTS = {
    "in an id": b'{"type": "Destroy", "sandbox_id": "\xff"}',
    "in a verb": b'{"type": "\xff"}',
    "in a field's name": b'{"type": "Check", "\xc0": 1}',
}


@pytest.mark.parametrize("name", BYTES_IN_REQUESTS)
def test_bytes_that_are_no_text_are_refused_and_no_failure_of_the_launcher(
    launcher: Launcher, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    launcher.say(b'{"number": 5, "request": ' + BYTES_IN_REQUESTS[name] + b"}")
    reply = launcher.hear()
    assert reply["number"] == 5
    refused(reply["answer"], "LauncherRefused", "utf-8")
    assert (launcher.seen, caplog.records) == ([], [])


def _texts(kind: Any) -> Iterator[tuple[str, inspect.StrType]]:
    """Every text among the fields of a request, those of what it is made of too."""
    for each in inspect.type_info(kind).types if isinstance(inspect.type_info(kind), inspect.UnionType) else ():
        yield from _texts(each.cls)
    found = inspect.type_info(kind)
    for field in found.fields if isinstance(found, inspect.StructType) else ():
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        for one in kinds:
            if isinstance(one, inspect.StrType):
                yield f"{found.cls.__name__}.{field.name}", one
            elif isinstance(one, inspect.StructType):
                yield from _texts(one.cls)


def test_no_text_of_a_request_can_be_taken_for_an_option() -> None:
    """Whatever the launcher makes of it: it begins with no dash, unless something goes before it in its argument."""
    texts = dict(_texts(wire.Request))
    assert {"Create.image", "Role.region", "Dial.name", "List.after"} <= set(texts)
    said_after_something = {"Role.prefix"}  # s3://BUCKET/PREFIX
    for name in set(texts) - said_after_something:
        for text in ("-", "-x", "--root=/", "--"):
            assert not re.search(str(texts[name].pattern), text), f"{name} may be {text}"


@pytest.mark.parametrize("name", NO_CREATIONS)
def test_a_sandbox_is_made_in_the_launchers_words_alone(launcher: Launcher, name: str) -> None:
    other, reason = NO_CREATIONS[name]
    refused(launcher.ask(launcher.creation(**other)), "LauncherRefused", reason)
    assert launcher.seen == []
    assert launcher.sandboxes() == []


@pytest.mark.parametrize("name", PAST_BOUNDS)
def test_what_the_launcher_was_not_started_for_is_refused(
    launcher: Launcher, name: str, environments_dir: Path
) -> None:
    other, kind, reason = PAST_BOUNDS[name]
    refused(launcher.ask(launcher.creation(**other)), kind, reason)
    assert launcher.started() == []
    allowed = (launcher.data, launcher.run, environments_dir.resolve(), environments_dir)
    assert [path for path in launcher.touched() if not any(path.is_relative_to(each) for each in allowed)] == []
    assert launcher.sandboxes() == []


def test_a_packet_larger_than_packets_is_refused(launcher: Launcher) -> None:
    launcher.raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    launcher.say(packet({"type": "OpenBeneath", "sandbox_id": ID, "path": "A" * wire.PACKET_BYTES}))
    refused(launcher.hear()["answer"], "LauncherRefused", "at most 65536 bytes")
    assert launcher.seen == []


def test_descriptors_are_not_taken(launcher: Launcher) -> None:
    reader, writer = os.pipe()
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writer] * 8))
    launcher.raw.sendmsg([packet({"type": "Check"})], [rights])
    os.close(writer)
    refused(launcher.hear()["answer"], "LauncherRefused", "brings no descriptors")
    assert os.read(reader, 1) == b"", "the launcher holds what was sent along"
    os.close(reader)
    assert launcher.seen == []


def test_a_number_that_is_in_use_is_refused(launcher: Launcher, sandbox: str) -> None:
    waiting = {"type": "Dial", "sandbox_id": sandbox, "name": "kernel/g99-1", "patience_seconds": 1}
    launcher.say(packet(waiting, 7777))
    launcher.say(packet({"type": "Destroy", "sandbox_id": sandbox}, 7777))
    first = launcher.hear()
    assert first["number"] == 0
    refused(first["answer"], "LauncherRefused", "7777 is in use")
    second = launcher.hear()
    assert (second["number"], second["answer"]["kind"]) == (7777, "NotListening")
    assert launcher.ask({"type": "Running", "sandbox_id": sandbox})["value"] is True


def test_a_request_said_again_makes_no_second_sandbox(launcher: Launcher) -> None:
    request = launcher.creation()
    assert launcher.ask(request)["type"] == "Made"
    refused(launcher.ask(request), "SandboxFailed", "exists already")
    refused(launcher.ask({**request, "generation": 2}), "SandboxFailed", "exists already")
    assert launcher.sandboxes() == [request["sandbox_id"]]
    for _ in range(2):
        assert launcher.ask({"type": "Destroy", "sandbox_id": request["sandbox_id"]})["type"] == "Nothing"
    assert launcher.sandboxes() == []


def test_there_are_only_so_many_sandboxes(launcher: Launcher) -> None:
    for _ in range(MOST_SANDBOXES):
        assert launcher.ask(launcher.creation())["type"] == "Made"
    refused(launcher.ask(launcher.creation()), "LauncherRefused", "as many as there may be")
    assert len(launcher.sandboxes()) == MOST_SANDBOXES
    for _ in range(2):  # places of those that are gone are free again, each once
        assert launcher.ask({"type": "Destroy", "sandbox_id": launcher.sandboxes()[0]})["type"] == "Nothing"
        assert launcher.ask({"type": "Destroy", "sandbox_id": str(uuid.uuid4())})["type"] == "Nothing"
        assert launcher.ask(launcher.creation())["type"] == "Made"
        refused(launcher.ask(launcher.creation()), "LauncherRefused", "as many as there may be")
    assert len(launcher.sandboxes()) == MOST_SANDBOXES


def test_there_are_only_so_many_sandboxes_also_when_all_are_asked_for_at_once(launcher: Launcher) -> None:
    asked = MOST_SANDBOXES + 4
    for _ in range(asked):
        launcher.say({"number": next(launcher.numbers), "request": launcher.creation()})
    answers = [launcher.hear()["answer"] for _ in range(asked)]
    assert [answer["type"] for answer in answers].count("Made") == MOST_SANDBOXES
    assert {answer["kind"] for answer in answers if answer["type"] != "Made"} == {"LauncherRefused"}
    assert len(launcher.sandboxes()) == MOST_SANDBOXES


@pytest.mark.parametrize(
    "kind",
    ["Reopen", "Running", "Usage", "Destroy", "Claim", "MarkWorkspaceReady", "OpenBeneath", "OpenKept", "Listen"],
)
def test_a_sandbox_that_is_not_there_touches_nothing_of_the_host(launcher: Launcher, kind: str) -> None:
    more = {"OpenBeneath": {"path": "eA=="}, "OpenKept": {"name": ""}, "Listen": {"name": "http"}}.get(kind, {})
    answer = launcher.ask({"type": kind, "sandbox_id": str(uuid.uuid4()), **more})
    assert answer["type"] in ("Failed", "Nothing", "Truth")
    assert answer.get("value", False) is False
    allowed = (launcher.data, launcher.run)
    assert [path for path in launcher.touched() if not any(path.is_relative_to(each) for each in allowed)] == []
    assert launcher.started() == []


OUTSIDE = {
    "the parent": b"..",
    "above": b"../../../../../etc/shadow",
    "absolute": b"/etc/shadow",
    "through a link": b"etc/shadow",
    "a link to a process": b"self/root/etc/shadow",
    "the home beside": b"../home",
    "a zero byte": b"f\0/etc/shadow",
    "a FIFO": b"pipe",
    "a socket": b"socket",
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_but_the_workspaces_own_files_is_opened(launcher: Launcher, sandbox: str, name: str) -> None:
    """Among links, a FIFO and a socket that the service may have planted itself."""
    workspace = launcher.runtime.places.of(sandbox).storage / "workspace"
    (workspace / "etc").symlink_to("/etc")
    (workspace / "self").symlink_to("/proc/self")
    os.mkfifo(workspace / "pipe")
    os.mknod(workspace / "socket", 0o140600)
    (workspace / "f").write_text("mine")
    request = {"type": "OpenBeneath", "sandbox_id": sandbox}
    answer = launcher.ask({**request, "path": _base64(OUTSIDE[name])})
    assert (answer["type"], answer["kind"], launcher.brought) == ("Failed", "OSError", 0)
    assert launcher.ask({**request, "path": _base64(b"f")})["type"] == "Descriptor"
    assert launcher.brought == 1


def _base64(path: bytes) -> str:
    text: str = json.loads(wire.encode(path))
    return text


def test_of_what_is_kept_nothing_but_files_is_opened(launcher: Launcher, sandbox: str) -> None:
    """Among links, a FIFO and a socket that code may have planted; then the directory is a link itself."""
    kept = launcher.runtime.places.of(sandbox).storage / "home/.cache/sandcell/variables"
    request = {"type": "OpenKept", "sandbox_id": sandbox}
    assert launcher.ask({**request, "name": ""})["kind"] == "OSError", "nothing is kept yet"
    kept.mkdir(parents=True)
    (kept / "link").symlink_to("/etc/shadow")
    (kept / "self").symlink_to("/proc/self")
    os.mkfifo(kept / "fifo")
    os.mknod(kept / "socket", 0o140600)
    (kept / "f").write_text("mine")
    for name in ("link", "self", "fifo", "socket"):
        answer = launcher.ask({**request, "name": name})
        assert (answer["type"], answer["kind"], launcher.brought) == ("Failed", "OSError", 0), name
    for name in ("f", ""):
        assert (launcher.ask({**request, "name": name})["type"], launcher.brought) == ("Descriptor", 1)
    kept.rename(kept.with_name("other"))
    kept.symlink_to("/etc")
    for name in ("", "shadow"):
        answer = launcher.ask({**request, "name": name})
        assert (answer["type"], answer["kind"], launcher.brought) == ("Failed", "OSError", 0), name


def test_what_is_opened_beneath_a_workspace_cannot_be_written(launcher: Launcher, sandbox: str) -> None:
    (launcher.runtime.places.of(sandbox).storage / "workspace" / "f").write_text("mine")
    launcher.say(packet({"type": "OpenBeneath", "sandbox_id": sandbox, "path": _base64(b"f")}, 5))
    _, ancillary, _, _ = launcher.raw.recvmsg(1 << 16, 64)
    descriptor = int.from_bytes(ancillary[0][2][:4], "little")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(descriptor, b"x")
    os.close(descriptor)


@pytest.mark.parametrize("which", ["directory", "image", "build", "declaration", "root"])
def test_an_image_that_the_service_could_have_planted_is_not_started(
    which: str, tmp_path: Path, launcher: Launcher, bounds: Bounds
) -> None:
    """All of an images directory as root would have it, but for one part, which is the service's."""
    digest = "sha256:" + "1" * 64
    build = tmp_path / "images" / "planted" / digest.replace(":", "-")
    (build / "root").mkdir(parents=True)
    declared = {"name": "planted", "digest": digest, "description": "", "python": "/bin/sh"}
    (build / "environment.json").write_text(json.dumps(declared))
    places = {
        "directory": tmp_path / "images",
        "image": build.parent,
        "build": build,
        "declaration": build / "environment.json",
        "root": build / "root",
    }
    request = wire.decode_request(wire.encode(launcher.creation(image="planted", digest=digest)))
    assert isinstance(request, wire.Create)
    checks = Checks(tmp_path / "images", bounds)
    assert checks.spec(request, sandboxes=0).environment.root == str(build / "root")
    os.chown(places[which], SERVICE, SERVICE)
    with pytest.raises(LauncherRefused, match="not root's alone"):
        checks.spec(request, sandboxes=0)


def test_an_image_that_says_it_is_another_is_not_started(tmp_path: Path, launcher: Launcher, bounds: Bounds) -> None:
    digest = "sha256:" + "1" * 64
    build = tmp_path / "planted" / digest.replace(":", "-")
    (build / "root").mkdir(parents=True)
    declared = {"name": "planted", "digest": "sha256:" + "2" * 64, "description": "", "python": "/bin/sh"}
    (build / "environment.json").write_text(json.dumps(declared))
    request = wire.decode_request(wire.encode(launcher.creation(image="planted", digest=digest)))
    assert isinstance(request, wire.Create)
    with pytest.raises(Exception, match="is built"):
        Checks(tmp_path, bounds).spec(request, sandboxes=0)


def test_links_in_a_workspace_lead_the_launcher_nowhere(launcher: Launcher, sandbox: str, tmp_path: Path) -> None:
    """Named as the launcher's own files are: it opens nothing by a name below what the service can write."""
    (tmp_path / "precious").write_text("precious")
    places = launcher.runtime.places.of(sandbox)
    for name in ("storage", "bundle", "sandbox.json", "workspace-ready", "egress", "guest"):
        (places.storage / "workspace" / name).symlink_to(tmp_path / "precious")
    for kind in ("MarkWorkspaceReady", "Reopen", "Usage", "Running"):
        assert launcher.ask({"type": kind, "sandbox_id": sandbox})["type"] != "Failed"
    assert launcher.ask({"type": "Listen", "sandbox_id": sandbox, "name": "http"})["type"] == "Descriptor"
    assert launcher.ask({"type": "Destroy", "sandbox_id": sandbox})["type"] == "Nothing"
    assert (tmp_path / "precious").read_text() == "precious"
    assert not [path for path in launcher.touched() if path.is_relative_to(tmp_path)]


def test_an_image_with_packages_is_made_of_the_sandboxs_own_image_and_of_so_many_alone(
    launcher: Launcher, sandbox: str, environments_dir: Path
) -> None:
    own = {"image": launcher.environment.image, "digest": launcher.environment.digest}
    refused(launcher.ask(_lay(**own)), "SandboxGone", f"sandbox {ID} is gone")
    refused(launcher.ask(_lay(sandbox_id=sandbox)), "LauncherRefused", "was made from another image")
    refused(
        launcher.ask(_lay(sandbox_id=sandbox, digest=own["digest"], image=".layers")),
        "UnknownEnvironment",
        "no image .layers",
    )
    others = [launcher.data / ".layers" / f"sha256-{digit * 64}" for digit in "123"[:MOST_LAYERS]]
    for other in others:
        other.mkdir(parents=True)
    refused(launcher.ask(_lay(sandbox_id=sandbox, **own)), "LauncherRefused", "as many as there may be")
    assert launcher.started() == []
    assert launcher.ask({"type": "RemoveLayer", "layer": DIGEST})["type"] == "Nothing"
    allowed = (launcher.data, launcher.run, environments_dir.resolve(), environments_dir)
    assert [path for path in launcher.touched() if not any(path.is_relative_to(each) for each in allowed)] == []
    assert all(other.exists() for other in others)
    for other in others:
        assert launcher.ask({"type": "RemoveLayer", "layer": f"sha256:{other.name[7:]}"})["type"] == "Nothing"
        assert not other.exists()


def test_a_flood_that_reads_no_answers_ends_the_connection_and_nothing_else(launcher: Launcher) -> None:
    launcher.raw.settimeout(10)

    def flood() -> None:
        for number in range(1, 1_000_000):
            launcher.say(packet({"type": "List", "after": ""}, number))

    with pytest.raises((TimeoutError, ConnectionError)):
        flood()
    assert launcher.ended.wait(120)
    assert launcher.sandboxes() == []
    assert launcher.started() == []


def test_a_flood_of_waits_holds_up_no_more_than_so_many(launcher: Launcher, sandbox: str) -> None:
    waiting = {"type": "Dial", "sandbox_id": sandbox, "name": "kernel/g99-1", "patience_seconds": 1}
    for number in range(1, MOST_AT_ONCE + 50):
        launcher.say(packet(waiting, number))
    answered = [launcher.hear()["answer"]["kind"] for _ in range(1, MOST_AT_ONCE + 50)]
    assert set(answered) == {"NotListening"}
    assert launcher.ask({"type": "Running", "sandbox_id": sandbox})["value"] is True


NO_TOKENS = {
    "a line of its own": 'x"\nurl = "http://attacker.example"',
    "a text that ends early": 'xxxxxxxx"',
    "a control": "xxxxxxxx\x1b",
    "short": "x",
    "without end": "x" * 1000,
    "an option": "--token=xxxxxxxx",
}


def test_the_file_of_the_user_who_started_it_gets_one_token_and_nothing_else(launcher: Launcher) -> None:
    for text in NO_TOKENS.values():
        answer = launcher.ask({"type": "SaveToken", "token": text})
        if text == NO_TOKENS["a text that ends early"]:
            assert answer["type"] == "Nothing"
        else:
            refused(answer, "LauncherRefused", "matching regex")
    saved = tomllib.loads((launcher.run / "client.toml").read_text())
    assert saved == {"url": "http://127.0.0.1:1", "token": NO_TOKENS["a text that ends early"]}
    assert launcher.ask({"type": "SaveToken", "token": saved["token"]})["type"] == "Nothing"
    refused(launcher.ask({"type": "SaveToken", "token": "another-token"}), "LauncherRefused", "saved already")
    assert tomllib.loads((launcher.run / "client.toml").read_text()) == saved


@pytest.mark.parametrize("how", [lambda raw: raw.close(), lambda raw: raw.send(b""), lambda raw: raw.shutdown(2)])
def test_hanging_up_in_the_middle_of_a_creation_takes_the_sandbox_back(
    launcher: Launcher, how: Callable[[socket.socket], object]
) -> None:
    launcher.say(packet(launcher.creation()))
    while not launcher.sandboxes():
        time.sleep(0.001)
    how(launcher.raw)
    assert launcher.ended.wait(120)
    assert launcher.left == ()


def test_an_honest_request_is_granted_with_descriptors_that_are_the_sandboxs(launcher: Launcher, sandbox: str) -> None:
    """The other side of all this: the server that refuses so much does its work."""
    assert launcher.ask({"type": "Usage", "sandbox_id": sandbox})["usage"]["memory_limit_bytes"] == 2048 << 20
    assert [info["sandbox_id"] for info in launcher.ask({"type": "List", "after": ""})["infos"]] == [sandbox]
    assert launcher.ask({"type": "List", "after": sandbox})["infos"] == []
    assert launcher.ask({"type": "MarkWorkspaceReady", "sandbox_id": sandbox})["type"] == "Nothing"
    assert launcher.ask({"type": "List", "after": ""})["infos"][0]["workspace_ready"] is True
    assert launcher.ask({"type": "Listen", "sandbox_id": sandbox, "name": "s3"})["type"] == "Descriptor"
    assert launcher.brought == 1
