"""What the doctor says of the kernel's watches."""

from __future__ import annotations

from kernel_gateway.server.doctor import watch


def test_a_host_that_cannot_watch_every_workspace_is_told_what_to_set() -> None:
    few, many = watch(1), watch(10**9)
    assert few.ok
    assert not few.remedy
    assert many.ok
    assert "max_user_instances=1000000128" in many.remedy
