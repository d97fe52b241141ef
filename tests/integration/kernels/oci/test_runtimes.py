"""The choice of a runtime: several at once, each remembered; a missing or unusable one is refused and says why."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from msgspec import structs

from kernels.environment import Environment
from kernels.errors import RuntimeUnusable, SandboxFailed
from kernels.guest_client.client import GuestClient
from kernels.oci import command as commands
from kernels.oci.cgroups import Cgroups
from kernels.oci.command import RUNSC, OciCommand
from kernels.oci.host import findings as host
from kernels.oci.host import trial
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxSpec

NAMES = ("runc", "crun", "runsc")
TRIAL_UID = 1_600_000_000


@pytest.fixture
def runtime_name() -> str:
    """Of the service; what these tests are about they choose themselves."""
    return "runc"


@asynccontextmanager
async def opened(settings: RuntimeSettings) -> AsyncIterator[OciRuntime]:
    runtime = OciRuntime(settings)
    try:
        yield runtime
    finally:
        for info in await runtime.list():
            await runtime.destroy(info.sandbox_id)
        await runtime.aclose()


def spec(environment: Environment, runtime: str) -> SandboxSpec:
    return SandboxSpec(str(uuid.uuid4()), dataclasses.replace(environment, runtime=runtime))


async def kernel_version(runtime: OciRuntime, sandbox_id: str) -> str:
    guest = GuestClient(partial(runtime.dial, sandbox_id))
    try:
        await guest.wait_ready(60)
        done = await guest.run_command("uname -r", timeout_seconds=120, output_bytes=1000)
        return done.stdout.strip()
    finally:
        await guest.aclose()


def test_environments_choose_and_a_later_service_removes_with_what_made(
    settings: RuntimeSettings, environment: Environment
) -> None:
    """The later one has only the service's own runtime left in its settings."""

    async def test() -> None:
        async with opened(structs.replace(settings, more_runtimes=NAMES[1:])) as runtime:
            specs = [spec(environment, name) for name in ("", "crun", "runsc")]
            await asyncio.gather(*(runtime.create(one) for one in specs))
            kernels = [await kernel_version(runtime, one.sandbox_id) for one in specs]
            assert kernels[0] == kernels[1] == Path("/proc/sys/kernel/osrelease").read_text().strip()
            assert kernels[2] != kernels[0]
            made = [json.loads(runtime.places.of(one.sandbox_id).journal.read_text())["runtime"] for one in specs]
            assert made == ["runc", "crun", "runsc"]
            async with opened(settings) as later:
                for one in specs:
                    assert await later.running(one.sandbox_id)
                    assert (await later.usage(one.sandbox_id)).memory_bytes > 0
                    await later.destroy(one.sandbox_id)
                    assert not await later.running(one.sandbox_id)
            assert await runtime.list() == ()

    asyncio.run(test())


