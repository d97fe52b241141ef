"""The start of a session on a workspace of 5 GB, against one on an empty workspace; then how soon its first code runs.

The workspace's objects are files with holes in the service's own store: they are read and written like any others, and
take no disk there. In the sandbox they do.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import httpx

from tests.running_service import RunningService

FILE_BYTES = 10_000_000
FILES, FEW_FILES = 500, 10
START_SECONDS, RESTORE_SECONDS = 120.0, 1_200.0


def run(service: RunningService, _environments_dir: Path, *, rounds: int = 15) -> str:
    files = FILES if rounds > 2 else FEW_FILES
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=START_SECONDS) as http:
        storage_mb = max(512, 2 * files * FILE_BYTES // 1_000_000)
        made = http.post("/v1/environments", json={"name": "lazy_start", "storage_mb": min(storage_mb, 10_240)})
        environment = made.raise_for_status().json()["id"]
        workspace = _filled(http, environment, service.data_dir, files)
        empty, full = [], []
        for _ in range(rounds + 1):  # the first of each is not counted
            empty.append(_start(http, environment, None))
            full.append(_start(http, environment, workspace))
        first = _first_code(http, environment, workspace, files)
    on_all, on_nothing = statistics.median(full[1:]), statistics.median(empty[1:])
    return (
        f"start on {files * FILE_BYTES / 1e9:g} GB in {files} files {on_all * 1000:.0f} ms, on nothing"
        f" {on_nothing * 1000:.0f} ms (p50 of {rounds}); ratio {on_all / on_nothing:.2f} (at most 1.2);"
        f" its first code has run after {first:.1f} s"
    )


def _filled(http: httpx.Client, environment: str, data_dir: Path, files: int) -> str:
    """A workspace whose objects somebody has put into the store."""
    session = http.post("/v1/sessions", json={"environment": environment}).raise_for_status().json()
    http.delete(f"/v1/sessions/{session['id']}").raise_for_status()
    directory = data_dir / "store" / "workspaces" / "sessions" / session["workspace_id"] / "workspace"
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        with (directory / f"part-{number:03}").open("wb") as file:
            file.truncate(FILE_BYTES)
    return str(session["workspace_id"])


def _start(http: httpx.Client, environment: str, workspace: str | None) -> float:
    body = {"environment": environment} | ({"workspace_id": workspace} if workspace is not None else {})
    began = time.perf_counter()
    session = http.post("/v1/sessions", json=body).raise_for_status().json()
    taken = time.perf_counter() - began
    assert session["status"] == "READY"
    http.delete(f"/v1/sessions/{session['id']}").raise_for_status()
    return taken


def _first_code(http: httpx.Client, environment: str, workspace: str, files: int) -> float:
    """The seconds until code has seen every file, start of the session included."""
    began = time.perf_counter()
    body = {"environment": environment, "workspace_id": workspace}
    session = http.post("/v1/sessions", json=body).raise_for_status().json()
    path = f"/v1/sessions/{session['id']}"
    code = "import os; print(sum(each.stat().st_size for each in os.scandir()))"
    outcome = http.post(f"{path}/executions", json={"code": code}, timeout=RESTORE_SECONDS).raise_for_status().json()
    taken = time.perf_counter() - began
    assert outcome["stdout"] == f"{files * FILE_BYTES}\n", outcome
    http.delete(path, timeout=RESTORE_SECONDS).raise_for_status()
    return taken
