"""What a guest says is taken only in its bounds."""

from __future__ import annotations

import pytest

from kernels.errors import SandboxFailed
from kernels.guest_client.answers import LONGEST_NAME, FileChange, parse_change


@pytest.mark.parametrize("letter", ["a", "é", "\udcff"])
def test_a_change_has_a_name_that_a_file_can_have(letter: str) -> None:
    most = LONGEST_NAME // FileChange("create", letter).size
    line = {"event": "change", "kind": "create", "name": letter * most}
    assert parse_change(line) == FileChange("create", letter * most)
    with pytest.raises(SandboxFailed):
        parse_change({**line, "name": letter * (most + 1)})
