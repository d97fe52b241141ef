"""The images as callers see them: each once, with those who use it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernel_gateway.errors import EnvironmentUnavailable, UnknownEnvironment
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.environments.custom import FindLayer, find_none
from kernel_gateway.services.environments.images import Images
from kernel_gateway.services.environments.packages import Packages
from kernel_gateway.storage import environments as stored
from kernels import errors as below
from kernels.environment import Environment
from kernels.images.contents import FILE, Contents, Package
from sandcell.models.environments import PackageInfo
from sandcell.models.images import ImageInfo
from sandcell.models.model import Page
from tests.unit.kernel_gateway.services.environments.conftest import ANN, BEN, HOSTS, Desk

At = Callable[[Callable[[Desk], Any]], Any]
CONTENTS = Contents("Debian", "3.11", 2_000_000, 1_600_000_000.25, (Package("pypi", "numpy", "2.4.6"),), ("R",))


def make_images(desk: Desk, hosts: dict[str, Environment], find_layer: FindLayer = find_none) -> Images:
    return Images(lambda: hosts, desk.database, desk.environments, Packages(desk.environments), find_layer)


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
        images = make_images(desk, hosts)
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
        assert (await images.get_sbom(ANN, "python"))["components"][0]["purl"] == "pkg:pypi/numpy@2.4.6"
        with pytest.raises(UnknownEnvironment, match="what is in the image data was not kept"):
            await images.get_sbom(ANN, "data")
        with pytest.raises(UnknownEnvironment, match="there is no image 'ruby'; there are: data, python, web"):
            await images.get(ANN, "ruby")

    at_desk(ask)


def test_an_image_with_packages_is_shown_to_its_principal_and_to_administrators(at_desk: At, tmp_path: Path) -> None:
    digests = {name: f"sha256:{digit * 64}" for name, digit in (("mine", "a"), ("theirs", "b"), ("gone", "c"))}

    def find_layer(digest: str) -> Environment:
        if digest == digests["gone"]:
            raise below.UnknownEnvironment(digest)
        root = tmp_path / digest[7:10] / "root"
        return Environment(".layers", str(root), digest, "the web", image=".layers")

    async def build(desk: Desk, name: str, digest: str, principal: Principal = ANN) -> str:
        made = await desk.make(name, principal, image="web", packages=["numpy"])
        await desk.database.run(lambda c: stored.begin_build(c, made.id, digest))
        await desk.database.run(lambda c: stored.end_build(c, made.id, "", "", 1))
        return made.id

    async def ask(desk: Desk) -> None:
        desk = desk.again(added_packages_images="web")
        desk.environments._find_layer = find_layer
        images = make_images(desk, desk.hosts, find_layer)
        (tmp_path / "aaa").mkdir()
        (tmp_path / "aaa" / FILE).write_bytes(msgspec.json.encode(CONTENTS))
        mine = [await build(desk, name, digests["mine"]) for name in ("mine", "twin")]
        theirs = await build(desk, "theirs", digests["theirs"], BEN)
        await build(desk, "gone", digests["gone"])
        await desk.make("waiting", image="web", packages=["numpy"])

        def show(page: Page[ImageInfo]) -> list[tuple[str, str, list[str]]]:
            return [(each.digest, each.owner, each.environments) for each in page.items if each.owner]

        assert show(await images.list(ANN)) == [(digests["mine"], "ann", mine)]
        assert show(await images.list(BEN)) == [(digests["mine"], "ann", mine), (digests["theirs"], "ben", [theirs])]
        for name in ("mine", mine[1], digests["mine"]):
            image = (await images.get(ANN, name)).image
            assert (image.name, image.description, image.size_bytes) == ("python", "the web; with numpy", 2_000_000)
        sbom = await images.get_sbom(ANN, "mine")
        assert (sbom["metadata"]["component"]["name"], sbom["components"][0]["name"]) == ("python", "numpy")
        for name in ("theirs", theirs, digests["theirs"], digests["gone"]):
            with pytest.raises(UnknownEnvironment, match=f"there is no image '{name}'"):
                await images.get(ANN, name)
            with pytest.raises(UnknownEnvironment, match=f"there is no image '{name}'"):
                await images.get_sbom(ANN, name)
        with pytest.raises(UnknownEnvironment, match="was not kept: delete the environment, and make it again"):
            await images.get_sbom(BEN, digests["theirs"])
        with pytest.raises(EnvironmentUnavailable, match="still being built"):
            await images.get(ANN, "waiting")

    at_desk(ask)
