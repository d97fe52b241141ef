"""Real Dockerfiles and a real registry: built by buildah, fetched by skopeo, run in sandboxes. They take minutes.

Their base is a Debian that mmdebstrap makes here, so that no public registry is needed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.images import contents, importing, sources
from kernels.images.importing import Import
from kernels.sandbox import RuntimeSettings
from tests.doubles.server_process import free_port
from tests.integration.kernels.images.dockerfiles import bootstrap, build, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def test_a_slim_python_gets_a_kernel_and_keeps_what_it_has(
    base: Path, variables: dict[str, str], settings: RuntimeSettings, tmp_path: Path
) -> None:
    built = build("slim-python", base, variables, settings, tmp_path)
    code = """
import importlib.metadata, os, requests, subprocess, sys
print(requests.__file__, open(os.environ["SERVICE_SETTINGS"]).read().strip())
print(importlib.metadata.version("ipykernel") != "", sys.path[-1])
print(subprocess.run([sys.executable, "-c", "import ipykernel"], capture_output=True).returncode)
"""
    lines = run(built, settings, code).splitlines()
    assert lines == [
        '/usr/lib/python3/dist-packages/requests/__init__.py region = "north"',
        "True /opt/sandcell/kernel",
        "1",
    ]
    assert list(Path(built.root, "opt/sandcell/kernel/ipykernel/__pycache__").glob("*.pyc"))
    contents.record(built)
    known = contents.read(built)
    assert known is not None
    names = {(each.kind, each.name) for each in known.packages}
    assert {("deb", "python3-requests"), ("pypi", "requests")} <= names
    assert ("pypi", "ipykernel") not in names


@pytest.mark.parametrize(("suite", "version"), [("bullseye", "3.9"), ("trixie", "3.13"), ("sid", "3.14")])
def test_an_older_and_a_newer_python_run(suite: str, version: str, settings: RuntimeSettings, tmp_path: Path) -> None:
    bootstrap(suite, tmp_path / "root", f"python{version}")
    assert say_version(tmp_path, settings) == [version, "done"]


def say_version(place: Path, settings: RuntimeSettings, python: str = "") -> list[str]:
    """What the Python of the image in `place`/root says of itself, from a thread, and then its shell."""
    with sources.open_source(f"dir:{place / 'root'}", print, variables={**os.environ}) as source:
        wanted = Import("own", python, variables={**os.environ}, sandboxes=settings)
        built = importing.import_image(source.parts, wanted, place / "environments", print)
    code = "import sys, threading\nthread = threading.Thread(target=print, args=('%d.%d' % sys.version_info[:2],))\n"
    return run(built, settings, f"{code}thread.start()\nthread.join()\n!echo done").split()


LIBRARIES = (
    "libbz2-1.0",
    "libexpat1",
    "libffi8",
    "liblzma5",
    "libncursesw6",
    "libreadline8",
    "libsqlite3-0",
    "libssl3",
)
"""What a Python that was compiled on Debian 12 is linked to."""


@pytest.mark.parametrize("version", ["3.10", "3.12"])
def test_a_python_that_no_debian_has_runs(version: str, settings: RuntimeSettings, tmp_path: Path) -> None:
    """It is one that pyenv compiled on this host: of the registries that tests may use none has it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    compiled = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    if not compiled:
        pytest.skip(f"no Python {version} in {pyenv}: `pyenv install {version}` makes one")
    bootstrap("bookworm", tmp_path / "root", *LIBRARIES)
    python = tmp_path / "root/opt/python"
    leave_out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a")
    shutil.copytree(compiled[-1].parents[1], python, symlinks=True, ignore=leave_out)
    (tmp_path / "root/etc/ld.so.conf.d/python.conf").write_text("/opt/python/lib\n")
    subprocess.run(["ldconfig", "-r", str(tmp_path / "root")], check=True, timeout=300)
    assert say_version(tmp_path, settings, f"/opt/python/bin/python{version}") == [version, "done"]


def test_an_image_without_python_is_refused_and_leaves_nothing(
    base: Path, variables: dict[str, str], settings: RuntimeSettings, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentBuildFailed, match=r"the image has no python3 in .*; install Python 3\.9"):
        build("refused", base, variables, settings, tmp_path)
    assert sorted(path.name for path in (tmp_path / "environments/refused").iterdir()) == [".lock"]


@contextmanager
def registry(place: Path) -> Iterator[str]:
    """A registry on the loopback: its host and port."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    (place / "registry.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {place / 'registry'}}}}}\nhttp: {{addr: {address}}}\n"
    )
    served = subprocess.Popen(
        ["docker-registry", "serve", str(place / "registry.yml")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=10).close()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                assert served.poll() is None
                time.sleep(0.05)
        yield address
    finally:
        served.terminate()
        served.wait(120)


def test_an_image_comes_from_a_registry_by_its_digest(
    base: Path, variables: dict[str, str], settings: RuntimeSettings, tmp_path: Path
) -> None:
    with registry(tmp_path) as address:
        config = tmp_path / ".config/containers/registries.conf"
        config.parent.mkdir(parents=True)
        config.write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
        with_registry = {**variables, "HOME": str(tmp_path)}
        pushed = tmp_path / "digest"
        push = ["skopeo", "copy", "--digestfile", str(pushed), f"oci-archive:{base}"]
        subprocess.run(
            [*push, f"docker://{address}/team/debian:1"],
            check=True,
            capture_output=True,
            env=with_registry,
            timeout=600,
        )
        source = f"docker://{address}/team/debian@{pushed.read_text().strip()}"
        with (
            sources.open_source(source, print, variables=with_registry) as opened,
            pytest.raises(EnvironmentBuildFailed, match="the image has no python3"),
        ):
            importing.import_image(opened.parts, Import("debian"), tmp_path / "environments", print)
        missing = f"docker://{address}/team/none@sha256:{'0' * 64}"
        with (
            pytest.raises(EnvironmentBuildFailed, match=r"(?s)skopeo copy failed: .*manifest unknown"),
            sources.open_source(missing, print, variables=with_registry),
        ):
            pytest.fail("there is no such image")
