"""The disk of a sandbox: an image that is mounted by loop."""

from __future__ import annotations

from pathlib import Path

from kernels.oci import storage


def loop_devices(image: Path) -> list[str]:
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [file.parts[3] for file in files if file.read_text().startswith(str(image))]


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
    assert loop_devices(image) == []
