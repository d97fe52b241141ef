"""The disk of a sandbox: an image that is mounted by loop."""

from __future__ import annotations

import contextlib
from pathlib import Path

from kernels.oci import storage
from tests.integration.kernel_gateway.server.eventually import eventually


def loop_devices(image: Path) -> list[str]:
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # another's, which has just gone
            if file.read_text().startswith(str(image)):
                found.append(file.parts[3])
    return found


def test_an_image_that_is_still_in_use_somewhere_is_mounted_with_what_is_not_on_its_disk_yet(tmp_path: Path) -> None:
    image, first, second = tmp_path / "storage.img", tmp_path / "first", tmp_path / "second"
    storage.make_image(image, 64 << 20, 0)
    storage.mount_image(image, first, new=True)
    try:
        with (first / "file").open("w") as file:
            file.write("not on the disk yet")
            file.flush()
            storage.unmount(first, deadline_seconds=0)  # busy: it is detached, and goes with the open file
            assert not first.is_mount()
            storage.mount_image(image, second)
            assert (second / "file").read_text() == "not on the disk yet"
            assert len(loop_devices(image)) == 1
    finally:
        for each in (first, second):
            storage.unmount(each)
    # A service that looks for the device of an image opens all that are in use: one goes when the last has closed it.
    eventually(lambda: not loop_devices(image))
    assert loop_devices(image) == []
