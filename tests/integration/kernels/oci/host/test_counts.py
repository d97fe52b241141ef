"""Processes, open files and files: as many as were promised, then the error that says so, and the rest goes on."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import pytest

from kernels.environment import Resources
from tests.integration.kernels.oci.conftest import Sandboxes, Test

FORK = """
import errno, os, time
os.setpgid(0, 0)
made = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError as error:
        print(made, errno.errorcode[error.errno], flush=True)
        break
    made += 1
os.kill(0, 9)
"""

OPEN = """
import errno, os
while True:
    try:
        last = os.open("/dev/null", os.O_RDONLY)
    except OSError as error:
        print(last, errno.errorcode[error.errno])
        break
"""

FILES = """
import errno, os
os.makedirs("/tmp/many")
made = 0
while True:
    try:
        os.close(os.open(f"/tmp/many/{made}", os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        print(made, errno.errorcode[error.errno], os.statvfs("/tmp").f_files)
        break
    made += 1
"""


def test_processes_end_at_their_number(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        few = dataclasses.replace(sandboxes.environment, resources=Resources(pids=100))
        info = await sandboxes.create(few)
        made, error = (await sandboxes.python(info, FORK)).split()
        print(f"{made} made, of at most 100 with the guest, the kernel and their threads")
        assert error == "EAGAIN"
        assert 75 <= int(made) < 100
        assert (await sandboxes.run(info, "echo alive")).stdout == "alive\n"

    in_sandboxes(test)


def test_open_files_end_at_their_number(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        assert await sandboxes.python(await sandboxes.create(), OPEN) == "4095 EMFILE"

    in_sandboxes(test)


@pytest.mark.parametrize("runtime", ["runc"])
def test_files_end_at_the_number_of_the_file_system(in_sandboxes: Callable[[Test], None]) -> None:
    """The same image under every runtime; making so many takes gVisor long."""
    free = os.statvfs("/tmp").f_favail

    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        made, error, all_there = (await sandboxes.python(info, FILES)).split()
        print(f"{made} files of {all_there}")
        assert error == "ENOSPC"
        assert 0.99 * int(all_there) < int(made) <= int(all_there)
        assert (
            await sandboxes.run(info, "rm -r /tmp/many && echo x > /workspace/y && cat /workspace/y")
        ).stdout == "x\n"
        assert os.statvfs("/tmp").f_favail > free - 10_000

    in_sandboxes(test)
