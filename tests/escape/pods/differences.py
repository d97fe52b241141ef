"""How attempts end in a pod of Kubernetes 1.20 under runc where that is not as on a host, and what is not tried there.

By family and attempt; an outcome that ends with a star begins so. docs/how-to/kubernetes.md says it in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Outcomes = Mapping[str, Mapping[str, str]]

OTHER_WORDS: Final[Outcomes] = {
    "host": {
        "read-a-file-of-the-host-through-the-guest-s-root": "ENOENT",
        "read-a-file-of-the-host-through-the-guest-s-directory": "ENOENT",
        "write-to-the-guest-s-code": "EACCES",
        "write-to-the-interpreter": "EACCES",
    },
    "neighbours": {
        "trace-the-neighbour": "ESRCH",
        "become-the-neighbour-s-user": "EPERM",
        "give-a-file-to-the-neighbour": "EPERM",
        "send-credentials-of-the-neighbour": "EPERM",
    },
    "kernel_files": {
        "write-the-core-pattern": "EACCES",
        "write-the-limit-of-pids": "EACCES",
        "write-the-host-s-name": "EACCES",
        "write-the-use-of-memory": "EACCES",
        "write-the-caches": "EACCES",
        "write-the-cores-of-setuid-programs": "EACCES",
        "write-the-protection-of-links": "EACCES",
        "write-forwarding": "EACCES",
        "write-the-ports-of-all": "EACCES",
        "write-the-pings-of-all": "EACCES",
        "write-shared-memory": "EACCES",
        "write-user-namespaces": "EACCES",
        "write-the-core-pattern-through-the-root-of-a-process": "EACCES",
        "write-the-core-pattern-through-a-descriptor": "EACCES",
        "read-files-of-the-kernel-that-are-masked": "EACCES",
        "write-over-the-program-one-runs": "EACCES",
        "write-over-a-program-through-its-descriptor": "EACCES",
        "wait-for-a-program-to-end-and-write-over-it": "EACCES",
        "raise-the-memory-limit": "EACCES",
        "take-another-security-label": "EINVAL",
    },
    "devices": {
        "open-a-whiteout-as-a-device": "ENXIO",
        "paste-into-the-terminal": "ENOTTY",
        "close-the-host-s-null-device-to-others": "EPERM",
        "mark-the-host-s-null-device": "EPERM",
        "open-a-socket-of-the-kernel-s-ciphers": "EAFNOSUPPORT",
        "open-a-socket-of-the-key-manager": "EAFNOSUPPORT",
        "open-a-bluetooth-socket": "EAFNOSUPPORT",
        "open-a-tipc-socket": "EAFNOSUPPORT",
        "open-an-rds-socket": "EAFNOSUPPORT",
        "open-an-smc-socket": "EAFNOSUPPORT",
        "open-an-x-25-socket": "EAFNOSUPPORT",
        "bind-to-an-interface-by-name": "EPERM",
    },
    "mounts": {
        "join-the-time-namespace-of-the-guest": "EPERM",
        "join-the-mount-namespace-of-the-guest": "EPERM",
        "join-the-cgroup-namespace-of-the-guest": "EPERM",
        "join-the-uts-namespace-of-the-guest": "EPERM",
        "join-the-ipc-namespace-of-the-guest": "EPERM",
        "join-the-user-namespace-of-the-guest": "EPERM",
        "join-the-pid-namespace-of-the-guest": "EPERM",
        "join-the-network-namespace-of-the-guest": "EPERM",
        "join-a-namespace-with-a-program": "exit 1: nsenter: reassociate to namespace*",
        "write-a-map-of-users": "EPERM",
        "write-a-map-of-groups": "EPERM",
        "allow-groups-to-be-set": "EACCES",
    },
    "observation": {
        "reap-the-guest-s-memory": "EINVAL",
        "enter-a-ring": "ENOTSUP",
        "register-with-a-ring": "ENOTSUP",
        "read-the-guest-s-memory-as-a-file": "EIO",
        "write-to-one-s-own-code-through-a-file": "EIO",
    },
    "machine": {
        "have-the-kernel-load-a-module-for-a-socket": "EAFNOSUPPORT",
    },
    "privileges": {
        "become-a-user-outside-the-sandbox-s-range": "EPERM",
        "lower-the-chance-to-be-killed": "EACCES",
        "write-to-the-password-file": "EACCES",
    },
    "call_tables": {
        "ask-the-x32-table-who-one-is": "ENOSYS",
        "mount-by-the-x32-table": "EPERM",
        "trace-the-guest-by-the-x32-table": "ENOSYS",
        "execute-by-the-x32-table": "ENOSYS",
        "switch-to-32-bit-code-and-call": "SIGSEGV",
        "make-a-call-of-a-negative-number": "ENOSYS",
        "take-the-filter-off-in-a-child": "EINVAL",
    },
    "workspace": {
        "hard-link-the-guest-s-program": "EXDEV",
    },
    "shared_kernel": {
        "have-a-program-on-a-socket": "EINVAL",
        "have-a-program-of-the-new-kind-on-a-socket": "EINVAL",
        "have-a-program-that-shares-out-connections": "EINVAL",
        "have-a-program-of-the-new-kind-that-shares-out-connections": "EINVAL",
        "have-notes-of-what-was-sent-too-late": "EINVAL",
        "have-a-group-of-the-network": "EINVAL",
        "have-a-group-of-the-network-by-the-new-number": "EINVAL",
        "have-a-group-of-the-network-of-version-6": "EINVAL",
        "have-options-kept-for-later": "EINVAL",
        "have-a-label-of-flows": "EINVAL",
        "have-a-protocol-on-top-which-is-a-module": "ENOENT",
        "have-a-key-of-a-peer": "EINVAL",
        "have-a-group-of-netlink": "EINVAL",
        "have-a-program-on-a-socket-past-the-low-bits": "EINVAL",
        "have-a-group-of-the-network-of-version-6-past-the-low-bits": "EINVAL",
        "have-the-host-load-sctp": "EPROTONOSUPPORT",
        "have-the-host-load-dccp": "EPROTONOSUPPORT",
        "have-the-host-load-smc": "EPROTONOSUPPORT",
        "have-the-host-load-l2tp": "EPROTONOSUPPORT",
    },
}
"""Refused in other words, by another guard: as where no second file system lies over a place that belongs to root."""

SAME_USER: Final[Outcomes] = {
    "host": {
        "write-anywhere-in-the-image": "said: /home/user /run/sandcell /tmp /workspace",
        "list-the-guest-s-sockets": "done",
        "put-a-file-beside-the-sockets": "done",
    },
    "kernel_files": {
        "reach-mem-of-the-guest": "said: open",
        "reach-environ-of-the-guest": "said: open",
        "reach-maps-of-the-guest": "said: open",
        "reach-root-etc-passwd-of-the-guest": "said: open",
        "reach-cwd-etc-passwd-of-the-guest": "said: open",
        "reach-auxv-of-the-guest": "said: open",
        "reach-io-of-the-guest": "said: open",
        "reach-pagemap-of-the-guest": "said: open",
        "reach-map-files-of-the-guest": "said: open",
        "reach-personality-of-the-guest": "said: open",
        "reach-task-1-mem-of-the-guest": "said: open",
        "reach-ns-pid-for-children-of-the-guest": "said: open",
        "reach-exe-of-the-guest": "said: open",
        "write-where-the-guest-writes": "done",
        "see-where-the-guest-s-program-lies": "done",
        "reach-the-root-through-a-thread-of-the-guest": "done",
        "swap-a-link-between-look-and-use": "done",
    },
    "observation": {
        "seize-the-guest": "done",
        "signal-the-guest-through-a-descriptor": "done",
        "see-what-the-guest-is-doing-in-the-kernel": "done",
    },
    "privileges": {
        "raise-the-limit-of-the-guest": "done",
        "read-the-limits-of-the-guest": "done",
        "raise-the-guest-s-chance-to-be-killed": "done",
        "slow-the-guest-down": "said: noted",
        "put-the-guest-on-one-processor": "said: noted",
    },
    "egress": {
        "connect-to-the-host-s-side-of-the-way-out": "done",
        "replace-the-host-s-side-of-the-way-out": "done",
    },
    "role": {
        "call-the-signing-proxy-past-the-guest": "done",
    },
    "packages": {
        "call-the-package-proxy-past-the-guest": "done",
    },
}
"""The guest is the same user: what it has can be looked at and changed, in one's own pod."""

