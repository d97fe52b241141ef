"""What this host can enforce, said line by line: `sandcell doctor`, and the refusals of `sandcell serve`."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from pathlib import Path

from kernel_gateway.errors import SettingInvalid
from kernel_gateway.server import sandboxes
from kernel_gateway.settings import Settings
from kernels.environment import Environment, Resources
from kernels.errors import KernelsError
from kernels.oci import environments
from kernels.oci.host import shares as host_shares
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import Finding, SandboxRuntime, SandboxSpec
from workspace_sync import open_store
from workspace_sync.errors import BadStoreUrl, StoreRefused, WorkspaceSyncError

_PLACE = "doctor"
"""Where the sandbox that is tried lies, below the data directory: in places of its own, or the end of the doctor would
remove those of a service that runs, and the service would sweep the sandbox away."""

_ANSWER_SECONDS = 5.0
"""How long the store may take for one answer, which is asked for up to three times."""


def run(settings: Settings, *, host_only: bool = False) -> tuple[Finding, ...]:
    """Every finding, in the order a person would mend them; ends with a sandbox that is really started.

    `host_only` leaves out the environments, the store and the sandbox: what a build would come before.
    """
    return asyncio.run(_run(settings, host_only=host_only))


async def _run(settings: Settings, *, host_only: bool) -> tuple[Finding, ...]:
    place = Path(settings.data_dir, _PLACE) if os.geteuid() == 0 else None  # others may not look there
    runtime = sandboxes.make_runtime(settings, place)
    try:
        findings = [*await runtime.check()]
        if not host_only:
            findings += [find_environments(settings), await asyncio.to_thread(_store_of_root, settings)]
        findings.append(watch(settings.live_sessions))
        if isinstance(runtime, OciRuntime):  # another runtime's sandboxes may take nothing of this host
            findings.append(host_shares.terminals(settings.live_sessions))
            findings.append(host_shares.process_ids(settings.live_sessions, settings.pids))
            findings.append(_check_processors(runtime, settings))
        if not host_only and all(one.ok for one in findings if one.required):
            findings.append(await _try_sandbox(runtime, settings))
        return tuple(findings)
    finally:
        await runtime.aclose()
        if place and not any((place / "sandboxes").glob("*")):  # another doctor's
            shutil.rmtree(place, ignore_errors=True)


def _check_processors(runtime: OciRuntime, settings: Settings) -> Finding:
    """Whether the largest environment gets its vCPUs where this process runs."""
    try:
        resources = [one.resources for one in sandboxes.find_installed(settings).values()]
    except SettingInvalid:  # which has a line of its own
        resources = []
    vcpus = max((one.vcpus for one in resources), default=Resources().vcpus)
    top = runtime.commands[settings.runtime].groups_at_top
    return host_shares.processor_quota(runtime.cgroups, vcpus, top=top)


async def _try_sandbox(runtime: SandboxRuntime, settings: Settings) -> Finding:
    """Start a sandbox of the first environment, count it, remove it."""
    environment = next(iter(environments.installed(settings.environments_path).values()))
    try:
        return await _start_and_count(runtime, sandboxes.bound_resources(environment, settings))
    except KernelsError as error:
        return Finding("sandbox", ok=False, detail=str(error), remedy="see the line above that does not hold, if any")


async def _start_and_count(runtime: SandboxRuntime, environment: Environment) -> Finding:
    sandbox_id = str(uuid.uuid4())
    try:
        await runtime.create(SandboxSpec(sandbox_id, environment))
        usage = await runtime.usage(sandbox_id)
    finally:
        await runtime.destroy(sandbox_id)
    memory, storage = usage.memory_limit_bytes >> 20, usage.storage_limit_bytes >> 20
    return Finding("sandbox", ok=True, detail=f"one starts, held to {memory} MB of memory and {storage} MB of disk")


def find_environments(settings: Settings) -> Finding:
    """The environments there are, or what keeps them from being."""
    try:
        names = sorted(sandboxes.find_installed(settings))
    except SettingInvalid as error:
        return Finding("environments", ok=False, detail=str(error), remedy="mend the environments file, or remove it")
    if names:
        return Finding("environments", ok=True, detail=", ".join(names))
    remedy = "run: sandcell environments build python"
    return Finding("environments", ok=False, detail=f"none is built in {settings.environments_path}", remedy=remedy)


def watch(sessions: int) -> Finding:
    """How many workspaces the kernel tells us of changes in; after each execution of another all its names are read."""
    instances = _read_most_instances()
    detail = f"changes in {min(instances, sessions):,} workspaces are reported by the kernel"
    if instances >= sessions:
        return Finding("watch", ok=True, detail=detail)
    remedy = (
        f"for {sessions:,} sessions: sysctl fs.inotify.max_user_instances={sessions + 128}, and a max_user_watches"
        " of their directories together; workspaces beyond are walked after each execution"
    )
    return Finding("watch", ok=True, detail=detail, remedy=remedy)


def _read_most_instances() -> int:
    try:
        return int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    except (OSError, ValueError):  # a kernel without it
        return 0


def _store_of_root(settings: Settings) -> Finding:
    """The store as root finds it; an ordinary user may read neither a local one nor the service's credentials."""
    if os.geteuid() != 0:
        return Finding("store", ok=True, detail=f"{_plain_url(settings)}, not tried: only root can")
    return store(settings)


def _plain_url(settings: Settings) -> str:
    return settings.store_url.partition("?")[0]


def store(settings: Settings) -> Finding:
    """Whether the store lets us write, read, list and delete. One that is away stops no start: sessions wait for it."""
    try:
        opened = open_store(settings.store_url, answer_seconds=_ANSWER_SECONDS)
        try:
            advice = opened.check()
        finally:
            opened.close()
    except (BadStoreUrl, StoreRefused) as error:
        remedy = "mend it before a session starts: its files could not be kept"
        return Finding("store", ok=False, detail=str(error), remedy=remedy)
    except WorkspaceSyncError as error:
        remedy = "new sessions are refused, and files of live ones wait here, until it is back"
        return Finding("store", ok=False, detail=str(error), remedy=remedy, required=False)
    return Finding("store", ok=True, detail=_plain_url(settings), remedy="; ".join(advice))
