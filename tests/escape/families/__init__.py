"""The families of the corpus, closed: one module each, and one line of the issue's each.

A new family is added here; `test_corpus.py` fails while it is empty.
"""

from __future__ import annotations

from importlib import import_module

from tests.escape.attempt import Family

NAMES = {
    "host": "host files and environment",
    "neighbours": "other sessions' files, sockets, processes, memory, signals",
    "kernel_files": "/proc, /sys, cgroup files, release_agent, core_pattern, sysrq, kcore",
    "devices": "keyrings, devices, raw sockets",
    "mounts": "mount, unshare, setns, pivot_root, chroot",
    "observation": "ptrace, process_vm_readv, bpf, perf, io_uring, userfaultfd",
    "machine": "kexec, modules, clock, hostname",
    "privileges": "setuid binaries, capabilities regained over exec, no_new_privs",
    "call_tables": "seccomp bypass by x32 and 32-bit calls",
    "workspace": "links, hard links, renames, races, sockets, FIFOs and device nodes in the workspace",
    "guest": "the guest: kill, ptrace, its socket, its memory, its binary through /proc/self/exe",
    "protocol": "the connection key, forged Jupyter messages, ZMQ sockets replaced, giant and malformed messages",
    "resources": "resource attacks",
    "archives": "deep directories and zip bombs in the archive route",
    "network": "network",
    "shared_kernel": "one host, many guests",
    "egress": "network modes: the way out where it is public",
    "role": "execution role",
    "packages": "network modes: the package index's port",
}
"""Module of the family, and what the issue calls it."""


def all_families() -> tuple[Family, ...]:
    """Every family, in the order above."""
    return tuple(import_module(f"tests.escape.families.{name}").FAMILY for name in NAMES)