@pytest.mark.parametrize("asked", ["crun", "docker", "../runc"])
def test_an_environment_gets_no_runtime_but_those_the_service_was_started_with(
    settings: RuntimeSettings, environment: Environment, asked: str
) -> None:
    async def test() -> None:
        async with opened(settings) as runtime:
            with pytest.raises(RuntimeUnusable, match="not started with the runtime"):
                await runtime.create(spec(environment, asked))
            assert await runtime.list() == ()

    asyncio.run(test())


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_program_is_refused_with_its_package(
    settings: RuntimeSettings, environment: Environment, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = dataclasses.replace(commands.find_program(name), program=f"{name}-that-is-not-there")
    monkeypatch.setattr(commands, name.upper(), absent)

    async def test() -> None:
        async with opened(structs.replace(settings, runtime=name)) as runtime:
            findings = {one.name: one for one in await runtime.check()}
            assert not findings[f"runtime {name}"].ok
            assert f"install the package {name}-that-is-not-there" in findings[f"runtime {name}"].remedy
            with pytest.raises(RuntimeUnusable, match=f"cannot run sandboxes. runtime {name}"):
                host.require(tuple(findings.values()))
            with pytest.raises(RuntimeUnusable, match="is not installed; install the package"):
                await runtime.create(spec(environment, ""))

    asyncio.run(test())


@pytest.mark.parametrize("name", NAMES)
def test_a_runtime_that_is_there_is_tried(name: str, tmp_path: Path) -> None:
    cgroups = Cgroups("sandcell-trial")
    trial.run(OciCommand(name, tmp_path, unified=cgroups.unused_unified), cgroups, TRIAL_UID)
    cgroups.remove_parent()


def test_the_build_that_is_asked_for_its_flags_is_the_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that lies beside the system's, first on PATH."""
    (tmp_path / "first").mkdir()
    program = tmp_path / "first" / "runsc"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {shutil.which("runsc")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    cgroups = Cgroups("sandcell-trial")
    trial.run(OciCommand("runsc", tmp_path), cgroups, TRIAL_UID)
    cgroups.remove_parent()
    calls = (tmp_path / "calls").read_text()
    assert "help platforms" in calls
    assert " run --detach " in calls


def test_crun_says_what_it_has_against_a_hybrid_host(tmp_path: Path) -> None:
    """Where the host is hybrid, and the mount is not taken out of its sight."""
    cgroups = Cgroups("sandcell-trial")
    crun = OciCommand("crun", tmp_path)
    try:
        if cgroups.unused_unified is None:
            trial.run(crun, cgroups, TRIAL_UID)
        else:
            with pytest.raises(SandboxFailed, match="cgroup"):
                trial.run(crun, cgroups, TRIAL_UID)
    finally:
        cgroups.remove_parent()


def test_a_build_of_runsc_without_a_platform_that_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "RUNSC", dataclasses.replace(RUNSC, platforms=("none-such",)))
    with pytest.raises(RuntimeUnusable, match=r"runsc offers the platforms .*ptrace.*needed is one of: none-such"):
        trial.run(OciCommand("runsc", tmp_path), Cgroups("sandcell-trial"), TRIAL_UID)


@pytest.mark.parametrize("name", NAMES)
def test_a_container_that_does_not_run_fails_the_trial_with_what_the_runtime_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_PROGRAMS", ())
    cgroups = Cgroups("sandcell-trial")
    command = OciCommand(name, tmp_path, unified=cgroups.unused_unified)
    with pytest.raises(SandboxFailed, match=f"{name} run failed: .*(no such file|not found)"):
        trial.run(command, cgroups, TRIAL_UID)
    cgroups.remove_parent()


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script in the place of runc, for faults that runc cannot be brought to."""

    def stand_in(script: str) -> None:
        program = tmp_path / "runtime"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(commands, "RUNC", dataclasses.replace(commands.RUNC, program=str(program)))

    return stand_in


def test_a_runtime_that_hangs_is_killed_at_its_deadline(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in(f"echo $$ > {tmp_path}/process; exec sleep 987654")
    command = OciCommand("runc", tmp_path, deadline_seconds=1)
    with pytest.raises(SandboxFailed, match=r"delete did not end in 1 s"):
        command.delete("x")
    assert not Path("/proc", (tmp_path / "process").read_text().strip()).exists()


def test_an_error_quotes_the_end_of_what_a_runtime_says(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in("echo the first line; yes filler | head -n 1000; echo the reason >&2; exit 3")
    with pytest.raises(SandboxFailed, match=r"the reason$") as failed:
        OciCommand("runc", tmp_path).delete("x")
    assert "the first line" not in str(failed.value)
    assert len(str(failed.value)) < 3000


def test_the_guests_code_is_compiled_once_for_all_sandboxes(settings: RuntimeSettings, tmp_path: Path) -> None:
    """Each sandbox would compile it at its start."""
    runtime = OciRuntime(structs.replace(settings, data_directory=tmp_path / "new"))
    runtime.places.guests.mkdir(parents=True)
    try:
        copy = runtime._guest()
        sources = list(copy.glob("**/*.py"))
        assert len(sources) > 20
        assert all(Path(cache_from_source(str(path))).is_file() for path in sources)
        assert runtime._guest() == copy
    finally:
        asyncio.run(runtime.aclose())
