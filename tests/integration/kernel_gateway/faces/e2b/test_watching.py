"""Directories that clients watch: collected and as a stream, with what is new in them, and bounded."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

import httpx

from kernel_gateway.services.workspaces.watches import MOST_WATCHERS
from kernels.guest.server.watch_routes import MAX_WATCHES
from kernels.guest.workspace.watching import MAX_DIRECTORIES
from tests.integration.kernel_gateway.faces.e2b.owners import Owner, make_owner, unwrap
from tests.running_service import RunningService

PATIENCE_SECONDS = 60.0


def ask(owner: Owner, verb: str, **body: Any) -> httpx.Response:
    return owner.data("POST", f"/filesystem.Filesystem/{verb}", json=body)


def collect(owner: Owner, watcher_id: str, last: tuple[str, str]) -> list[tuple[str, str]]:
    """Kinds and names until these come."""
    found: list[tuple[str, str]] = []
    give_up = time.monotonic() + PATIENCE_SECONDS
    while last not in found and time.monotonic() < give_up:
        events = ask(owner, "GetWatcherEvents", watcherId=watcher_id).json()["events"]
        found += [(each["type"].removeprefix("EVENT_TYPE_").lower(), each["name"]) for each in events]
    return found


def test_what_changes_is_collected(owner: Owner) -> None:
    owner.run("import os; os.makedirs('watched/inner')")
    watcher = ask(owner, "CreateWatcher", path="watched").json()["watcherId"]
    owner.run(
        "open('watched/a', 'w').write('1'); os.chmod('watched/a', 0o600); os.rename('watched/a', 'watched/b')\n"
        "open('watched/inner/unseen', 'w').close(); os.remove('watched/b'); open('watched/last', 'w').close()"
    )
    found = collect(owner, watcher, ("create", "last"))
    assert found[:3] == [("create", "a"), ("write", "a"), ("chmod", "a")]
    assert [each for each in found if each[1] == "b"] == [("create", "b"), ("remove", "b")]
    assert ("rename", "a") in found
    assert "unseen" not in str(found)
    octets = {"Content-Type": "application/octet-stream"}
    assert owner.data("POST", "/files?path=watched/sent", octets, content=b"x").status_code == 200
    assert collect(owner, watcher, ("write", "sent")) == [("create", "sent"), ("write", "sent")]
    assert ask(owner, "GetWatcherEvents", watcherId=watcher).json()["events"] == []
    assert ask(owner, "RemoveWatcher", watcherId=watcher).status_code == 200
    for verb in ("GetWatcherEvents", "RemoveWatcher"):
        assert ask(owner, verb, watcherId=watcher).status_code == 404


def test_a_forgotten_watcher_ends_with_a_pause_and_a_followed_directory_refuses_it(
    service: RunningService, http: httpx.Client
) -> None:
    owner = make_owner(service, http)
    pause = f"/sandboxes/{owner.id}/pause"
    watcher = ask(owner, "CreateWatcher", path="/tmp").json()["watcherId"]
    assert owner.control("POST", pause, json={}).status_code == 204
    owner.run("1")
    assert ask(owner, "GetWatcherEvents", watcherId=watcher).status_code == 404
    message = json.dumps({"path": "/tmp"}).encode()
    headers = {**owner.headers, "Content-Type": "application/connect+json"}
    body = struct.pack(">BI", 0, len(message)) + message
    with owner.http.stream("POST", "/filesystem.Filesystem/WatchDir", content=body, headers=headers) as answer:
        chunks = answer.iter_raw()
        assert list(unwrap(next(chunks))) == [{"start": {}}]
        refused = owner.control("POST", pause, json={})
    assert (refused.status_code, "a client follows a directory" in refused.text) == (400, True)
    assert owner.control("DELETE", f"/sandboxes/{owner.id}").status_code == 204


def test_a_tree_is_watched_with_what_is_new_in_it(owner: Owner) -> None:
    owner.run("import os; os.makedirs('tree/old')")
    message = json.dumps({"path": "tree", "recursive": True}).encode()
    headers = {**owner.headers, "Content-Type": "application/connect+json"}
    body = struct.pack(">BI", 0, len(message)) + message
    with owner.http.stream("POST", "/filesystem.Filesystem/WatchDir", content=body, headers=headers) as answer:
        chunks = answer.iter_raw()
        assert list(unwrap(next(chunks))) == [{"start": {}}]
        owner.run("open('tree/old/a', 'w').close(); os.mkdir('tree/new')")
        seen: list[str] = []
        while "new" not in seen:
            seen += [each["filesystem"]["name"] for each in unwrap(next(chunks))]
        assert "old/a" in seen
        while "new/b" not in seen:  # the new directory is watched shortly after it was made
            owner.run("open('tree/new/b', 'w').close(); os.remove('tree/new/b')")
            seen += [each["filesystem"]["name"] for each in unwrap(next(chunks))]


def test_what_cannot_be_watched(owner: Owner, stranger: Owner) -> None:
    assert ask(owner, "CreateWatcher", path="absent").status_code == 404
    for path, status in (("/proc/1", 400), ("/root", 400), ("/etc/hostname", 409)):
        assert ask(owner, "CreateWatcher", path=path).status_code == status, path
    owner.run(f"import os; [os.makedirs(f'wide/{{number}}') for number in range({MAX_DIRECTORIES})]")
    assert ask(owner, "CreateWatcher", path="wide").status_code == 200
    assert ask(owner, "CreateWatcher", path="wide", recursive=True).status_code == 429
    assert MOST_WATCHERS <= MAX_WATCHES
    made = [ask(owner, "CreateWatcher", path="/tmp") for _ in range(MOST_WATCHERS)]
    assert [each.status_code for each in made] == [200] * (MOST_WATCHERS - 1) + [429]
    for each in made[:-1]:
        assert ask(stranger, "GetWatcherEvents", watcherId=each.json()["watcherId"]).status_code == 404
        assert ask(owner, "RemoveWatcher", watcherId=each.json()["watcherId"]).status_code == 200
