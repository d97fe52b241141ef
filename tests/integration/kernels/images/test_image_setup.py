"""The process that sets images up: what it imports as root, and what is left of one that failed or was killed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed, KernelsError
from kernels.images import image_setup, pruning
from kernels.images.image_setup import ImageSetup
from kernels.oci.cgroups import Cgroups
from kernels.oci.places import HostPlaces
from kernels.sandbox import RuntimeSettings
from tests.integration.kernel_gateway.server.eventually import eventually

PLANTED = "from pathlib import Path\nPath({mark!r}).touch()\nraise SystemExit('this must not run')\n"


def make_setup(place: Path, run: Path, base: str = "/nonexistent", *command: str) -> ImageSetup:
    files = place / "files"
    files.mkdir()
    return ImageSetup(
        base=base,
        base_digest="sha256:" + "b" * 64,
        root=str(place / "root"),
        files=str(files),
        command=command,
        variables=("PATH=/usr/bin:/bin",),
        place=str(place / "setup"),
        runtime="runc",
        settings=RuntimeSettings("runc", place / "data", run),
        storage_bytes=100_000_000,
        memory_bytes=256 << 20,
        pids=64,
        vcpus=1.0,
        seconds=600,
    )


def require_nothing_held(setup: ImageSetup) -> None:
    """No user ids, no control group."""
    places = HostPlaces(setup.settings)
    assert [each.name for each in places.uid_claims.iterdir()] == ["lock"]
    assert not [top for top, _, _ in os.walk("/sys/fs/cgroup") if Path(top).name == places.cgroup]


def test_what_lies_in_the_working_directory_or_on_a_path_of_variables_is_not_run_as_root(
    tmp_path: Path, short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "it-ran"
    hostile = tmp_path / "hostile"
    (hostile / "kernels/images").mkdir(parents=True)
    planted = PLANTED.format(mark=str(mark))
    for name in ("uuid.py", "msgspec.py", "kernels/__init__.py", "kernels/images/image_setup.py", "sitecustomize.py"):
        (hostile / name).write_text(planted)
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTHONPATH", str(hostile))
    setup = make_setup(tmp_path, short_directory)
    with pytest.raises(EnvironmentBuildFailed, match="/nonexistent cannot be shown to a container"):
        image_setup.run(setup)
    assert not mark.exists()
    require_nothing_held(setup)


def test_a_path_that_another_directory_would_change_is_refused(tmp_path: Path, short_directory: Path) -> None:
    setup = make_setup(tmp_path, short_directory)
    elsewhere = RuntimeSettings("runc", Path("data"), tmp_path)
    for changed in ({"base": "root"}, {"root": "a"}, {"files": "b"}, {"place": "../c"}, {"settings": elsewhere}):
        with pytest.raises(ValueError, match="is not absolute"):
            msgspec.structs.replace(setup, **changed)


@pytest.mark.long
@pytest.mark.parametrize("runtime", ["runc", "crun", "runsc"])
def test_one_that_is_killed_keeps_the_image_below_while_it_lives_and_holds_nothing_after(
    environment: Environment, tmp_path: Path, short_directory: Path, runtime: str
) -> None:
    setup = make_setup(tmp_path, short_directory, environment.root, "/bin/sleep", "600")
    setup = msgspec.structs.replace(setup, runtime=runtime)
    ended, failures = threading.Event(), []

    def work() -> None:
        try:
            image_setup.run(setup, ended.is_set)
        except KernelsError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        cgroups, name = Cgroups(HostPlaces(setup.settings).cgroup), image_setup.name_container(Path(setup.place))
        eventually(lambda: cgroups.memory_limit(name) == 256 << 20)
        eventually(lambda: cgroups.counters(name).pids > 0)
        assert pruning.find_digests_in_use(short_directory) == {setup.base_digest}
        if not cgroups.unified and runtime != "runsc":
            limit = (cgroups._v1("memory", name) / "memory.kmem.tcp.limit_in_bytes").read_text()
            assert int(limit) == 16 << 20
    finally:
        ended.set()
        thread.join()
    assert len(failures) == 1
    assert not Path(setup.root).exists()
    require_nothing_held(setup)
    assert pruning.find_digests_in_use(short_directory) == set()
