"""A launcher's plan travels as text and is the same plan afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kernels.launcher import confine
from kernels.launcher.checks import Bounds
from kernels.launcher.handover import Confinement, in_memory, read_back
from kernels.launcher.plan import Plan, ServicePlan, TokenPlan, ViewerPlan
from kernels.sandbox import RuntimeSettings

PLAN = Plan(
    oci=RuntimeSettings(
        "runc", Path("/var/lib/x"), Path("/run/x"), uid_ranges=7, service_uid=9, more_runtimes=("runsc",)
    ),
    environments="/var/lib/x/environments",
    bounds=Bounds(memory_mb=2048, storage_mb=512, pids=64, vcpus=2.0, sandboxes=3, runtimes=("runc", "runsc")),
    service=ServicePlan(
        uid=9,
        command=["true"],
        variables={"PATH": "/usr/bin"},
        directory="/",
        descriptors=[4, 5],
        reach=["/usr"],
        refusal=2,
    ),
    token=TokenPlan(descriptor=6, before="token = ", after="\n", error=""),
    viewer=ViewerPlan(uid=8, command=["true"], reach=["/opt"], seconds=1.5, at_once=2),
)


def test_a_plan_is_the_same_after_its_way() -> None:
    assert Plan.decode(PLAN.encode()) == PLAN


def test_what_travels_in_memory_is_never_changed_again() -> None:
    descriptor = in_memory("test", b"said once")
    for attempt in (lambda: os.pwrite(descriptor, b"X", 0), lambda: os.ftruncate(descriptor, 0)):
        with pytest.raises(PermissionError):
            attempt()
    assert read_back(descriptor) == b"said once"
    os.close(descriptor)


@pytest.mark.parametrize(("written", "read"), [(b'"uid_ranges":7', b'"uid_range":7'), (b'"/run/x"', b"null")])
def test_a_plan_that_says_something_else_is_none(written: bytes, read: bytes) -> None:
    assert PLAN.encode().count(written) == 1
    with pytest.raises(msgspec.ValidationError):
        Plan.decode(PLAN.encode().replace(written, read))


def test_a_confinement_is_the_same_after_its_way_and_has_no_other_fields() -> None:
    said = Confinement(9, ["true", "\udcff"], "/", ["/usr"], "/views", "/group", 1, 2, apart=True)
    assert Confinement.decode(said.encode()) == said
    with pytest.raises(TypeError):
        Confinement.decode(said.encode().replace(b'"apart"', b'"alike"'))


@pytest.mark.skipif("coverage" in sys.modules, reason="what measures coverage imports more into every process")
def test_what_confines_imports_nothing_that_takes_long() -> None:
    """It runs at each start of the service and for each view."""
    place = str(Path(confine.__file__).parent.parent.parent)
    ask = f"import sys; sys.path.insert(0, {place!r}); import kernels.launcher.confine; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True, text=True, timeout=120, check=True)
    loaded = set(done.stdout.split())
    assert "kernels.launcher.confine" in loaded
    assert not loaded & {"msgspec", "asyncio", "subprocess", "dataclasses", "kernels.launcher.plan", "kernels.sandbox"}