DEFAULT_PROFILE: Final[Outcomes] = {
    "devices": {
        "open-a-socket-of-the-machine-s-host": "done",
        "open-a-netlink-socket-of-the-audit": "done",
        "open-a-netlink-socket-of-the-firewall": "done",
        "open-a-netlink-socket-of-udev": "done",
        "open-a-netlink-socket-of-selinux": "done",
        "open-a-netlink-socket-of-xfrm": "done",
        "open-a-netlink-socket-of-the-connector": "done",
        "open-a-netlink-socket-of-generic": "done",
        "open-a-netlink-socket-of-the-ciphers": "done",
        "open-a-netlink-socket-of-sock-diag": "done",
        "open-a-netlink-socket-past-the-low-bits": "done",
    },
    "observation": {
        "be-traced-by-one-s-parent": "done",
        "trace-one-s-own-child": "done",
        "set-up-a-ring": "done",
        "submit-old-asynchronous-i-o": "done",
        "make-memory-the-kernel-cannot-see": "done",
    },
    "machine": {
        "read-the-clock-s-bend": "done",
        "make-a-segment-of-one-s-own": "done",
    },
    "call_tables": {
        "ask-the-32-bit-table-who-one-is": "said: *",
        "mount-by-the-32-bit-table": "said: -1",
        "run-a-32-bit-program": "said: 0",
        "open-a-socket-with-the-high-half-of-an-allowed-family-set": "done",
    },
    "shared_kernel": {
        "have-copies-of-what-is-sent": "done",
        "have-copies-of-what-is-sent-by-the-new-number": "done",
        "have-notes-of-what-was-sent-without-a-copy": "done",
        "have-errors-that-are-kept": "done",
        "have-errors-that-are-kept-of-version-6": "done",
        "have-errors-that-are-kept-past-the-low-bits": "done",
        "have-the-host-load-udp-lite": "done",
        "have-the-host-load-mptcp": "done",
        "have-a-filter": "done",
        "have-a-filter-for-all-threads": "done",
        "have-a-filter-past-the-low-bits": "done",
        "have-a-filter-by-the-old-call": "done",
        "have-a-filter-by-the-old-call-past-the-low-bits": "done",
        "copies-of-what-is-sent-asked-for-with-it": "said: *",
        "type-into-one-s-own-terminal": "said: {*",
    },
}
"""The cluster's default seccomp profile lets it through; it reaches nothing of others."""

