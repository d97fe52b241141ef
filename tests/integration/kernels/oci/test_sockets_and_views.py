"""What the host opens of a sandbox: its sockets, the ways out it is given, and the workspace as the service sees it."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kernels.errors import NotListening, SandboxFailed, SandboxGone
from kernels.guest_client.client import GuestClient
from kernels.oci import egress_sockets
from kernels.oci.namespaces import mounts
from kernels.oci.namespaces.mounts import is_mounted
from kernels.oci.places import HostPlaces
from kernels.sandbox import RuntimeSettings, SandboxInfo
from tests.integration.kernels.oci.conftest import Sandboxes, Test

InSandboxes = Callable[[Test], None]
ABSENT = "00000000-0000-4000-8000-000000000000"


def test_only_sockets_of_the_sandbox_are_dialled(in_sandboxes: InSandboxes) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info, dial = await sandboxes.create(), partial(sandboxes.runtime.dial)
        await sandboxes.run(info, "true")
        plant = "import os; os.chdir('/run/sandcell/kernel'); os.mkfifo('g7-1'); os.symlink('g1-1', 'g7-2')"
        await sandboxes.python(info, plant)
        (await dial(info.sandbox_id, "guest")).close()
        for name in ("kernel/g1-6", "kernel/g0-1", "kernel/../guest", "guest/http.sock", "/run/x", "", "kernel/g1-1\n"):
            with pytest.raises(SandboxFailed, match="no socket"):
                await dial(info.sandbox_id, name)
        for name in ("kernel/deno-g1-5", "kernel/deno-g0-1", "guest/deno-g1-1", "kernel/deno-g1-1/../http.sock"):
            with pytest.raises(SandboxFailed, match="no socket"):
                await dial(info.sandbox_id, name)
        for name in ("kernel/g7-1", "kernel/g7-2", "kernel/g7-3", "kernel/deno-g1-1"):
            with pytest.raises(NotListening):
                await dial(info.sandbox_id, name)
        with pytest.raises(SandboxGone):
            await dial(ABSENT, "guest")

    in_sandboxes(test)


def test_a_way_out_is_the_guests_alone_and_is_replaced_when_asked_for_again(in_sandboxes: InSandboxes) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        (await sandboxes.runtime.listen(info.sandbox_id, "http")).close()
        with await sandboxes.runtime.listen(info.sandbox_id, "http") as server:
            path = "/run/sandcell/egress/http.sock"
            seen = await sandboxes.python(info, f"import os; print(os.stat({path!r}).st_uid, os.geteuid())")
            assert seen == "0 1000"
            connecting = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r}); print('DONE')"
            assert "Permission denied" in await sandboxes.python(info, connecting)
            assert "Permission denied" in await sandboxes.python(info, f"import os; os.unlink({path!r})")
            # The guest's own connection, as its pump makes it.
            place = sandboxes.runtime.places.of(info.sandbox_id).transport / "egress/http.sock"
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place))
                accepted, _ = await asyncio.get_running_loop().sock_accept(server)
                accepted.close()
        with pytest.raises(SandboxFailed, match="no way out"):
            await sandboxes.runtime.listen(info.sandbox_id, "../guest/http")
        with pytest.raises(SandboxGone):
            await sandboxes.runtime.listen(ABSENT, "http")

    in_sandboxes(test)


def test_a_directory_that_the_sandbox_put_there_is_not_listened_in(tmp_path: Path) -> None:
    egress = tmp_path / "egress"
    for owner, mode in ((1, 0o711), (0, 0o777)):
        egress.mkdir()
        os.chown(egress, owner, owner)
        egress.chmod(mode)
        with pytest.raises(SandboxFailed, match="not the one"):
            egress_sockets.listen(tmp_path, "http", 1)
        assert list(egress.iterdir()) == []
        egress.rmdir()
    (tmp_path / "elsewhere").mkdir()
    egress.symlink_to("elsewhere")
    with pytest.raises(SandboxFailed, match="cannot be opened"):
        egress_sockets.listen(tmp_path, "http", 1)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_view_shows_the_users_files_as_the_services(in_sandboxes: InSandboxes) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        await sandboxes.python(info, "open('/workspace/theirs', 'w').write('x')")
        view = Path(info.workspace_directory)
        assert (view / "theirs").stat().st_uid == os.geteuid()
        (view / "ours").write_text("y")
        assert await sandboxes.python(info, "import os; print(os.stat('/workspace/ours').st_uid)") == "1000"
        await sandboxes.python(info, "import os; os.symlink('/etc/passwd', '/workspace/link')")
        with pytest.raises(OSError, match="symbolic links"):
            (view / "link").read_bytes()
        await sandboxes.runtime.destroy(info.sandbox_id)
        assert not view.exists()
        view.mkdir()  # as a service leaves it that is cut off in the midst of a removal
        await sandboxes.runtime.destroy(info.sandbox_id)
        assert await sandboxes.runtime.list() == ()

    in_sandboxes(test)


def test_what_is_opened_for_somebody_who_has_gone_is_closed_again(in_sandboxes: InSandboxes) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info, runtime = await sandboxes.create(), sandboxes.runtime
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            for opening in (runtime.open_beneath(info.sandbox_id, b""), runtime.listen(info.sandbox_id, "http")):
                asked: asyncio.Task[object] = asyncio.create_task(opening)
                await asyncio.sleep(0)
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
        async with asyncio.timeout(120):
            while len(list(Path("/proc/self/fd").iterdir())) > before:
                await asyncio.sleep(0.01)

    in_sandboxes(test)


def test_what_the_user_closed_to_himself_can_be_read_and_nothing_else(in_sandboxes: InSandboxes) -> None:
    async def opened(sandboxes: Sandboxes, info: SandboxInfo, path: bytes) -> int:
        return await sandboxes.runtime.open_beneath(info.sandbox_id, path)

    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        prepare = (
            "import os; os.chdir('/workspace'); os.makedirs('a/b'); open('a/b/f', 'w').write('kept')\n"
            "os.symlink('/etc', 'out'); os.symlink('f', 'a/b/l'); os.mkfifo('pipe'); os.mknod('s', 0o140600)\n"
            "os.chmod('a/b/f', 0); os.chmod('a/b', 0); os.chmod('a', 0)"
        )
        assert await sandboxes.python(info, prepare) == ""
        descriptor = await opened(sandboxes, info, b"a/b/f")
        with os.fdopen(descriptor, "rb") as file:
            assert file.read() == b"kept"
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.write(descriptor, b"x")
        descriptor = await opened(sandboxes, info, b"a/b")
        assert sorted(os.listdir(descriptor)) == ["f", "l"]  # noqa: PTH208 - of a descriptor
        os.close(descriptor)
        descriptor = await opened(sandboxes, info, b"a/b/l")
        assert stat.S_ISLNK(os.fstat(descriptor).st_mode)
        assert os.readlink(b"", dir_fd=descriptor) == b"f"
        os.close(descriptor)
        for path in (b"..", b"../home", b"/etc/passwd", b"out/passwd", b"a/../../x", b"pipe", b"s", b"none", b"a\0b"):
            with pytest.raises(OSError):  # noqa: PT011 - any of the kernel's reasons
                await opened(sandboxes, info, path)
        with pytest.raises(SandboxGone):
            await sandboxes.runtime.open_beneath(ABSENT, b"f")

    in_sandboxes(test)


def test_a_guest_is_spoken_to_through_the_runtime(in_sandboxes: InSandboxes) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        guest = GuestClient(partial(sandboxes.runtime.dial, info.sandbox_id))
        assert (await guest.wait_ready(60)).generation == 1
        await sandboxes.runtime.destroy(info.sandbox_id)
        with pytest.raises(SandboxGone):
            await guest.interrupt_kernel()
        await guest.aclose()

    in_sandboxes(test)


def test_sandboxes_made_at_once_share_one_mount_of_views(
    tmp_path: Path, short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = HostPlaces(RuntimeSettings("runc", tmp_path / "data", short_directory, service_uid=65533))
    looked = threading.Event()

    def look_slowly(directory: Path) -> bool:
        found = is_mounted(directory)
        looked.wait(0.2)
        return found

    monkeypatch.setattr(mounts, "is_mounted", look_slowly)
    makers = [threading.Thread(target=places.prepare) for _ in range(4)]
    try:
        for each in makers:
            each.start()
        for each in makers:
            each.join(120)
        mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        assert mounted.count(str(places.views)) == 1
    finally:
        while is_mounted(places.views):
            mounts.detach(places.views)
        places.remove_empty()
    assert not places.run.exists()
