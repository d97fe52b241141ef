"""What an image from a list declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_gateway import environments_file
from kernel_gateway.server import layers
from kernel_gateway.settings import Settings
from kernels.environment import Environment
from kernels.oci import environments


@pytest.mark.parametrize("lists", ['apt = ["gdal-bin"]', 'packages = ["tqdm"]'])
def test_an_image_from_a_list_has_the_variables_and_the_python_of_the_one_below(tmp_path: Path, lists: str) -> None:
    base = Environment(
        "base",
        str(tmp_path / "base/root"),
        "sha256:base",
        description="a base",
        python="/opt/env/bin/python",
        variables=(("GDAL_DATA", "/opt/gdal"), ("PATH", "/opt/env/bin:/usr/bin")),
    )
    one = environments_file.parse(f'[plus]\nimage = "base"\n{lists}', Settings())["plus"]
    build = environments.locate(tmp_path, one.name, layers.digest(base, one))
    (build / "root").mkdir(parents=True)
    layers.declare(build, one, base)
    environments.point(build.parent / "current", build.name)
    found = environments.find_installed(tmp_path)["plus"]
    assert (found.variables, found.python) == (base.variables, base.python)
    assert found.description == f"a base; with {'gdal-bin' if 'apt' in lists else 'tqdm'}"
