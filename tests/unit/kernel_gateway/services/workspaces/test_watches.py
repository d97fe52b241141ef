"""What a watcher collects: so many changes, and so many bytes of names."""

from __future__ import annotations

import pytest

from kernel_gateway.services.workspaces.watches import MOST_BYTES, MOST_CHANGES, _Watcher
from kernels.guest_client.answers import LONGEST_NAME, FileChange


@pytest.mark.parametrize(("length", "most"), [(10, MOST_CHANGES), (LONGEST_NAME, MOST_BYTES // LONGEST_NAME)])
def test_the_oldest_changes_go(length: int, most: int) -> None:
    watcher = _Watcher("session")
    changes = [FileChange("create", f"{number:0{length}}") for number in range(most + 5)]
    for _ in range(2):
        for each in changes:
            watcher.add(each)
        assert watcher.take() == changes[5:]
        assert (watcher.take(), watcher.size) == ([], 0)
