"""The security profile, read from the bundle: what DESIGN promises stands in the file that the runtime gets."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kernels.environment import Environment, Resources
from kernels.oci import bundle, seccomp
from kernels.sandbox import SandboxSpec

PLACES = bundle.Places(
    guest="/data/guest/1",
    transport="/run/t",
    workspace="/data/w",
    home="/data/h",
    temporary="/data/t",
    processors="/data/p",
    uid_base=1_200_000_000,
    user_namespace="/proc/7/ns/user",
    cgroup="sandcell-1/x",
)


def make(**resources: int) -> dict[str, Any]:
    environment = Environment("python", "/images/python", "sha256:0", resources=Resources(**resources))
    return bundle.config(SandboxSpec("x", environment, generation=7), PLACES, machine="x86_64", swap=True)


def test_every_namespace_is_new() -> None:
    kinds = {one["type"] for one in make()["linux"]["namespaces"]}
    assert kinds == {"user", "pid", "mount", "ipc", "uts", "network", "cgroup"}
    joined = [one for one in make()["linux"]["namespaces"] if "path" in one]
    assert joined == [{"type": "user", "path": "/proc/7/ns/user"}]


def test_the_guest_is_root_of_its_own_ids_only() -> None:
    linux = make()["linux"]
    assert linux["uidMappings"] == linux["gidMappings"] == [{"containerID": 0, "hostID": 1_200_000_000, "size": 65_536}]


def test_the_root_is_read_only_and_privileges_cannot_grow() -> None:
    config = make()
    assert config["root"] == {"path": "/images/python", "readonly": True}
    assert config["process"]["noNewPrivileges"] is True
    assert not {"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_MKNOD"} & set(bundle.GUEST_CAPABILITIES)
    assert "inheritable" not in config["process"]["capabilities"]
    assert "ambient" not in config["process"]["capabilities"]


def test_limits_follow_the_resources() -> None:
    resources = make(memory_mb=3538, pids=99)["linux"]["resources"]
    assert resources["memory"] == {"limit": 3538 << 20, "swap": 3538 << 20}
    assert resources["cpu"] == {"period": 100_000, "quota": 200_000}
    assert resources["pids"] == {"limit": 99}
    declared = make(memory_mb=8_192, declared_vcpus=2.0)["linux"]["resources"]
    assert (declared["memory"]["limit"], declared["cpu"]["quota"]) == (8_192 << 20, 200_000)
    assert resources["devices"] == [{"allow": False, "access": "rwm"}]


@pytest.mark.parametrize(
    ("left", "quota", "told"),
    [(9.0, 200_000, "2.000"), (1.0, 100_000, "1.000"), (1 / 3, 33_333, "0.333"), (0.0001, 1_000, "0.000")],
)
def test_a_quota_above_is_not_exceeded(left: float, quota: int, told: str) -> None:
    environment = Environment("python", "/images/python", "sha256:0", resources=Resources(memory_mb=3538))
    places = dataclasses.replace(PLACES, processors_left=left)
    config = bundle.config(SandboxSpec("x", environment), places, machine="x86_64", swap=True)
    assert config["linux"]["resources"]["cpu"]["quota"] == quota
    arguments = config["process"]["args"]
    assert arguments[arguments.index("--vcpus") + 1] == told


def test_a_quota_above_that_is_hardly_enough_is_not_exceeded_by_rounding() -> None:
    environment = Environment("python", "/images/python", "sha256:0", resources=Resources(memory_mb=2048))
    vcpus = environment.resources.vcpus  # 1.15771...
    places = dataclasses.replace(PLACES, processors_left=vcpus + 1e-9)
    config = bundle.config(SandboxSpec("x", environment), places, machine="x86_64", swap=True)
    assert config["linux"]["resources"]["cpu"]["quota"] == 115_771


def test_only_the_three_writable_places_and_the_sockets_come_from_the_host() -> None:
    binds = {one["destination"]: one for one in make()["mounts"] if one["type"] == "bind"}
    assert set(binds) == {"/sys", "/opt/sandcell/guest", "/run/sandcell", "/workspace", "/home/user", "/tmp"}
    assert "ro" in binds["/opt/sandcell/guest"]["options"]
    assert all({"nosuid", "nodev"} <= set(one["options"]) for one in binds.values())


def test_what_is_shown_at_mnt_is_read_only_and_of_each_sandbox_its_own_view() -> None:
    environment = Environment("python", "/images/python", "sha256:0")
    config = bundle.config(
        SandboxSpec("x", environment), dataclasses.replace(PLACES, mnt="/guest/mnt"), machine="x86_64", swap=True
    )
    (shown,) = [one for one in config["mounts"] if one["destination"] == "/mnt"]
    assert (shown["source"], "ro" in shown["options"]) == ("/guest/mnt", True)
    assert "/mnt" in bundle.SHARED


def test_no_variable_of_the_host_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hostsecret")
    assert {line.partition("=")[0] for line in make()["process"]["env"]} == {"PATH", "LANG"}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_seccomp_denies_by_default_and_never_names_a_dangerous_call(machine: str) -> None:
    profile = seccomp.profile(machine)
    allowed = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert len(profile["architectures"]) == 1
    assert not allowed & {
        *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "ptrace", "process_vm_readv", "bpf"),
        *("process_vm_writev", "perf_event_open", "io_uring_setup", "userfaultfd", "kexec_load", "init_module"),
        *("finit_module", "keyctl", "add_key", "request_key", "clock_settime", "settimeofday", "open_by_handle_at"),
        *("name_to_handle_at", "reboot", "swapon", "syslog", "sethostname", "iopl", "ioperm", "pidfd_getfd", "clone3"),
        *("fsopen", "fsmount", "move_mount", "open_tree", "mount_setattr", "quotactl", "acct", "fanotify_init"),
    }


def test_every_group_of_calls_has_its_reason_and_no_call_twice() -> None:
    names = [name for _, listed in seccomp.ALLOWED.values() for name in listed.split()]
    assert all(len(reason) > 20 for reason, _ in seccomp.ALLOWED.values())
    assert len(names) == len(set(names))


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(ValueError, match="mips"):
        seccomp.profile("mips")


def test_what_other_sandboxes_see_too_comes_from_a_view_of_its_own() -> None:
    config, sources = bundle.with_own_views(make(), "/dev/shm/image", "/dev/shm")
    shown = {one["destination"]: one["source"] for one in config["mounts"] if one["type"] == "bind"}
    assert config["root"]["path"] == "/dev/shm/image"
    assert sources == ["/data"]
    assert (shown["/opt/sandcell/guest"], shown["/sys"]) == ("/dev/shm/0/guest/1", "/dev/shm/0/p")
    assert shown["/workspace"] == "/data/w"


def test_a_bundle_that_shows_nothing_of_the_kind_needs_no_view() -> None:
    config, sources = bundle.with_own_views({"root": {}, "mounts": []}, "/dev/shm/image", "/dev/shm")
    assert (config["mounts"], sources) == ([], [])


def test_what_sets_an_image_up_is_confined_like_a_sandbox_but_for_its_root() -> None:
    places = bundle.SetupPlaces("/root-of-it", "/tmp-of-it", "/files", 1_200_000_000, "group", user_namespace="/ns")
    limits = bundle.SetupLimits(1 << 30, 64, 1.5, file_bytes=5 << 30, open_files=1024)
    config = bundle.setup_config(places, ["install"], ["A=b"], limits, machine="x86_64", swap=True)
    linux = config["linux"]
    assert config["root"] == {"path": "/root-of-it", "readonly": False}
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": 1_200_000_000, "size": 65_536}]
    # The network namespace is its caller's own.
    kinds = [each["type"] for each in linux["namespaces"]]
    assert sorted(kinds) == ["cgroup", "ipc", "mount", "pid", "user", "uts"]
    assert {"type": "user", "path": "/ns"} in linux["namespaces"]
    assert config["process"]["noNewPrivileges"]
    held = set(config["process"]["capabilities"]["bounding"])
    assert not held & {"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_MKNOD", "CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_BPF"}


def test_what_sets_an_image_up_is_limited_as_a_sandbox_is() -> None:
    places = bundle.SetupPlaces("/root-of-it", "/tmp-of-it", "/files", 1_200_000_000, "group")
    limits = bundle.SetupLimits(1 << 30, 64, 1.5, file_bytes=5 << 30, open_files=1024)
    config = bundle.setup_config(places, ["install"], [], limits, machine="x86_64", swap=True)
    resources = config["linux"]["resources"]
    assert resources["memory"] == {"limit": 1 << 30, "swap": 1 << 30}
    assert resources["cpu"] == {"period": 100_000, "quota": 150_000}
    assert resources["pids"] == {"limit": 64}
    bounds = {each["type"]: (each["soft"], each["hard"]) for each in config["process"]["rlimits"]}
    assert bounds == {"RLIMIT_CORE": (0, 0), "RLIMIT_FSIZE": (5 << 30,) * 2, "RLIMIT_NOFILE": (1024,) * 2}
    inherited, limits_of_processes = bundle.without_limits_of_processes(config)
    assert limits_of_processes == {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 5 << 30, "RLIMIT_NOFILE": 1024}
    assert "rlimits" not in inherited["process"]
    own_kernel = bundle.with_kernel_of_its_own(config)["process"]["rlimits"]
    assert {each["type"] for each in own_kernel} == {*bounds, "RLIMIT_NPROC"}
    little = dataclasses.replace(limits, processors_left=0.5)
    config = bundle.setup_config(places, ["install"], [], little, machine="x86_64", swap=False)
    assert config["linux"]["resources"]["memory"] == {"limit": 1 << 30}
    assert config["linux"]["resources"]["cpu"]["quota"] == 50_000


def test_what_sets_an_image_up_gets_no_netlink_socket_and_no_call_more_than_sandboxes() -> None:
    usual = seccomp.profile("x86_64")
    *rules, audit = seccomp.for_setup(usual)["syscalls"]
    left_out = [rule for rule in usual["syscalls"] if rule not in rules]
    assert all(rule in usual["syscalls"] for rule in rules)
    netlink = {"index": 0, "value": 16, "op": "SCMP_CMP_EQ"}
    assert [rule["args"][0] for rule in left_out] == [netlink]
    assert (audit["action"], audit["args"][0]) == ("SCMP_ACT_ERRNO", netlink)
    told = seccomp.for_gvisor(seccomp.for_setup(usual))["syscalls"]
    assert not any("errnoRet" in rule for rule in told), "gVisor knows none"
