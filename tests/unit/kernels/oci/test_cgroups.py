"""Finding our groups on cgroup v1, hybrid and v2 hosts, and reading their counters."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from kernels.errors import SandboxFailed, SandboxGone
from kernels.oci import cgroups
from kernels.oci.cgroups import Cgroups

V1 = """\
30 20 0:1 / {root}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 20 0:2 / {root}/memory rw - cgroup cgroup rw,memory
32 20 0:3 / {root}/pids rw - cgroup cgroup rw,pids
33 20 0:4 / {root}/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 20 0:5 / {root}/unified rw - cgroup2 cgroup2 rw
"""
V1_OWN = "5:cpu,cpuacct:/\n4:memory:/box/1\n3:pids:/box/1\n2:name=systemd:/\n0::/\n"
V2 = "30 20 0:1 / {root} rw - cgroup2 cgroup2 rw,nsdelegate\n"
V2_OWN = "0::/system.slice/sandcell.service\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_v1_groups_lie_below_our_own_in_each_hierarchy(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V1.format(root=tmp_path), own=V1_OWN)
    write(tmp_path / "memory/box/1/sandcell-t/a/memory.usage_in_bytes", "11\n")
    write(tmp_path / "memory/box/1/sandcell-t/a/memory.max_usage_in_bytes", "22\n")
    write(
        tmp_path / "memory/box/1/sandcell-t/a/memory.stat",
        "active_file 0\ntotal_inactive_file 3\ntotal_active_file 4\n",
    )
    write(tmp_path / "memory/box/1/sandcell-t/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    write(tmp_path / "cpu,cpuacct/sandcell-t/a/cpuacct.usage", "2500000000\n")
    write(tmp_path / "pids/box/1/sandcell-t/a/pids.current", "4\n")
    counters = groups.counters("a")
    assert not groups.unified
    assert groups.missing_controllers() == []
    assert groups.path("a") == "sandcell-t/a"
    assert (counters.memory_bytes, counters.memory_peak_bytes, counters.oom_kills) == (11, 22, 3)
    assert counters.memory_held_bytes == 4, "pages of files are not held"
    assert (counters.cpu_seconds, counters.pids) == (2.5, 4)


def test_v2_groups_lie_beside_our_own(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)
    group = tmp_path / "system.slice/sandcell-t/a"
    write(tmp_path / "cgroup.controllers", "cpuset cpu io memory pids\n")
    write(group / "memory.current", "11\n")
    write(group / "memory.peak", "22\n")
    write(group / "memory.stat", "anon 4\ninactive_file 3\nactive_file 4\n")
    write(group / "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\n")
    write(group / "cpu.stat", "usage_usec 2500000\nuser_usec 1\n")
    write(group / "pids.current", "4\n")
    counters = groups.counters("a")
    assert groups.unified
    assert groups.missing_controllers() == []
    assert groups.path("a") == "/system.slice/sandcell-t/a"
    assert (counters.memory_bytes, counters.memory_peak_bytes, counters.oom_kills) == (11, 22, 3)
    assert counters.memory_held_bytes == 4, "pages of files are not held"
    assert (counters.cpu_seconds, counters.pids) == (2.5, 4)


def test_v1_hierarchies_that_a_v2_host_keeps_for_others_are_left_alone(tmp_path: Path) -> None:
    mounts = f"29 20 0:9 / {tmp_path}/net_cls rw - cgroup cgroup rw,net_cls\n" + V2.format(root=tmp_path)
    groups = Cgroups("sandcell-t", mounts=mounts, own="3:net_cls:/other/group\n" + V2_OWN)
    group = tmp_path / "system.slice/sandcell-t/a"
    write(tmp_path / "cgroup.controllers", "cpuset cpu io memory pids\n")
    for name, text in (("memory.current", "1"), ("cpu.stat", "usage_usec 1"), ("pids.current", "1")):
        write(group / name, text)
    write(group / "memory.events", "oom_kill 0\n")
    assert groups.missing_controllers() == []
    assert groups.path("a") == "/system.slice/sandcell-t/a"
    assert groups.counters("a").pids == 1


def test_only_v1_says_when_memory_passes_a_share(tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed):
        Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN).watch_memory("a", (85,))
    with pytest.raises(SandboxGone):
        Cgroups("sandcell-t", mounts=V1.format(root=tmp_path), own=V1_OWN).watch_memory("a", (85,))


def test_a_v2_kernel_that_does_not_count_swap_is_seen(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)
    for slice_name in ("system.slice", "user.slice"):
        write(tmp_path / slice_name / "memory.max", "max\n")
    assert not groups.limits_swap()
    for slice_name in ("system.slice", "user.slice"):
        write(tmp_path / slice_name / "memory.swap.max", "max\n")
    assert groups.limits_swap()


def test_a_missing_controller_is_named(tmp_path: Path) -> None:
    lines = [line for line in V1.format(root=tmp_path).splitlines() if "pids" not in line]
    own = "\n".join(line for line in V1_OWN.splitlines() if "pids" not in line)
    assert Cgroups("t", mounts="\n".join(lines), own=own).missing_controllers() == ["pids"]


def test_v2_kills_a_whole_group_at_once(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)
    file = tmp_path / "system.slice/sandcell-t/a/cgroup.kill"
    write(file, "")
    groups.kill("a")
    assert file.read_text() == "1"
    groups.kill("of none")


def test_what_starts_processes_faster_than_they_can_be_killed_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Cgroups("sandcell-t", mounts=V1.format(root=tmp_path), own=V1_OWN)
    write(tmp_path / "pids/box/1/sandcell-t/a/cgroup.procs", "")
    never = itertools.count(2**30)  # numbers that no process has
    monkeypatch.setattr(cgroups, "_processes", lambda _group: {next(never)})
    with pytest.raises(OSError, match="faster"):
        groups.kill("a")


def test_counters_of_a_group_that_is_gone(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V1.format(root=tmp_path), own=V1_OWN)
    with pytest.raises(SandboxGone):
        groups.counters("a")
    assert groups.remove("a")


def test_the_smallest_quota_above_the_sandboxes_is_what_they_have(tmp_path: Path) -> None:
    groups = Cgroups(
        "sandcell-t", mounts=V1.format(root=tmp_path), own=V1_OWN.replace("cpu,cpuacct:/", "cpu,cpuacct:/a/b")
    )
    cpu = tmp_path / "cpu,cpuacct"
    assert groups.processors_left(top=False) == (math.inf, None)
    for group, quota in (("", -1), ("a", 150_000), ("a/b", 30_000), ("a/b/sandcell-t", -1), ("other", 1_000)):
        write(cpu / group / "cpu.cfs_quota_us", f"{quota}\n")
        write(cpu / group / "cpu.cfs_period_us", "50000\n" if group == "a/b" else "100000\n")
    assert groups.processors_left(top=False) == (0.6, cpu / "a/b")
    assert groups.processors_left(top=True) == (math.inf, None)
    write(cpu / "cpu.cfs_quota_us", "50000\n")  # a container's own topmost group
    assert groups.processors_left(top=True) == groups.processors_left(top=False) == (0.5, cpu)


def test_v2_s_quotas_are_those_beside_the_service_s_group(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)
    write(tmp_path / "system.slice/cpu.max", "max 100000\n")
    write(tmp_path / "system.slice/sandcell.service/cpu.max", "1000 100000\n")
    assert groups.processors_left(top=False) == (math.inf, None)
    write(tmp_path / "system.slice/cpu.max", "25000 100000\n")
    assert groups.processors_left(top=False) == (0.25, tmp_path / "system.slice")


def test_a_burst_is_of_one_quota_until_it_ends(tmp_path: Path) -> None:
    v1 = Cgroups("sandcell-t", mounts=V1.format(root=tmp_path / "v1"), own=V1_OWN)
    v2 = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path / "v2"), own=V2_OWN)
    old = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path / "old"), own=V2_OWN)
    first = v1._directories("a")[0].relative_to(v1.hierarchies[0].mount)
    of_v1 = next(one.mount for one in v1.hierarchies if "cpu" in one.controllers) / first
    of_v2, of_old = v2._directories("a")[0], old._directories("a")[0]
    write(of_v1 / "cpu.cfs_quota_us", "115800\n")
    write(of_v1 / "cpu.cfs_burst_us", "0\n")
    write(of_v2 / "cpu.max", "115800 100000\n")
    write(of_v2 / "cpu.max.burst", "0\n")
    write(of_old / "cpu.max", "115800 100000\n")
    for groups in (v1, v2, old):
        groups.let_burst("a")
        groups.let_burst("gone")
    assert (of_v1 / "cpu.cfs_burst_us").read_text() == (of_v2 / "cpu.max.burst").read_text() == "115800"
    for groups in (v1, v2, old):
        groups.end_burst("a")
        groups.end_burst("gone")
    assert (of_v1 / "cpu.cfs_burst_us").read_text() == (of_v2 / "cpu.max.burst").read_text() == "0"
    assert [file.name for file in of_old.iterdir()] == ["cpu.max"]


def test_the_freezer_is_the_one_of_the_group_that_has_the_processes(tmp_path: Path) -> None:
    mounts = V1.format(root=tmp_path) + f"35 20 0:6 / {tmp_path}/freezer rw - cgroup cgroup rw,freezer\n"
    groups = Cgroups("sandcell-t", mounts=mounts, own=V1_OWN + "6:freezer:/\n")
    first, second = tmp_path / "freezer/sandcell-t/a", tmp_path / "unified/sandcell-t/a"
    assert groups.freezer("a") is None
    write(first / "freezer.state", "THAWED\n")
    write(first / "cgroup.procs", "")
    write(second / "cgroup.freeze", "0\n")
    write(second / "cgroup.procs", "7\n")
    assert groups.freezer("a") == second / "cgroup.freeze"
    write(first / "cgroup.procs", "7\n")
    write(second / "cgroup.procs", "")
    assert groups.freezer("a") == first / "freezer.state"


def test_v2_counts_and_gives_back_what_only_swap_can_take(tmp_path: Path) -> None:
    groups = Cgroups("sandcell-t", mounts=V2.format(root=tmp_path), own=V2_OWN)
    group = tmp_path / "system.slice/sandcell-t/a"
    write(tmp_path / "cgroup.controllers", "memory\n")
    write(group / "memory.stat", "anon 11\nfile 100\nshmem 22\n")
    assert groups.held_bytes("a") == 33
    groups.allow_swap("a", 5)
    assert not (group / "memory.swap.max").exists(), "a kernel that does not count swap has no such file"
    write(group / "memory.swap.max", "max\n")
    groups.allow_swap("a", 5)
    assert (group / "memory.swap.max").read_text() == "5"
    assert groups.reclaim("a", 7)
    assert (group / "memory.reclaim").read_text() == "7"
    with pytest.raises(SandboxGone):
        groups.held_bytes("b")
