"""Metadata of a reply: what it says of a run's usage, and everything that it may say instead."""

from __future__ import annotations

import pytest

from kernels.execution.run_usage import RunUsage, usage_in


def test_all_of_it_and_what_the_system_does_not_tell() -> None:
    whole = b'{"x": [], "sandcell": {"cpu_seconds": 1, "memory_peak_bytes": 2, "read_bytes": 3, "written_bytes": 4}}'
    assert usage_in(whole) == RunUsage(1.0, 2, 3, 4)
    assert usage_in(b'{"sandcell": {"cpu_seconds": 0.5, "read_bytes": null}}') == RunUsage(0.5, None, None, None)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"sandcell": 1}',
        b'{"sandcell": {}}',
        b'{"sandcell": {"cpu_seconds": -1}}',
        b'{"sandcell": {"cpu_seconds": NaN}}',
        b'{"sandcell": {"cpu_seconds": 1e400}}',
        b'{"sandcell": {"cpu_seconds": 1, "read_bytes": true}}',
        b'{"sandcell": {"cpu_seconds": 1, "read_bytes": 1e300}}',
        b'{"sandcell": ' * 1_000 + b"{}" + b"}" * 1_000,
        b'{"sandcell": {"cpu_seconds": 1}, "x": "' + b"y" * 20_000 + b'"}',
    ],
)
def test_nonsense_is_nothing(metadata: bytes) -> None:
    assert usage_in(metadata) is None
