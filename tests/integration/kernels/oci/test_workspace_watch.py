"""What the host's watch sees of what code does to its workspace, under each runtime.

Stores through a memory map are not among it: runc and crun tell of them when the map is closed, runsc does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.integration.kernels.oci.conftest import Sandboxes, Test
from workspace_sync.directory.safe_open import DIRECTORY
from workspace_sync.directory.watch import Watch

CHANGES = {
    "open('w/f', 'w').write('new')": b"w/f",
    "open('w/f', 'a').write('more')": b"w/f",
    "open('w/f', 'r+').write('x')": b"w/f",
    "os.truncate('w/f', 1)": b"w/f",
    "os.chmod('w/f', 0o600)": b"w/f",
    "os.utime('w/f', (1, 1))": b"w/f",
    "os.rename('w/f', 'w/g')": b"w/g",
    "os.link('w/g', 'w/h')": b"w/h",
    "os.symlink('g', 'w/l')": b"w/l",
    "os.unlink('w/g')": b"w/g",
    "os.mkdir('w/d')": b"w/d",
    "subprocess.run(['sh', '-c', 'echo 1 > w/s'], check=True)": b"w/s",
    "os.open('w/t', os.O_CREAT | os.O_WRONLY)": b"w/t",
}


def test_the_hosts_watch_is_told_of_every_kind_of_change(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        prepare = "import os, subprocess; os.chdir('/workspace'); "
        await sandboxes.python(info, prepare + "os.mkdir('w')")
        watch = Watch()
        watch.begin()
        for path in (b"", b"w"):
            descriptor = os.open(os.path.join(os.fsencode(info.workspace_directory), path), DIRECTORY)  # noqa: PTH118
            watch.add(descriptor, path)
            os.close(descriptor)
        watch.complete()
        try:
            await sandboxes.python(info, prepare + "os.listdir('w'); open('/tmp/elsewhere', 'w').write('x')")
            assert watch.quiet(), watch.take()
            unseen = []
            for change, path in CHANGES.items():
                await sandboxes.python(info, prepare + change)
                quiet, told = watch.quiet(), watch.take()
                if quiet or told is None or path not in told.names | told.trees:
                    unseen.append((change, quiet, told))
            assert unseen == []
        finally:
            watch.close()

    in_sandboxes(test)
