"""What a build keeps of its downloads: what its lock and its root name, by checksum and by version."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from kernels.oci.downloads import Downloads, read_pins

NUMPY, NUMPY_FOR_ARM, TORNADO = b"numpy's wheel", b"numpy's other wheel", b"tornado's wheel"
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12
Description: a library
 Package: no field, but text

Package: ffmpeg
Architecture: amd64
Version: 7:7.1.5-0+deb13u1
"""


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


LOCK = f"""\
# Written by scripts/lock
numpy==2.5.5 \\
    --hash=sha256:{checksum(NUMPY)} \\
    --hash=sha256:{checksum(NUMPY_FOR_ARM)}
tornado==6.6.1 ; sys_platform == 'linux' \\
    --hash=sha256:{checksum(TORNADO)}
"""


def downloads(folder: Path) -> Downloads:
    one = Downloads(folder)
    one.prepare()
    return one


def test_the_packages_of_a_lock_are_read_as_pip_reads_them() -> None:
    pins = read_pins(LOCK)
    assert "".join(f"{pin.text}\n" for pin in pins) == LOCK.partition("\n")[2]
    assert [len(pin.hashes) for pin in pins] == [2, 1]


def test_a_wheel_counts_by_its_checksum_alone(tmp_path: Path) -> None:
    there, pins = downloads(tmp_path), read_pins(LOCK)
    assert there.find_missing(pins) == pins
    (there.wheels / "numpy-2.5.5.whl").write_bytes(NUMPY_FOR_ARM)
    (there.wheels / "tornado-6.6.1.whl").write_bytes(TORNADO[:-1])  # cut off by a full disk
    assert [pin.text.partition("=")[0] for pin in there.find_missing(pins)] == ["tornado"]


def test_builds_that_were_cut_off_leave_no_more_than_one_build_needs(tmp_path: Path) -> None:
    there, pins = downloads(tmp_path), read_pins(LOCK)
    for name, content in (("numpy.whl", NUMPY), ("numpy-of-last-year.whl", b"old"), ("half.whl", TORNADO[:-1])):
        (there.wheels / name).write_bytes(content)
    debs = ["libc6_2.41-9_amd64.deb", "libc6_2.41-12_amd64.deb", "libc6_2.41-12_i386.deb", "libc6-dev_2_amd64.deb"]
    for age, name in enumerate(debs):
        (there.debs / name).write_bytes(b"12345")
        os.utime(there.debs / name, (age, age))
    there.prepare()
    there.find_missing(pins)
    assert {path.name for path in there.wheels.iterdir()} == {"numpy.whl"}
    assert {path.name for path in there.debs.glob("*.deb")} == set(debs[1:])


def test_what_a_finished_build_did_not_use_goes(tmp_path: Path) -> None:
    there, pins = downloads(tmp_path / "cache"), read_pins(LOCK)
    (status := tmp_path / "root/var/lib/dpkg/status").parent.mkdir(parents=True)
    status.write_text(STATUS)
    for name, content in (("numpy.whl", NUMPY), ("numpy-of-last-year.whl", b"old")):
        (there.wheels / name).write_bytes(content)
    for name in ("libc6_2.41-12_amd64.deb", "ffmpeg_7%3a7.1.5-0+deb13u1_amd64.deb", "libc6_2.41-11_amd64.deb"):
        (there.debs / name).write_bytes(b"12345")
    (there.debs / "partial/half.deb").write_bytes(b"1")
    assert there.keep_only(pins, tmp_path / "root") == len(NUMPY) + 10
    kept = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert kept == {"numpy.whl", "libc6_2.41-12_amd64.deb", "ffmpeg_7%3a7.1.5-0+deb13u1_amd64.deb"}
