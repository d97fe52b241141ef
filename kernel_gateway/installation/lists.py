"""Installs a list of packages in a sandbox: what is written there and run, and where in its workspace they lie then.

All that interprets a package runs in the sandbox, as its user. What comes back of it is text, bounded, for people.
"""

from __future__ import annotations

import asyncio
import itertools
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kernels.environment import Environment, PackageIndex
from kernels.errors import EnvironmentBuildFailed
from kernels.guest_client.client import GuestClient
from kernels.images import debian_packages
from kernels.images.added_packages import DEBIAN_PACKAGES
from kernels.images.packages import InstalledPackage, canonicalize

PYPI: Final = PackageIndex("https://pypi.org/simple/")
"""Where Python packages come from unless an operator says so."""
OUTPUT_BYTES: Final = 64 * 1024
SHOWN: Final = 2_000
LOOK_SECONDS: Final = 1.0
_FIRST_LOOKS: Final = (0.05, 0.1, 0.2, 0.4)
_WITH_VARIABLES: Final = f"env --unset=no_proxy --unset=NO_PROXY {shlex.join(debian_packages.VARIABLES)}"
"""A source at a loopback address of the host is reached like any other."""
_PROGRAM: Final = Path(debian_packages.__file__)
_INSTALL: Final = (
    "{python} -m pip install --no-color --progress-bar=off --compile --constraint=constraints.txt"
    " --requirement=requirements.txt"
)


class Installer(msgspec.Struct, frozen=True):
    """Installs in the sandbox of `guest`, made from `base`; each command has `seconds`.

    `say` gets what a command has printed once it has ended, `show` all that it has printed so far, about once a second.
    """

    guest: GuestClient
    base: Environment
    seconds: float
    say: Callable[[str], None] = lambda _: None
    show: Callable[[str], None] = lambda _: None

    async def install_python(self, packages: Sequence[str], before: Sequence[InstalledPackage]) -> None:
        """Have pip install; packages that the image has keep their versions.

        Raises `EnvironmentBuildFailed`, as the others do.
        """
        kept = {canonicalize(each.name): each.version for each in before if each.kind == "python"}
        await self._write("constraints.txt", "".join(f"{name}=={version}\n" for name, version in kept.items()))
        await self._write("requirements.txt", "\n".join(packages))
        await self.run(_INSTALL.format(python=self.base.python))

    async def fetch_debian(self, packages: Sequence[str], sources: str) -> None:
        """Have apt of the image fetch the packages and what they need; root's half is `install_debian`."""
        await self._write(_PROGRAM.name, _PROGRAM.read_text())
        words = [self.base.python, "-I", _PROGRAM.name, "fetch", f"/workspace/{DEBIAN_PACKAGES}", sources, *packages]
        await self.run(f"{_WITH_VARIABLES} {shlex.join(words)}")

    async def run(self, command: str) -> str:
        """What a command printed."""
        done = await self.guest.run_command(
            command, timeout_seconds=self.seconds, output_bytes=OUTPUT_BYTES, background=True, merge_output=True
        )
        # Asked for, not followed: of a package that floods the guest keeps a bounded amount. The command's own deadline
        # ends this.
        for wait in itertools.chain(_FIRST_LOOKS, itertools.repeat(LOOK_SECONDS)):
            if done.status != "running":
                break
            self.show(done.stdout)
            await asyncio.sleep(wait)
            done = await self.guest.task(done.id)
        self.say(done.stdout.strip())
        if done.exit_code != 0:
            why = f"it took longer than {self.seconds:g} s" if done.timed_out else done.stdout
            raise EnvironmentBuildFailed(f"the packages could not be installed:\n{why.strip()[-SHOWN:]}")
        return done.stdout

    async def _write(self, name: str, text: str) -> None:
        async def content() -> AsyncIterator[bytes]:
            yield text.encode()

        await self.guest.write_file(name, content())
