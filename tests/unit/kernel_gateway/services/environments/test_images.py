"""The images as callers see them: each once, with those who use it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernel_gateway.errors import UnknownEnvironment
from kernel_gateway.services.environments.images import Images
from kernel_gateway.services.environments.packages import Packages
from kernels.images.contents import FILE, Contents, Package
from sandcell.models.environments import PackageInfo
from tests.unit.kernel_gateway.services.environments.conftest import ANN, BEN, HOSTS, Desk

At = Callable[[Callable[[Desk], Any]], Any]
CONTENTS = Contents("Debian", "3.11", 2_000_000, 1_600_000_000.25, (Package("pypi", "numpy", "2.4.6"),), ("R",))


def test_images_are_listed_once_with_those_who_use_them(at_desk: At, tmp_path: Path) -> None:
    build = tmp_path / "python"
    build.mkdir()
    (build / FILE).write_bytes(msgspec.json.encode(CONTENTS))
    numpy = build / "root/usr/lib/python3/dist-packages/numpy-2.4.6.dist-info"
    numpy.mkdir(parents=True)
    (numpy / "METADATA").write_text("Name: numpy\nVersion: 2.4.6\n")

    async def ask(desk: Desk) -> None:
        digests = {"python": "sha256:1", "web": "sha256:1", "data": "sha256:2"}
        hosts = {
            name: dataclasses.replace(
                HOSTS[name], digest=digest, root=str((build if digest[-1] == "1" else tmp_path) / "root")
            )
            for name, digest in digests.items()
        }
        desk = desk.again(hosts=hosts)
        images = Images(lambda: hosts, desk.database, Packages(desk.environments))
        mine = await desk.make("mine", image="web")
        page = await images.list(ANN, 1)
        (python,) = page.items
        assert (python.digest, python.name, python.environments) == ("sha256:1", "python", ["python", "web", mine.id])
        assert (python.system, python.python_version, python.size_bytes) == ("Debian", "3.11", 2_000_000)
        assert (python.package_count, python.languages, python.built_at) == (1, ["R"], "2020-09-13T12:26:40.250000Z")
        page = await images.list(ANN, 1, page.next_cursor)
        (data,) = page.items
        assert (data.digest, data.environments, data.built_at, page.next_cursor) == ("sha256:2", ["data"], None, None)
        assert (await images.list(BEN)).items[0].environments == ["python", "web"]
        for name in ("web", "sha256:1"):
            details = await images.get(ANN, name)
            assert (details.image.name, details.packages) == ("python", [PackageInfo("numpy", "2.4.6")])
        assert (await images.get_sbom("python"))["components"][0]["purl"] == "pkg:pypi/numpy@2.4.6"
        with pytest.raises(UnknownEnvironment, match="what is in the image data was not kept"):
            await images.get_sbom("data")
        with pytest.raises(UnknownEnvironment, match="there is no image 'ruby'; there are: data, python, web"):
            await images.get(ANN, "ruby")

    at_desk(ask)
