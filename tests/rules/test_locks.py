"""Every package that the service and the images install is named with its version and the hashes of its files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def lock() -> Any:
    """The script as a module."""
    loader = SourceFileLoader("lock_script", str(REPOSITORY / "scripts/lock"))
    spec = spec_from_loader("lock_script", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_locks_are_of_what_is_declared_now(lock: Any) -> None:
    names = {one.path.relative_to(REPOSITORY).as_posix() for one in lock.LOCKS}
    projects = {"requirements.lock", "requirements-dev.lock"}
    images = {f"environments/{image}/requirements.txt" for image in ("data", "python")}
    kernels = {f"kernels/images/locks/python3.{minor}.txt" for minor in (9, 10, 11)}
    assert names == projects | kernels | images | {"scripts/image-tools.txt"}
    for one in lock.LOCKS:
        one.check()


STALE: dict[str, tuple[Callable[[str], str], str]] = {
    "a package without a hash": (lambda text: re.sub(r"\\\n +--hash=\S+", "", text, count=1), "more than pinned"),
    "a package less": (lambda text: re.sub(r"tornado==[^\n]+\n(    --hash[^\n]+\n)+", "", text), "lacks tornado"),
    "an index": (lambda text: text + "--index-url https://registry.example/simple\n", "more than pinned"),
    "a version that is a range": (lambda text: text.replace("tornado==", "tornado>="), "more than pinned"),
    "an address": (lambda text: text + "x @ https://registry.example/x.whl\n", "more than pinned"),
    "no lock at all": (lambda _text: "", "not of"),
}


@pytest.mark.parametrize("name", STALE)
def test_what_is_no_lock_of_it_is_found(name: str, lock: Any, tmp_path: Path) -> None:
    change, reason = STALE[name]
    asking = [one for one in lock.LOCKS if any(each.startswith("tornado") for each in one.asked())]
    assert len(asking) == 3
    for one in asking:
        changed = tmp_path / one.path.name
        changed.write_text(change(one.path.read_text()))
        with pytest.raises(lock.Stale, match=reason):
            replace(one, path=changed).check()


def test_a_source_that_has_changed_is_found(lock: Any, tmp_path: Path) -> None:
    one = next(each for each in lock.LOCKS if each.source != lock.PYPROJECT)
    shutil.copy(one.path, tmp_path)
    source = tmp_path / one.source.name
    source.write_text(one.source.read_text() + "# only a comment\n")
    copied = replace(one, path=tmp_path / one.path.name, source=source)
    copied.check()
    source.write_text(source.read_text() + "another==1.0\n")
    with pytest.raises(lock.Stale, match=r"run scripts/lock"):
        copied.check()


def test_the_tests_run_on_the_versions_that_the_service_is_shipped_with(lock: Any) -> None:
    service, dev = (
        dict(re.findall(r"^([a-z0-9-]+)==(\S+)", one.path.read_text(), re.MULTILINE)) for one in lock.LOCKS[:2]
    )
    assert service.items() <= dev.items()