ENGINE: Final[Outcomes] = {
    "host": {
        "read-the-guest-s-environment": "said: ['HOME', 'HOSTNAME',*",
        "find-the-host-s-name-servers": "said: ['nameserver 127.0.0.1\\n']",
        "connect-to-a-port-of-the-host-by-its-address": "ECONNREFUSED",
        "list-what-the-service-put-beside-the-sockets": "said: ['guest', 'kernel']",
        "list-the-ways-out": "ENOENT",
    },
    "neighbours": {
        "see-locks-of-others": "said: [*",
    },
    "kernel_files": {
        "read-how-the-host-was-started": "said: True",
        "list-directories-of-the-kernel-that-are-masked": "said: ['*",
        "debug-the-kernel": "said: True False",
        "see-processes-beyond-one-s-own": "said: [] True",
        "see-the-control-groups-of-the-host": "said: {'/*",
        "see-control-groups-of-others": "said: ['*",
        "find-anything-in-sys": "said: ['*",
        "read-the-firmware": "said: True False",
        "have-one-s-audit-id-another-s": "done",
        "see-more-of-the-pages-than-allowed": "done",
        "see-interfaces-of-the-host": "said: ['lo', 'eth0']",
        "see-routes-of-the-host": "said: *",
    },
    "devices": {
        "touch-the-host-s-null-device": "said: touched",
        "touch-the-host-s-random-device": "said: touched",
        "list-keys": "said: *",
    },
    "resources": {
        "a-full-directory-of-sockets": "done",
    },
    "shared_kernel": {
        "terminals": "said: without number",
    },
}
"""What a container engine shows of the machine, its control groups and the pod's network, and its devices' times."""

DIFFERENCES: Final = (OTHER_WORDS, SAME_USER, DEFAULT_PROFILE, ENGINE)

_STOPS: Final = "it stops its own guest, and its session waits a minute for the next pod"
_DISK: Final = "the cluster evicts the pod: `make kubernetes-trial` has it"
_CLOSED: Final = "what code has closed to itself nobody else can read in a pod"
NOT_MADE: Final[Outcomes] = {
    "kernel_files": {
        "find-a-release-agent": "all of /sys is there, and takes longer to search than an attempt has",
    },
    "observation": {
        "trace-the-guest": _STOPS,
        "trace-a-process-of-the-neighbour": "the numbers are those of its own guest and kernel, which it stops",
    },
    "call_tables": {
        "trace-the-guest-by-the-32-bit-table": _STOPS,
    },
    "archives": {
        "hold-the-service-up-with-a-deep-tree": "what lies deeper than the service's copy reaches is left out",
    },
    "workspace": {
        "close-files-to-their-reader": _CLOSED,
        "fill-the-store-with-holes": "holes come from a pod as the zeros that they read as: gigabytes, for minutes",
        "have-the-next-session-restore-what-is-hostile": _CLOSED,
    },
    "resources": {
        "a-full-disk": _DISK,
        "memory-in-shared-memory": "it ends by the pod's memory or the node's bound for such places: which is chance",
        "a-full-tmp": _DISK,
    },
}
"""Why, by family and attempt."""

FAMILIES_NOT_MADE: Final = {
    "guest": "the guest is the same user: code may read, stop and end its own, and loses its own pod (test_pods.py)",
    "network": "the cluster of the tests does not enforce network policies",
}
