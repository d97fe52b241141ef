"""Paths of the workspace: what leads elsewhere is refused before anything is opened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernels.guest.refusal import Refusal, refusal_of
from kernels.guest.workspace.files import Workspace
from kernels.guest.workspace.identity import assume
from kernels.guest.workspace.paths import split_path


@pytest.mark.parametrize("path", ["..", "a/../b", "../x", "/etc/passwd", "a\0b", "x" * 5000, "a/.."])
def test_what_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(Refusal) as refused:
        split_path(path)
    assert (refused.value.status, refused.value.code) == (400, "invalid_path")


@pytest.mark.parametrize(
    ("path", "parts"),
    [("", []), (".", []), ("a", ["a"]), ("a//b/", ["a", "b"]), ("./a/./b", ["a", "b"]), ("...", ["..."])],
)
def test_the_rest_is_split(path: str, parts: list[str]) -> None:
    assert split_path(path) == parts


def test_links_are_seen_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("../outside")
    (root / "file").symlink_to("../outside/secret")
    files = Workspace(str(root))
    assert [entry["kind"] for entry in files.list("", recursive=True, limit=10)] == ["link", "link"]
    for refused in (lambda: files.open("link/secret"), lambda: files.open("file"), lambda: files.upload("link/new")):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            refused()
    files.remove("link", recursive=True)
    assert (tmp_path / "outside/secret").exists()


def test_a_listing_is_in_order_and_ends_at_its_limit(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a", "c/x/y", "B"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = Workspace(str(tmp_path))
    names = [entry["path"] for entry in files.list("", recursive=True, limit=100)]
    assert names == ["B", "a", "b", "b/1", "b/2", "c", "c/x", "c/x/y"]
    assert [entry["path"] for entry in files.list("", recursive=True, limit=4)] == names[:4]
    assert [entry["path"] for entry in files.list("c", recursive=False, limit=4)] == ["c/x"]


def test_directories_that_programs_keep_are_not_entered_when_not_asked_for(tmp_path: Path) -> None:
    for name in (".git/a", "b/node_modules/c", "b/__pycache__/d", "e/.f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = Workspace(str(tmp_path))
    names = [entry["path"] for entry in files.list("", recursive=True, limit=100, private=False)]
    assert names == [".git", "b", "b/__pycache__", "b/node_modules", "e", "e/.f"]


def test_a_tree_of_any_depth_is_removed(tmp_path: Path) -> None:
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1500):
            Path("down").mkdir()
            os.chdir("down")
    finally:
        os.chdir(here)
    (tmp_path / "down/file").touch()
    files = Workspace(str(tmp_path))
    assert len(files.list("", recursive=True, limit=100_000)) < 100
    files.remove("down", recursive=True)
    assert list(tmp_path.iterdir()) == []


def test_every_error_of_the_system_has_a_word() -> None:
    assert refusal_of(OSError(28, "No space left on device")).code == "no_space"
    assert (refusal_of(OSError(99999, "?")).status, refusal_of(OSError(99999, "?")).code) == (500, "failed")


def test_pages_have_what_a_listing_has(tmp_path: Path) -> None:
    for name in ("top/b/2", "top/b/1", "top/a", "top/c/x/y", "top/c/x/z/last", "top/d", "other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = Workspace(str(tmp_path))
    whole = files.list("top", recursive=True, limit=100)
    for size in range(1, len(whole) + 2):
        found, more, after = [], True, ""
        while more:
            page, more = files.list_page("top", limit=size, after=after)
            assert len(page) <= size
            found, after = found + page, page[-1]["path"] if page else after
        assert found == whole
    (tmp_path / "top/b/1").unlink()  # it was the last of a page
    page, more = files.list_page("top", limit=1, after="top/b/1")
    assert ([each["path"] for each in page], more) == (["top/b/2"], True)
    with pytest.raises(Refusal, match="below the listed directory"):
        files.list_page("top", limit=1, after="other")


def test_a_page_ends_where_no_more_names_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    monkeypatch.setattr("kernels.guest.workspace.files.MAX_LISTED_BYTES", 250)
    files = Workspace(str(tmp_path))
    pages = [files.list_page("", limit=10), files.list_page("", limit=10, after="b")]
    assert [([each["path"] for each in page], more) for page, more in pages] == [(["a", "b"], True), (["c"], False)]
    with pytest.raises(Refusal, match="too large"):
        files.list("", recursive=True, limit=10)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """One that every user reaches."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_what_the_user_may_not_look_into_is_said_in_each_page_size(open_directory: Path) -> None:
    root = open_directory / "root"
    for name in ("closed/a", "names/b", "open/c"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for mode, name in ((0, "closed"), (0o444, "names")):
        (root / name).chmod(mode)
    root.chmod(0o755)
    with ThreadPoolExecutor(1, initializer=assume, initargs=(1000,)) as as_user:
        files = Workspace(str(root))
        whole = as_user.submit(files.list, "", recursive=True, limit=10).result()
        assert [(each["path"], each.get("unread", False)) for each in whole] == [
            ("closed", True),
            ("names", True),
            ("open", False),
            ("open/c", False),
        ]
        said, after, more = set(), "", True
        while more:
            page, more = as_user.submit(files.list_page, "", limit=1, after=after).result()
            said |= {each["path"] for each in page if each.get("unread")}
            after = max([after, *(each["path"] for each in page)])
        assert said == {"closed", "names"}
