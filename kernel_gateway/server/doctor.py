"""What this host can enforce, said line by line: `sandcell doctor`, and the refusals of `sandcell serve`."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from kernel_gateway.errors import SettingInvalid, StartRefused
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
remove those of a service that runs, and the service would sweep the sandbox away. Each doctor has one with a number
behind the name, and holds its lock: one that nobody has locked is of a doctor that was killed."""
_PLACES = re.compile(rf"{_PLACE}(-[0-9a-f]{{8}})?")
_LATER = "the next doctor and the next start of the service try again"
_ANSWER_SECONDS = 5.0
"""How long the store may take for one answer, which is asked for up to three times."""


def run(settings: Settings, *, host_only: bool = False) -> tuple[Finding, ...]:
    """Every finding, in the order a person would mend them; ends with a sandbox that is really started.

    `host_only` leaves out the environments, the store and the sandbox: what a build would come before.
    """
    return asyncio.run(_run(settings, host_only=host_only))


async def _run(settings: Settings, *, host_only: bool) -> tuple[Finding, ...]:
    place = Path(settings.data_dir, _PLACE) if os.geteuid() == 0 else None  # others may not look there
    left = await remove_leftovers(settings) if place is not None else []
    runtime = sandboxes.make_runtime(settings, place)
    try:
        findings = [*await runtime.check()]
        findings += [Finding("leftovers", ok=False, detail=each, remedy=_LATER, required=False) for each in left]
        if not host_only:
            findings += [find_environments(settings), await asyncio.to_thread(_store_of_root, settings)]
            findings += await asyncio.to_thread(find_database, settings)
        findings.append(watch(settings.live_sessions))
        if isinstance(runtime, OciRuntime):  # another runtime's sandboxes may take nothing of this host
            findings.append(host_shares.terminals(settings.live_sessions))
            findings.append(host_shares.process_ids(settings.live_sessions, settings.pids))
            findings.append(host_shares.kernel_objects(settings.live_sessions, settings.connections))
            findings.append(_check_processors(runtime, settings))
        if not host_only and all(one.ok for one in findings if one.required):
            findings.append(await _try_sandbox(settings))
        return tuple(findings)
    finally:
        await runtime.aclose()


async def remove_leftovers(settings: Settings) -> list[str]:
    """Remove what doctors that were killed have left; says what could not be removed, and why.

    Called as root, by the next doctor and by the start of the service.
    """
    data, left = Path(settings.data_dir), []
    for place in [each for each in data.glob(f"{_PLACE}*") if _PLACES.fullmatch(each.name) and each.is_dir()]:
        descriptor = _lock(place)
        if descriptor is None:  # its doctor is at work
            continue
        try:
            await _remove(settings, place)
        except (KernelsError, OSError) as error:
            left.append(f"{place}, which a doctor that was killed has left, cannot be removed: {error}")
        finally:
            os.close(descriptor)
    return left


async def _remove(settings: Settings, place: Path) -> None:
    runtime = sandboxes.make_runtime(settings, place)
    try:
        for info in await runtime.list():
            await runtime.destroy(info.sandbox_id)
    finally:
        await runtime.aclose()
    shutil.rmtree(place)
    # It had checked the runtime before, in a group that belongs to no directory.
    await sandboxes.make_runtime(settings, Path(settings.data_dir, _PLACE)).aclose()


@contextlib.contextmanager
def own_place(data: Path) -> Iterator[Path]:
    """A directory for the sandbox that is tried, locked as long as this process lives."""
    descriptor = None
    while descriptor is None:  # another doctor may take it for a leftover before it is locked, and remove it
        place = data / f"{_PLACE}-{secrets.token_hex(4)}"
        place.mkdir(parents=True, mode=0o700)
        descriptor = _lock(place)
    try:
        yield place
    finally:
        if not any((place / "sandboxes").glob("*")):  # else what could not be removed is left to the next
            shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def _lock(place: Path) -> int | None:
    """The place, open and locked until the descriptor is closed; None when another process has it, or it is gone."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), place.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _check_processors(runtime: OciRuntime, settings: Settings) -> Finding:
    """Whether the largest environment gets its vCPUs where this process runs."""
    try:
        resources = [one.resources for one in sandboxes.find_installed(settings).values()]
    except SettingInvalid:  # which has a line of its own
        resources = []
    vcpus = max((one.vcpus for one in resources), default=Resources().vcpus)
    top = runtime.commands[settings.runtime].groups_at_top
    return host_shares.processor_quota(runtime.cgroups, vcpus, top=top)


async def _try_sandbox(settings: Settings) -> Finding:
    """Start a sandbox of the first environment, count it, remove it."""
    environment = next(iter(environments.find_installed(settings.environments_path).values()))
    try:
        with own_place(Path(settings.data_dir)) as place:
            runtime = sandboxes.make_runtime(settings, place)
            try:
                return await _start_and_count(runtime, sandboxes.bound_resources(environment, settings))
            finally:
                await runtime.aclose()
    except (KernelsError, OSError) as error:
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


def find_database(settings: Settings) -> list[Finding]:
    """Whether a server that has the database is one for it, for this user; a file needs no server, and no line."""
    if not settings.database.startswith("postgres"):
        return []
    from kernel_gateway.storage import database  # noqa: PLC0415 - takes long to import, and few need it

    try:
        return [Finding("database", ok=True, detail=database.describe(settings.database_url))]
    except StartRefused as error:
        remedy = "docs/how-to/postgresql.md says what it needs"
        return [Finding("database", ok=False, detail=error.message, remedy=remedy)]


def watch(sessions: int) -> Finding:
    """How many workspaces the kernel tells us of changes in; after each execution of another all its names are read."""
    instances = _read_most_instances()
    detail = f"the kernel reports changes in {min(instances, sessions):,} workspaces"
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


def store(settings: Settings, claim: Callable[[], None] = lambda: None) -> Finding:
    """Whether the store lets us write, read, list and delete. One that is away stops no start: sessions wait for it.

    What is to use it from now on then makes its `claim`.
    """
    try:
        opened = open_store(settings.store_url, answer_seconds=_ANSWER_SECONDS)
        try:
            advice = opened.check()
        finally:
            opened.close()
        claim()
    except (BadStoreUrl, StoreRefused) as error:
        remedy = "mend it before a session starts: its files could not be kept"
        return Finding("store", ok=False, detail=str(error), remedy=remedy)
    except (WorkspaceSyncError, OSError) as error:
        remedy = "new sessions are refused, and files of live ones wait here, until it is back"
        return Finding("store", ok=False, detail=str(error), remedy=remedy, required=False)
    return Finding("store", ok=True, detail=_plain_url(settings), remedy="; ".join(advice))
