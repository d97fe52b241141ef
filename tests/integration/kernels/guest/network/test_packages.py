"""The package index of a sandbox that reaches none: asked as pip asks and as uv does, by the real ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uv

from kernels.errors import GuestRefused
from tests.integration.kernels.guest.conftest import Guests, RunningGuest, Test
from tests.integration.kernels.guest.network.test_egress import echo, listen, say

Runner = Callable[[Test], None]
CANNOT = b"Network mode SANDBOX reaches no package index, so %s cannot be installed here: "


async def ask(guest: RunningGuest, path: str) -> bytes:
    return await say(guest.ports[2], f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())


def install(guest: RunningGuest, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run an installer as a program of the guest's user finds it."""
    index = f"http://127.0.0.1:{guest.ports[2]}/simple/"
    home = {
        "HOME": str(guest.directory / "h"),
        "PIP_NO_CACHE_DIR": "1",
        "PIP_INDEX_URL": index,
        "UV_DEFAULT_INDEX": index,
        **more,
    }
    return subprocess.run(
        command, env={"PATH": os.environ["PATH"], **home}, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_package_is_refused_in_one_sentence_that_says_where_it_is(with_guests: Runner, tmp_path: Path) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        answer = await ask(guest, "/simple/tiny/")
        assert answer.startswith(b"HTTP/1.1 410 " + CANNOT.removesuffix(b": ") % b"tiny" + b"\r\n")
        await guest.client.put_packages({"tiny-er": "data (1.2) has it"})
        head, _, body = (await ask(guest, "/simple/Tiny_er/")).partition(b"\r\n\r\n")
        sentence = CANNOT % b"Tiny_er" + b"of this service's environments data (1.2) has it"
        assert head.startswith(b"HTTP/1.1 410 " + sentence + b"\r\n")
        assert body == sentence + b"\n"
        assert (await ask(guest, "/why/tiny.er")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert CANNOT % b"other" + b"no environment of this service has it\n" in await ask(guest, "/why/other")
        for path in ("/", "/simple/", "/simple/a/b", "/simple/-x/", "/simple/" + "x" * 200, "/simple/%0d%0a"):
            refused = await ask(guest, path)
            assert refused.startswith(b"HTTP/1.1 410 Network mode SANDBOX reaches no package index\r\n"), path
        assert b"410" in await say(guest.ports[2], b"\x16\x03")
        for wrong in ({"a": "two\r\nlines"}, {"a": 1}):
            with pytest.raises(GuestRefused):
                await guest.client.put_packages(wrong)  # type: ignore[arg-type]
        target = ("--target", str(tmp_path / "t"))
        done = await asyncio.to_thread(
            install, guest, uv.find_uv_bin(), "pip", "install", *target, "--python", sys.executable, "tiny.er"
        )
        assert "data (1.2) has it" in done.stderr, done

    with_guests(test)


@pytest.mark.sample("packages")
def test_pip_says_the_sentence_in_place_of_its_own(with_guests: Runner, tmp_path: Path) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        (site,) = (guest.directory / "h/.local/lib").glob("python*/site-packages")
        paths = {"PYTHONPATH": str(tmp_path)}
        (tmp_path / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(site)!r})")
        await guest.client.put_packages({"tiny": "data (1.2) has it"})
        pip = (sys.executable, "-m", "pip")

        async def run(*command: str, variables: Mapping[str, str] = paths) -> str:
            done = await asyncio.to_thread(install, guest, *pip, *command, **variables)
            assert done.returncode == 1, done
            return done.stderr

        (tmp_path / "pipeline.py").write_text("import sys; print(type(sys.stderr).__name__)")
        other = await asyncio.to_thread(install, guest, sys.executable, f"{tmp_path}/pipeline.py", **paths)
        assert other.stdout == "TextIOWrapper\n"
        target = ("install", "--target", str(tmp_path / "t"))
        sentence = (CANNOT % b"tiny").decode() + "of this service's environments data (1.2) has it"
        assert await run(*target, "tiny==1.0") == f"ERROR: {sentence}\n"
        assert "No matching distribution found for tiny" in await run(*target, "tiny", variables={})
        (tmp_path / "tiny-2.0-py3-none-any.whl").write_bytes(b"")
        said = await run(*target, "--find-links", str(tmp_path), "tiny==1.0")
        assert "(from versions: 2.0)" in said
        assert "No matching distribution" in said
        await guests.close()  # nobody answers any more: pip's own words stay
        assert "No matching distribution found for tiny" in await run(*target, "tiny")

    with_guests(test)


def test_with_an_index_the_guest_carries_bytes_to_the_host(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--index", "1")
        assert b"503 Network mode SANDBOX: the way out is not there" in await ask(guest, "/simple/x/")
        async with await listen(guest, "packages", echo):
            assert await say(guest.ports[2], b"GET /") == b"heard: GET /"
        reaching = await guests.start("--network", "PUBLIC")
        assert not list((reaching.directory / "h").glob(".local/lib/python*/site-packages/*.pth"))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", reaching.ports[2])

    with_guests(test)


def test_kept_packages_are_made_room_for_by_the_user_and_never_behind_a_link(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--keep-packages", "1")
        (site,) = guest.workspace.glob(".sandcell/packages/lib/python*/site-packages")
        assert site.stat().st_uid == (guest.workspace / ".sandcell").stat().st_uid == guest.user
        with tempfile.TemporaryDirectory() as place:
            roots, workspace = Path(place, "roots"), Path(place, "w")
            for each in (roots, workspace):
                each.mkdir()
            os.chown(workspace, guest.user, guest.user)
            Path(place).chmod(0o755)
            (workspace / ".sandcell").symlink_to(roots)
            await guests.start("--keep-packages", "1", "--workspace", str(workspace))
            assert list(roots.iterdir()) == []

    with_guests(test)
