"""What is kept of an image's contents, whatever the image has in the places where it is looked for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.images import contents
from kernels.images.contents import Package
from kernels.oci import environments

STATUS = """Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u10

Package: gone
Status: deinstall ok config-files
Version: 1

Package: ../odd
Status: install ok installed
Version: 1
"""


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    build = tmp_path / "own" / "sha256-1"
    root = build / "root"
    site = root / "usr/lib/python3/dist-packages"
    for name, version in (("requests", "2.32.3"), ("PyYAML", "6.0"), ("odd name", "1")):
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        (site / f"{name}-{version}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (root / "usr/bin").mkdir()
    (root / "usr/bin/python3.11").touch(0o755)
    (root / "usr/bin/python3").symlink_to("python3.11")
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text(STATUS)
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    kernels = root / "usr/share/jupyter/kernels"
    declared = {"argv": ["bash", "{connection_file}"], "language": "bash"}
    for name, spec in (
        ("bash", json.dumps(declared)),
        ("python3", json.dumps({**declared, "language": "python"})),
        ("no-json", "{"),
        ("no-connection", json.dumps({**declared, "argv": ["bash"]})),
        ("odd-language", json.dumps({**declared, "language": "\x1b[31m"})),
    ):
        (kernels / name).mkdir(parents=True)
        (kernels / name / "kernel.json").write_text(spec)
    (kernels / "linked").symlink_to(tmp_path)
    environments.declare(build, name="own", digest="sha256:1", description="", python="/usr/bin/python3")
    return Environment("own", str(root), "sha256:1", image="own")


def test_what_is_in_an_image_is_found_once(environment: Environment) -> None:
    assert contents.read(environment) is None
    contents.record(environment)
    found = contents.read(environment)
    assert found is not None
    assert (found.system, found.python_version, found.kernels) == ("Debian GNU/Linux 12 (bookworm)", "3.11", ("bash",))
    assert found.packages == (
        Package("deb", "libc6", "2.36-9+deb12u10"),
        Package("pypi", "pyyaml", "6.0"),
        Package("pypi", "requests", "2.32.3"),
    )
    assert found.bytes > len(STATUS)
    Path(environment.root, "var/lib/dpkg/status").unlink()
    contents.record(environment)
    assert contents.read(environment) == found


def test_links_of_an_image_are_followed_inside_it_alone(environment: Environment, tmp_path: Path) -> None:
    outside = tmp_path / "status"
    outside.write_text(STATUS)
    status = Path(environment.root, "var/lib/dpkg/status")
    status.unlink()
    status.symlink_to(outside)
    contents.record(environment)
    found = contents.read(environment)
    assert found is not None
    assert {each.kind for each in found.packages} == {"pypi"}


def test_the_bill_of_materials_names_every_package_by_its_url(environment: Environment) -> None:
    contents.record(environment)
    found = contents.read(environment)
    assert found is not None
    bill = contents.make_sbom(environment, found)
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["component"]["version"]) == (
        "CycloneDX",
        "1.5",
        "sha256:1",
    )
    urls = [each["purl"] for each in bill["components"]]
    assert urls[0].startswith("pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=")
    assert urls[1:] == ["pkg:pypi/pyyaml@6.0", "pkg:pypi/requests@2.32.3"]
    assert len({each["bom-ref"] for each in bill["components"]}) == 3


def test_an_image_that_was_changed_after_it_was_built_is_noticed(environment: Environment) -> None:
    root = Path(environment.root)
    assert not contents.find_change(environment)
    contents.record(environment)
    assert not contents.find_change(environment)
    (root / "usr/bin/python3.11").write_text("another")
    assert contents.find_change(environment)
    (root / "usr/bin/python3.11").write_text("")
    os.utime(root / "usr/bin/python3.11", (1, 1))
    assert contents.find_change(environment)
