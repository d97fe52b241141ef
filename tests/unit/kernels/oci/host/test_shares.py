"""What is found of a host's own settings, and what is said to do about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.errors import SandboxFailed
from kernels.oci import bundle
from kernels.oci.cgroups import Cgroups
from kernels.oci.host import shares as host_shares
from tests.unit.kernels.oci.test_cgroups import V1, V1_OWN, V2, V2_OWN, write

SOCKETS = "memory.kmem.tcp.limit_in_bytes"


def v1(tmp_path: Path, *, counts_sockets: bool = True) -> Cgroups:
    if counts_sockets:
        write(tmp_path / "memory/box/1" / SOCKETS, "9223372036854771712\n")
    return Cgroups("sandcell-t", mounts=V1.format(root=tmp_path), own=V1_OWN)


@pytest.mark.parametrize(
    ("command_line", "not_held"),
    [
        ("quiet", []),
        ("quiet cgroup.memory=nobpf", []),
        ("cgroup.memory=nokmem ro", ["kernel memory"]),
        ("cgroup.memory=nosocket,nokmem", ["kernel memory", "socket buffers"]),
        ("cgroup.memory=nokmem cgroup.memory=nosocket", ["kernel memory", "socket buffers"]),
    ],
)
def test_accounting_that_is_switched_off_stops_the_start(
    tmp_path: Path, command_line: str, not_held: list[str]
) -> None:
    for cgroups in (v1(tmp_path), Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)):
        findings = host_shares.accounting(cgroups, command_line)
        assert [one.name for one in findings if not one.ok] == not_held
        assert all(one.required and bool(one.remedy) != one.ok for one in findings)


def test_a_v1_kernel_that_does_not_count_sockets_is_refused(tmp_path: Path) -> None:
    found = host_shares.accounting(v1(tmp_path, counts_sockets=False), "")
    assert [one.name for one in found if not one.ok] == ["socket buffers"]


def test_v1_limits_the_sandbox_s_own_group_and_no_other(tmp_path: Path) -> None:
    groups = v1(tmp_path)
    with pytest.raises(SandboxFailed, match="buffers of sockets"):
        groups.limit_sockets("a", 7)
    limit = tmp_path / "memory/sandcell-t/a" / SOCKETS  # where crun puts it
    write(limit, "9223372036854771712\n")
    groups.limit_sockets("a", 7)
    assert limit.read_text() == "7"
    assert (tmp_path / "memory/box/1" / SOCKETS).read_text() != "7"


def test_v2_counts_them_as_memory(tmp_path: Path) -> None:
    Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN).limit_sockets("a", 7)
    assert not list(tmp_path.rglob("*.tcp.*"))


def test_what_many_sessions_need_of_the_host_is_said_with_its_number() -> None:
    few, many = host_shares.terminals(1), host_shares.terminals(10_000_000)
    assert (few.ok, few.remedy, many.ok) == (True, "", True)
    reserve = int(Path("/proc/sys/kernel/pty/reserve").read_text())
    assert many.remedy.endswith(f"sysctl kernel.pty.max={10_000_000 * bundle.TERMINALS + reserve}")
    assert host_shares.process_ids(1, 64).remedy == ""
    assert "kernel.pid_max=4194304" in host_shares.process_ids(1_000_000, 512).remedy or (
        int(Path("/proc/sys/kernel/pid_max").read_text()) >= 4_194_304
    )


def test_a_quota_that_leaves_a_sandbox_less_is_told_with_its_group(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)
    write(tmp_path / "system.slice/cpu.max", "50000 100000\n")
    enough, less = (host_shares.processor_quota(groups, vcpus, top=False) for vcpus in (0.5, 1.158))
    assert enough.ok
    assert not enough.remedy
    assert (less.ok, less.required) == (False, False)
    assert "0.50 vCPUs in place of 1.16" in less.detail
    assert less.detail.endswith(str(tmp_path / "system.slice"))
    assert "CPUQuota=" in less.remedy


def test_settings_that_are_too_small_for_the_sessions_are_named_with_what_they_should_be() -> None:
    def read(name: str) -> int:
        return {"files": 1_024, "user.max_net_namespaces": 2_999, "kernel.keys.root_maxkeys": 0}.get(name, 1_000_000)

    found = host_shares.kernel_objects(1_000, 24, read)
    assert (found.ok, found.detail) == (True, "namespaces, mounts, keys and open files for 0 sessions")
    assert found.remedy == (
        "for 1,000 sessions: sysctl user.max_net_namespaces=3000;"
        " a limit of 17,024 open files (LimitNOFILE= of systemd, ulimit -Hn)"
    )
    enough = host_shares.kernel_objects(1_000, 24, lambda name: read(name) + 100_000)
    assert (enough.remedy, enough.detail.endswith("for 6,250 sessions")) == ("", True)
    assert "sessions" in host_shares.kernel_objects(1, 1).detail
