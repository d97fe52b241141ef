"""What is written down of a sandbox whose processes are saved: whole at any moment, whoever is killed meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

from kernels.oci.cgroups import Cgroups, Counters
from kernels.oci.checkpoints import Checkpoints
from kernels.oci.command import OciCommand
from kernels.oci.places import SandboxPlaces


class NoContainer:
    """Stands for runsc and for control groups, neither of which these sandboxes have."""

    def checkpoint(self, _sandbox_id: str, directory: Path, *_more: object) -> None:
        (directory / "checkpoint.img").write_bytes(b"processes")

    def version(self) -> str:
        return "build"

    def delete(self, sandbox_id: str) -> None:
        pass

    def remove(self, sandbox_id: str) -> None:
        pass

    def held_bytes(self, _sandbox_id: str) -> int:
        return 0

    def memory_limit(self, _sandbox_id: str) -> int:
        return 1 << 30

    def counters(self, _sandbox_id: str) -> Counters:
        return Counters(1, 1, 1, 0, 1.0, 1)


def test_what_was_counted_is_whole_while_it_is_written_again(tmp_path: Path) -> None:
    none = NoContainer()
    places = SandboxPlaces("one", tmp_path, tmp_path / "transport", tmp_path / "view")
    places.storage.mkdir()
    saving = Checkpoints(cast("Cgroups", none), reserve_bytes=0)

    def save() -> None:
        saving.save(places, cast("OciCommand", none), threading.Event())

    save()
    (places.saved / "checkpoint.img").unlink()
    places.saved.rmdir()  # as when it was restored
    with places.before.open() as earlier:
        save()
        assert '"cpu_seconds":1.0' in earlier.read(), "who reads it meanwhile has all of what was there"
    assert saving.counters(places)[0].cpu_seconds == 2.0
