"""A third party's runtime: a distribution installed next to the service, with no table of the service edited."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import leftovers
from tests.conftest import MakeService

REPOSITORY = Path(__file__).parent.parent.parent.parent.parent
MODULE = '''
"""A runtime that stands for one on another machine: what it dials and listens at is TCP."""

import asyncio
import socket

from msgspec import structs

from kernels.oci.command import OciProgram
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import Finding

PROGRAM = OciProgram("runc")


class Far:
    def __init__(self, settings):
        self._near = OciRuntime(structs.replace(settings, runtime="runc"))
        self._servers = []

    def __getattr__(self, verb):
        return getattr(self._near, verb)

    async def check(self):
        return (*await self._near.check(), Finding("distance", ok=True, detail="over there"))

    async def dial(self, sandbox_id, name, *, patience_seconds=0):
        near = await self._near.dial(sandbox_id, name, patience_seconds=patience_seconds)
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname())
            accepted, _ = server.accept()
        await carry(near, accepted)
        client.setblocking(False)
        return client

    async def listen(self, sandbox_id, name):
        far = socket.create_server(("127.0.0.1", 0))
        far.setblocking(False)
        address = far.getsockname()

        async def serve(reader, writer):
            await carry_streams((reader, writer), await asyncio.open_connection(*address))

        near = await self._near.listen(sandbox_id, name)
        self._servers.append(await asyncio.start_unix_server(serve, sock=near))
        return far


tasks = set()


async def carry(one, other):
    streams = [await asyncio.open_connection(sock=each) for each in (one, other)]
    task = asyncio.create_task(carry_streams(*streams))
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def carry_streams(one, other):
    async def copy(reader, writer):
        try:
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
        except OSError:
            pass

    try:
        await asyncio.gather(copy(one[0], other[1]), copy(other[0], one[1]))
    finally:
        one[1].close()
        other[1].close()
'''
ENTRY_POINTS = "[sandcell.runtimes]\nfar = sandcell_far:Far\nown-runc = sandcell_far:PROGRAM\n"
ENVIRONMENTS = '[python]\nnetwork = "PUBLIC"\n'
CALL_OUT = """
import urllib.request, urllib.error
try:
    urllib.request.urlopen("http://10.0.0.1/", timeout=60)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which a wheel with two runtimes is installed beside our installation."""
    place = tmp_path_factory.mktemp("own")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True, timeout=120)
    found = place / "venv/bin/python"
    paths = [
        str(REPOSITORY),
        str(REPOSITORY / "client"),
        *(each for each in sys.path if each.endswith("site-packages")),
    ]
    (site,) = (place / "venv").glob("lib/python3*/site-packages")
    (site / "beside.pth").write_text("".join(f"{each}\n" for each in paths))
    wheel = place / "sandcell_far-1.0-py3-none-any.whl"
    metadata = "sandcell_far-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("sandcell_far.py", MODULE)
        packed.writestr(f"{metadata}/METADATA", "Metadata-Version: 2.1\nName: sandcell-far\nVersion: 1.0\n")
        packed.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{metadata}/entry_points.txt", ENTRY_POINTS)
        packed.writestr(f"{metadata}/RECORD", "")
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, "--python", found, wheel], check=True, timeout=120)
    return found


def test_sessions_run_on_a_runtime_whose_streams_are_of_another_family(
    python: Path, make_service: MakeService, tmp_path: Path
) -> None:
    (tmp_path / "environments.toml").write_text(ENVIRONMENTS)
    service = make_service(python=python, runtime="far", environments_file=tmp_path / "environments.toml")
    with service.client() as client, client.session() as session:
        assert session.run("print(6 * 7)").stdout == "42\n"
        assert session.run(CALL_OUT).stdout == "403\n"
        session.upload("kept.txt", b"over there")
        assert session.download("kept.txt") == b"over there"
        assert client.get_session(session.id).runtime == "far"


@pytest.mark.parametrize(("runtime", "said"), [("own-runc", "runtime own-runc"), ("far", "distance")])
def test_the_doctor_tries_it(python: Path, runtime: str, said: str, environments_dir: Path, tmp_path: Path) -> None:
    done = run_doctor(python, runtime, environments_dir, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout
    assert "one starts, held to" in done.stdout


def test_one_that_is_not_installed_is_refused_with_those_there_are(
    python: Path, environments_dir: Path, tmp_path: Path
) -> None:
    done = run_doctor(python, "near", environments_dir, tmp_path)
    assert done.returncode != 0
    assert "runtime must be one of crun, far, kubernetes, own-runc, runc, runsc, not 'near'" in done.stderr


def run_doctor(python: Path, runtime: str, environments: Path, data: Path) -> subprocess.CompletedProcess[str]:
    variables = {
        "SANDCELL_DATA_DIR": str(data),
        "SANDCELL_ENVIRONMENTS_DIR": str(environments),
        "SANDCELL_RUN_DIR": str(leftovers.RUN_DIR),
        "SANDCELL_RUNTIME": runtime,
    }
    return subprocess.run(
        [python, "-m", "kernel_gateway", "doctor"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
