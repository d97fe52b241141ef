"""What a guest says that its pod uses is held to what the pod can have used."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.kubernetes.accounts import Account, open_account

BEGAN = 1_767_225_600.0
SAID = {"memory": 10, "memory_peak": 20, "memory_limit": 10**12, "memory_held": 5, "pids": 3, "oom_kills": 1}


def hold(account: Account, cpu_seconds: float, now: float = BEGAN + 100, **more: float) -> Any:
    return account.hold({**SAID, "cpu_seconds": cpu_seconds, **more}, now)


def test_processor_time_is_never_less_than_before_nor_more_than_there_was() -> None:
    account = Account(BEGAN, vcpus=0.5)
    said = [-7.0, 3.0, 2.0, -1e9, 4.0, 1e9]
    assert [hold(account, each).cpu_seconds for each in said] == [0.0, 3.0, 3.0, 3.0, 4.0, 200.0]  # 300 s of skew
    assert hold(Account(BEGAN, vcpus=1.0), 5.0, now=BEGAN - 1e6).cpu_seconds == 0.0


def test_memory_is_within_the_pods_own_limit() -> None:
    usage = hold(Account(BEGAN, 1.0, memory_limit_bytes=15), 0.0)
    assert (usage.memory_bytes, usage.memory_peak_bytes, usage.memory_limit_bytes) == (10, 15, 15)
    usage = hold(Account(BEGAN, 1.0, memory_limit_bytes=15), 0.0, memory=99, memory_peak=1)
    assert (usage.memory_bytes, usage.memory_peak_bytes, usage.memory_held_bytes) == (15, 15, 5)


@pytest.mark.parametrize(
    ("limits", "vcpus", "memory", "storage"),
    [
        ({"cpu": "1158m", "memory": "2147483648", "ephemeral-storage": "536870912"}, 1.158, 2 << 30, 512 << 20),
        ({"cpu": "2", "memory": "1048576k", "ephemeral-storage": "2G"}, 2.0, 1000 << 20, 2 * 10**9),
        ({"cpu": "?", "memory": "1Gi"}, 0.0, 0, 0),
    ],
)
def test_limits_are_read_as_the_server_writes_them(
    limits: dict[str, str], vcpus: float, memory: int, storage: int
) -> None:
    account = open_account(
        {
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"resources": {"limits": limits}}]},
        }
    )
    assert account == Account(BEGAN, vcpus, memory, storage)
