"""The service's control group, with real groups and processes: nothing in it keeps a service from starting."""

from __future__ import annotations

import signal
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from kernels.launcher.group import ServiceGroup
from kernels.oci.cgroups import Cgroups


@pytest.fixture
def group() -> Iterator[ServiceGroup]:
    cgroups = Cgroups(f"sandcell-test-{uuid.uuid4().hex[:8]}")
    made = ServiceGroup(cgroups.of_service())
    yield made
    made.end()
    cgroups.remove_parent()
    assert not made.entrance.parent.parent.exists()


def test_foreign_groups_below_it_end_with_what_is_in_them(group: ServiceGroup) -> None:
    group.make()
    directory = group.entrance.parent
    (directory / "empty").mkdir()
    (directory / "foreign" / "deeper").mkdir(parents=True)
    sleeping = subprocess.Popen(["sleep", "300"])
    try:
        (directory / "foreign" / "deeper" / "cgroup.procs").write_text(str(sleeping.pid))
        group.make()
        assert sleeping.wait(120) == -signal.SIGKILL
    finally:
        sleeping.kill()
        sleeping.wait()
    assert [each.name for each in directory.iterdir() if each.is_dir()] == []
    assert group.entrance.read_text() == ""


def test_it_is_made_and_ended_any_number_of_times(group: ServiceGroup) -> None:
    for _ in range(2):
        group.make()
        assert group.entrance.exists()
    for _ in range(2):
        group.end()
        assert not group.entrance.exists()
