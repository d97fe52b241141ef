"""What a guest lists of its workspace is held to what a workspace can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.errors import SandboxFailed
from kernels.guest_client.answers import FileStat
from kernels.sandboxed.workspace_copy import MOST_NAMES, _remove_others, check


def entry(path: str, kind: str = "file", size: int = 1) -> FileStat:
    return FileStat(path, kind, size, 0.0, version="1", mode=0o644)


def test_a_tree_is_taken_as_it_is_listed() -> None:
    listed = [entry("workspace/a", "directory"), entry("workspace/a/b"), entry("workspace/l", "link")]
    assert list(check(listed, 10)) == ["a", "a/b", "l"]


@pytest.mark.parametrize(
    "listed",
    [
        [entry("etc/passwd")],
        [entry("workspace")],
        [entry("workspace/../etc")],
        [entry("workspace/a/./b")],
        [entry("workspace//etc")],
        [entry("workspace/a\0b")],
        [entry("workspace/a"), entry("workspace/a")],
        [entry("workspace/a/b")],
        [entry("workspace/a", "link"), entry("workspace/a/b")],
        [entry("workspace/a"), entry("workspace/a/b")],
        [entry("workspace/a", size=11)],
        [entry("workspace/a", size=6), entry("workspace/b", size=6)],
        [entry(f"workspace/{number}", size=0) for number in range(MOST_NAMES)],
    ],
    ids=range(13),
)
def test_what_is_no_tree_of_a_workspace_is_refused(listed: list[FileStat]) -> None:
    with pytest.raises(SandboxFailed):
        check(listed, 10)


def test_what_is_gone_or_of_another_kind_goes_and_no_link_is_followed(tmp_path: Path) -> None:
    outside, top = tmp_path / "outside", tmp_path / "copy"
    (outside / "kept").mkdir(parents=True)
    (top / "gone" / "deep").mkdir(parents=True)
    (top / "a").symlink_to(outside)
    (top / "b").write_text("a file that becomes a directory")
    (top / "c").write_text("stays")
    _remove_others(
        top, check([entry("workspace/a", "directory"), entry("workspace/b", "directory"), entry("workspace/c")], 10)
    )
    assert sorted(each.name for each in top.iterdir()) == ["c"]
    assert (outside / "kept").is_dir()
