"""Real Dockerfiles and a real registry: built by buildah, fetched by skopeo, run in sandboxes. They take minutes.

Their base is a Debian that mmdebstrap makes here, so that no public registry is needed.
"""

from __future__ import annotations

import asyncio
import base64
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
from typing import Any

import httpx
import png
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
from sandcell.attaching import lab_config
from tests.browser.chromium import chromium
from tests.conformance.jupyter import client_environments
from tests.conformance.jupyter.lab import answers, run_when_idle, running_lab, until
from tests.conftest import MakeService
from tests.integration.kernel_gateway.faces.jupyter.wire import reply_of, text_of, wire
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

EXAMPLES = Path(__file__).parents[4] / "examples" / "images"
PATHS = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")


def bootstrap(suite: str, root: Path, *packages: str) -> None:
    """A minimal Debian."""
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in PATHS]
    options += [f"--include={','.join(packages)}"] if packages else []
    options.append('--aptopt=Acquire::Check-Valid-Until "false"')  # of a mirror that stands still; signatures count
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


@pytest.fixture(scope="module")
def analysis(
    base: Path, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory, short_directory: Path
) -> Environment:
    """The image with R, in a directory of environments that a service may read."""
    place = tmp_path_factory.mktemp("analysis")
    place.chmod(0o755)
    return build("debian-r", base, variables, RuntimeSettings("runc", place / "trials", short_directory), place)


def test_an_image_with_r_runs_it(analysis: Environment, settings: RuntimeSettings) -> None:
    assert run(
        analysis, settings, "import numpy; print(int(numpy.arange(4).sum()))\n!Rscript -e 'cat(mean(c(1, 2, 6)))'"
    ) == ("6\n3")
    (r,) = read_kernelspecs(analysis.root, analysis.python)
    assert (r.name, r.language, r.language_name) == ("ir", "r", "R")
    assert run(analysis, settings, "x <- c(1, 2, 6)\ncat(mean(x))\ninvisible(x)", r) == "3"


@pytest.fixture(scope="module")
def with_r(analysis: Environment, make_service: MakeService) -> RunningService:
    return make_service(environments_dir=Path(analysis.root).parents[2], invocations_per_second=1000)


def shown(result: Any) -> list[str]:
    """What an execution displayed, as text."""
    assert result.status == "ok", result
    return [each["data"]["text/plain"] for each in result.outputs if "data" in each]


def test_r_is_a_language_of_sessions(with_r: RunningService) -> None:
    with with_r.client() as client, client.session("debian-r") as session:
        assert shown(session.run("x <- c(1, 2, 6); mean(x)", language="r")) == ["[1] 3"]
        plotted = session.run("plot(x)", language="r", timeout_seconds=300)
        (plot,) = [each["data"]["image/png"] for each in plotted.outputs if "image/png" in each.get("data", {})]
        assert len(set(png.Reader(bytes=base64.b64decode(plot)).read_flat()[2])) > 1
        failed = session.run("stop('broken')", language="r")
        assert (failed.status, failed.error is not None and "broken" in failed.error.value) == ("error", True)
        assert session.run("while (TRUE) {}", language="r", timeout_seconds=1).status == "timeout"
        running = session.submit("cat('begun'); Sys.sleep(600)", language="r")
        for event in session.events(running.id):
            if event.event == "stream":
                session.interrupt()
        assert client.get_execution(session.id, running.id).status == "interrupted"
        assert shown(session.run("x", language="r")) == ["[1] 1 2 6"]
        assert shown(session.run("6 * 7")) == ["42"]
        session.restart()
        assert shown(session.run("exists('x')", language="r")) == ["[1] FALSE"]


def test_r_is_replayed_by_r(with_r: RunningService) -> None:
    with with_r.client() as client, client.session("debian-r") as session:
        session.run("y <- 1:10; sum(y)", language="r")
        session.run("print(sum(range(11)))")
        session.run("cat(y[3], file = 'third'); readLines('third', warn = FALSE)", language="r")
        replay = client.replay(session.notebook(), environment="debian-r")
    assert (replay.same, replay.counts) == (True, {"same": 3}), replay


def test_jupyter_clients_attach_to_r(with_r: RunningService) -> None:
    headers = {"Authorization": f"token {with_r.token}"}
    with httpx.Client(base_url=with_r.url, headers=headers, timeout=300, trust_env=False) as http:
        spec = http.get("/api/kernelspecs").json()["kernelspecs"]["debian-r.ir"]["spec"]
        assert (spec["language"], spec["display_name"]) == ("R", "R (sandcell: debian-r)")
        kernel = http.post("/api/kernels", json={"name": "debian-r.ir"}).json()
        with wire(with_r.url, kernel["id"], with_r.token) as client:
            info = client.finished(client.send("shell", "kernel_info_request", {}))
            assert reply_of(info)["content"]["language_info"]["name"] == "R"
            assert text_of(client.run("z <- 41; cat(z + 1)")) == "42"
            completed = client.finished(client.send("shell", "complete_request", {"code": "media", "cursor_pos": 5}))
            assert "median" in reply_of(completed)["content"]["matches"]
            ask = client.execute("cat(toupper(readline('name? ')))", allow_stdin=True)
            client.until(lambda each: each["header"]["msg_type"] == "input_request")
            client.send("stdin", "input_reply", {"value": "Ada", "status": "ok"})
            assert "ADA" in text_of(client.finished(ask))
        assert http.delete(f"/api/kernels/{kernel['id']}").status_code == 204


def test_a_person_plots_with_r_in_jupyterlab(with_r: RunningService, environments_dir: Path, tmp_path: Path) -> None:
    """The picture of the page stays in the data directory, to be looked at."""
    picture = environments_dir.parent / "jupyterlab-r.png"
    configuration = lab_config.write(tmp_path / "configuration", with_r.url, with_r.token).parent
    program = client_environments.installed("jupyterlab", environments_dir.parent)
    kernelspec = {"name": "debian-r.ir", "display_name": "R", "language": "R"}
    cell = "x <- seq(-pi, pi, length.out = 200)\nplot(x, sin(x), type = 'l', main = R.version$language)\ncat(sum(1:10))"

    async def look() -> list[str]:
        with running_lab(program, configuration, tmp_path, cell, kernelspec=kernelspec) as lab:
            await until(lambda: answers(lab("api/status")))
            async with chromium(tmp_path / "browser") as page:
                await page.visit(lab("lab/tree/look.ipynb"))
                said = await run_when_idle(page, picture)
                assert await page.evaluate("document.querySelector('.jp-Toolbar-kernelName').innerText.trim()") == (
                    "R (sandcell: debian-r)"
                )
                return said

    said = asyncio.run(look())
    assert "55" in "".join(said)
    assert picture.stat().st_size > 10_000
    with with_r.client() as client:
        live = [each for each in client.list_sessions().items if each.status == "READY"]
        (session,) = [each for each in live if each.labels.get("jupyter_kernel") == "ir"]
        assert [each.language for each in client.list_executions(session.id).items] == ["r"]
        client.stop_session(session.id)


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
