"""Real Dockerfiles and a real registry: built by buildah, fetched by skopeo, run in sandboxes. They take minutes.

Their base is a Debian that mmdebstrap makes here, so that no public registry is needed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed
from kernels.images import contents, importing, sources
from kernels.images.importing import Import
from kernels.images.kernelspecs import read_kernelspecs
from kernels.kernelspec import Kernelspec
from kernels.oci import image_archives
from kernels.runtimes import open_runtime
from kernels.sandbox import RuntimeSettings, SandboxSpec
from kernels.sandboxed.kernel_events import ignore_events
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import open_kernel

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

EXAMPLES = Path(__file__).parents[4] / "examples" / "images"
PATHS = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")


def bootstrap(suite: str, root: Path, *packages: str) -> None:
    """A minimal Debian."""
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in PATHS]
    options += [f"--include={','.join(packages)}"] if packages else []
    command = ["mmdebstrap", "--variant=minbase", *options, suite, str(root)]
    # Its mounts and processes end with it, however it ends.
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    subprocess.run([*apart, *command], check=True, capture_output=True, timeout=1800)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OCI archive of a minimal Debian."""
    place = tmp_path_factory.mktemp("base")
    bootstrap("bookworm", place / "root")
    image_archives.pack_root(place / "root", place / "debian.tar", "debian", lambda _line: None)
    return place / "debian.tar"


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """The tools' environment. What buildah keeps of the base goes at the end."""
    found = {**os.environ}
    before = _list_images(found)
    yield found
    for image in _list_images(found) - before:
        subprocess.run(["buildah", "rmi", "--force", image], check=True, capture_output=True, env=found, timeout=300)


def _list_images(variables: dict[str, str]) -> set[str]:
    done = subprocess.run(
        ["buildah", "images", "--quiet", "--no-trunc"], check=True, capture_output=True, text=True, env=variables
    )
    return set(done.stdout.split())


@pytest.fixture
def settings(tmp_path: Path, short_directory: Path) -> RuntimeSettings:
    return RuntimeSettings("runc", tmp_path / "trials", short_directory)


def run(environment: Environment, settings: RuntimeSettings, code: str, kernel: Kernelspec | None = None) -> str:
    """What code prints in a sandbox of the environment, in Python or in a kernel that its image declares."""

    async def work() -> str:
        runtime, sandbox_id = open_runtime(settings), str(uuid.uuid4())
        try:
            info = await runtime.create(SandboxSpec(sandbox_id, environment))
            live = await open_kernel(runtime, info, KernelLimits(start_seconds=600), ignore_events)
            name = "python" if kernel is None else kernel.name
            try:
                outcome = await live.execute(
                    code, timeout_seconds=120, emit=lambda _event: None, runtime=name, declared=kernel
                )
            finally:
                await live.aclose()
        finally:
            await runtime.destroy(sandbox_id)
            await runtime.aclose()
        assert outcome.status == "ok", outcome
        return outcome.stdout

    return asyncio.run(work())


def build(name: str, base: Path, variables: dict[str, str], settings: RuntimeSettings, tmp_path: Path) -> Environment:
    place = tmp_path / name
    shutil.copytree(EXAMPLES / name, place)
    dockerfile = place / "Dockerfile"
    text, count = re.subn(r"(?m)^FROM .*$", f"FROM oci-archive:{base}", dockerfile.read_text())
    assert count == 1
    dockerfile.write_text(text)
    with sources.build_source(place, print, variables=variables) as source:
        wanted = Import(name, variables=variables, sandboxes=settings)
        return importing.import_image(source.parts, wanted, tmp_path / "environments", print)


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


@pytest.mark.parametrize(("suite", "version"), [("bullseye", "3.9"), ("trixie", "3.13")])
def test_an_older_and_a_newer_python_run(suite: str, version: str, settings: RuntimeSettings, tmp_path: Path) -> None:
    bootstrap(suite, tmp_path / "root", "python3")
    with sources.open_source(f"dir:{tmp_path / 'root'}", print, variables={**os.environ}) as source:
        wanted = Import("own", variables={**os.environ}, sandboxes=settings)
        built = importing.import_image(source.parts, wanted, tmp_path / "environments", print)
    code = "import sys, threading\nthread = threading.Thread(target=print, args=('%d.%d' % sys.version_info[:2],))\n"
    assert run(built, settings, f"{code}thread.start()\nthread.join()\n!echo done").split() == [version, "done"]


def test_an_image_with_r_runs_it(
    base: Path, variables: dict[str, str], settings: RuntimeSettings, tmp_path: Path
) -> None:
    built = build("debian-r", base, variables, settings, tmp_path)
    assert run(
        built, settings, "import numpy; print(int(numpy.arange(4).sum()))\n!Rscript -e 'cat(mean(c(1, 2, 6)))'"
    ) == ("6\n3")
    (r,) = read_kernelspecs(built.root, built.python)
    assert (r.name, r.language) == ("ir", "r")
    assert run(built, settings, "x <- c(1, 2, 6)\ncat(mean(x))\ninvisible(x)", r) == "3"


def test_an_image_without_python_is_refused_and_leaves_nothing(
    base: Path, variables: dict[str, str], settings: RuntimeSettings, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentBuildFailed, match=r"the image has no python3 in .*; install Python 3\.9"):
        build("refused", base, variables, settings, tmp_path)
    assert sorted(path.name for path in (tmp_path / "environments/refused").iterdir()) == [".lock"]


@contextmanager
def registry(place: Path) -> Iterator[str]:
    """A registry on the loopback: its host and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
