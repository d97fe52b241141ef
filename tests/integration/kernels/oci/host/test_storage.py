"""Disk: full at its size and not before, one file no larger than all of it, and the host has what it had."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.integration.kernels.oci.conftest import Sandboxes, Test

FILL = """
import errno, os
piece, made, number = bytes(1 << 20), 0, 0
try:
    while True:
        file = os.open(f"/{['workspace', 'home/user', 'tmp'][number % 3]}/fill{number}", os.O_CREAT | os.O_WRONLY)
        number += 1
        for _ in range(50):
            made += os.write(file, piece)
        os.fsync(file)
except OSError as error:
    print(made, errno.errorcode[error.errno])
"""

SPARSE = """
import errno, os
file = os.open("/workspace/sparse", os.O_CREAT | os.O_WRONLY)
for size in (512 << 20, (512 << 20) + 1):
    try:
        os.ftruncate(file, size)
        print(size)
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


def test_the_disk_is_full_at_its_size(in_sandboxes: Callable[[Test], None], tmp_path: Path) -> None:
    """Workspace, home and /tmp together; a file system keeps some of it for itself."""
    free = shutil.disk_usage(tmp_path).free

    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        made, error = (await sandboxes.python(info, FILL)).split()
        print(f"{int(made) / (512 << 20):.3f} of storage_mb could be written")
        assert error == "ENOSPC"
        assert 0.9 * (512 << 20) < int(made) <= 512 << 20
        assert shutil.disk_usage(tmp_path).free > free - (1 << 30)
        emptied = await sandboxes.run(info, "rm -f /workspace/* /home/user/fill* /tmp/*; echo x > /tmp/y && cat /tmp/y")
        assert emptied.stdout == "x\n", emptied.stderr

    in_sandboxes(test)


def test_one_file_is_no_larger_than_the_disk(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        told = await sandboxes.python(
            await sandboxes.create(), f"import signal; signal.signal(signal.SIGXFSZ, 1)\n{SPARSE}"
        )
        assert told == f"{512 << 20}\nEFBIG"

    in_sandboxes(test)
