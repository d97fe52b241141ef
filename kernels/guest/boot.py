"""From the first line to the first kernel, with as few imports as that takes; then the server.

The start of a sandbox is what callers wait for: the kernel boots while this process imports tornado. Until then nothing
is imported that is not needed: C modules (`_signal`, `_socket`) in the place of those that wrap them, no JSON, nothing
for types alone.
"""

from __future__ import annotations

import gc
import os
import sys

from .network.loopback import take_ports
from .network.netlink import restrain
from .options import ADDED_PACKAGES, Options, parse_options
from .processes.kernel import Kernel
from .processes.reaper import Reaper
from .processes.spawn import harden

_VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def main(arguments: list[str]) -> None:
    """Start the first kernel, then serve until told to end."""
    options = parse_options(arguments)
    harden(options.file_bytes, options.processes)
    if options.netlink_sockets:
        restrain(options.user, options.netlink_sockets)
    make_directories(options)
    furnish_home(options)
    ports = take_ports(options)
    reaper = Reaper()
    kernel = Kernel(options, reaper)
    try:
        kernel.start(options.generation)
    except OSError as error:
        kernel.fail(options.generation, f"the kernel could not be started: {error}")
    from .left_out import leave_out  # noqa: PLC0415 - as below

    leave_out(tls=bool(options.tls_port))
    from .server.server import run  # noqa: PLC0415 - importing it is the slow part

    gc.freeze()
    gc.enable()
    run(options, reaper, kernel, ports)


def make_directories(options: Options) -> None:
    """Make what is missing of the transport directory: one part root's alone, one part the user's alone."""
    for directory, owner in ((options.guest_directory, os.geteuid()), (options.kernel_directory, options.user)):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.chown(directory, owner, owner)
        os.chmod(directory, 0o700)


def furnish_home(options: Options) -> None:
    """Fill an empty home from the image's skeleton, e.g. matplotlib's font cache; a full disk is no reason to stop."""
    try:
        if not os.listdir(options.home):
            _copy(options.skeleton, options.home, options.user)
            site = _make_user_site(options)
            if options.keep_packages:
                _make_kept_site(options)
            if options.has_added_packages:
                os.chown(_add_packages(site), options.user, options.user)
            _configure_uv(options)
            if options.has_index_port:
                os.chown(_explain_pip(options, site), options.user, options.user)
    except OSError as error:
        sys.stderr.write(f"guest: home left as it is: {error}\n")


def _make_user_site(options: Options) -> str:
    """The directory that pip installs into: one that is missing when a kernel starts is not on its path."""
    return _make_directories(options, ".local", "lib", _VERSION, "site-packages")


def _make_kept_site(options: Options) -> None:
    """The same in the workspace: by the user, since whatever was kept there may be a link to anywhere."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresgid(options.user, options.user, options.user)
            os.setresuid(options.user, options.user, options.user)
            site = f"{options.user_base}/lib/{_VERSION}/site-packages"
            os.makedirs(site, exist_ok=True)
            if options.has_added_packages:
                _add_packages(site)
            if options.has_index_port:
                _explain_pip(options, site)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _make_directories(options: Options, *names: str) -> str:
    """Directories of the user's within each other, in the home, and the last one's path."""
    place = options.home
    for name in names:
        place = f"{place}/{name}"
        if not os.path.isdir(place):
            os.mkdir(place)
            os.chown(place, options.user, options.user)
    return place


def _configure_uv(options: Options) -> None:
    """Have `uv pip` install where pip does; by itself it asks for a virtual environment."""
    file = f"{_make_directories(options, '.config', 'uv')}/uv.toml"
    if not os.path.lexists(file):
        with open(file, "x") as written:
            # Its cache is in the home directory: another mount than the workspace, which a hard link cannot cross.
            mode = 'link-mode = "copy"\n' if options.keep_packages else ""
            written.write(f'{mode}[pip]\nsystem = true\nprefix = "{options.user_base}"\n')
        os.chown(file, options.user, options.user)


def _add_packages(site: str) -> str:
    """Have the user's programs find the packages that were added to the image, after all others; the new file."""
    file = f"{site}/sandcell_packages.pth"
    if not os.path.lexists(file):  # in a workspace it may be there
        with open(file, "x") as written:
            written.write(f"{ADDED_PACKAGES}/lib/{_VERSION}/site-packages\n")
    return file


def _explain_pip(options: Options, site: str) -> str:
    """Have pip say in one sentence why it finds no package: each program of the user's looks whether it is pip.

    Returns the new file that has it look.
    """
    place = f"{os.path.dirname(os.path.abspath(__file__))}/in_programs/pip_errors.py"
    run = f"import runpy; runpy.run_path({place!r})['replace_stderr']({options.index_address!r})"
    file = f"{site}/sandcell_pip.pth"
    # `pip3.11`, `python3 -m pip`, `python3 -u -m pip`, and no other program that has these letters in its name.
    words = "[word.rpartition('/')[2].rstrip('.0123456789') for word in getattr(sys, 'orig_argv', ())[1:4]]"
    with open(file, "x") as written:
        written.write(f"import sys; 'pip' in {words} and exec({run!r})\n")
    return file


def _copy(source: str, target: str, owner: int) -> None:
    for entry in os.scandir(source):
        place = f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.is_dir():
            os.mkdir(place)
            _copy(entry.path, place, owner)
        elif entry.is_file():
            with open(entry.path, "rb") as original, open(place, "xb") as copy:
                copy.write(original.read())
                os.fchmod(copy.fileno(), entry.stat().st_mode & 0o777)
        os.chown(place, owner, owner, follow_symlinks=False)
