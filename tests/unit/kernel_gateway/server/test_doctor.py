"""What the doctor says of the kernel's watches."""

from __future__ import annotations

import errno
from pathlib import Path

from kernel_gateway.server.doctor import store, watch
from kernel_gateway.settings import Settings


def test_a_host_that_cannot_watch_every_workspace_is_told_what_to_set() -> None:
    few, many = watch(1), watch(10**9)
    assert few.ok
    assert not few.remedy
    assert many.ok
    assert "max_user_instances=1000000128" in many.remedy


def test_a_claim_that_the_disk_refuses_is_a_finding(tmp_path: Path) -> None:
    def claim() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    found = store(Settings(store=f"file://{tmp_path}"), claim)
    assert (found.ok, found.required) == (False, False)
    assert "No space left" in found.detail
