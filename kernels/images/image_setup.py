"""Sets an image up as its own root would: in a container over the image, whose root is nobody on the host.

The container has no network, the system calls of every sandbox, and a range of user ids of its own. It sees the image
through an overlay; what it changes lies in a file system of its own, bounded like a sandbox's, and is taken over from
there into a new image. A child process does that, in namespaces that end with it, however it ends. What they do not
take along, a control group and the claim of the user ids, its parent takes back.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    # Run by its path and isolated, so that nothing but this installation is on the path of what runs as root.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import msgspec

from kernels.errors import EnvironmentBuildFailed, KernelsError
from kernels.images.layer import Layer, link_root
from kernels.oci import bundle, storage
from kernels.oci.cgroups import Cgroups
from kernels.oci.command import OciCommand
from kernels.oci.host import shares
from kernels.oci.namespaces import mounts, user_namespace
from kernels.oci.places import HostPlaces, read_uid_base, write_journal
from kernels.oci.uid_ranges import UidRanges
from kernels.sandbox import RuntimeSettings

FILES: Final = bundle.SETUP_FILES
_LONGEST_SAID: Final = 64 * 1024
_LONGEST_FAILURE: Final = 2000
_LOOK_SECONDS: Final = 0.5
_MORE_SECONDS: Final = 1800
"""To copy what it changed, and to clean up."""
_OPEN_FILES: Final = 65_536
_PROGRAMS: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OVERLAY: Final = "lowerdir=image,upperdir=changes,workdir=work,redirect_dir=off,metacopy=off,index=off,nosuid,nodev"


class ImageSetup(msgspec.Struct, frozen=True):
    """What to do to which image: `command` runs in a container over `base`, and sees the directory `files` at `FILES`.

    `root` will be the new image, `place` a directory to work in: neither is there yet, both are the caller's to remove.
    `runtime` names the OCI runtime, `settings` where its control groups and user ids are. The same place gets the same
    control group. Every path is absolute.
    """

    base: str
    base_digest: str
    root: str
    files: str
    command: tuple[str, ...]
    variables: tuple[str, ...]
    place: str
    runtime: str
    settings: RuntimeSettings
    storage_bytes: int
    memory_bytes: int
    pids: int
    vcpus: float
    seconds: int

    def __post_init__(self) -> None:
        """Refuse what would mean another place to the process that does it."""
        settings = self.settings
        for path in (self.base, self.root, self.files, self.place, settings.data_directory, settings.run_directory):
            if not Path(path).is_absolute():
                raise ValueError(f"the path {str(path)!r} is not absolute")


def run(setup: ImageSetup, given_up: Callable[[], bool] = lambda: False) -> str:
    """Set an image up; what its program said. Needs root; raises `EnvironmentBuildFailed` with that when it failed.

    `given_up` is asked again and again whether this is still wanted.
    """
    try:
        return _run_child(setup, given_up)
    except BaseException:
        take_back(Path(setup.place), setup.settings)
        raise


def _run_child(setup: ImageSetup, given_up: Callable[[], bool]) -> str:
    apart = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child"]
    child = subprocess.Popen(
        [*apart, "--mount-proc", "--", sys.executable, "-I", str(Path(__file__).resolve())],
        cwd="/",
        env={"PATH": _PROGRAMS, "LANG": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with child:
        timer = threading.Timer(setup.seconds + _MORE_SECONDS, child.kill)
        timer.start()
        ended = threading.Event()
        looking = threading.Thread(target=_kill_when_given_up, args=(child, given_up, ended))
        looking.start()
        try:
            if child.stdin is None or child.stdout is None:
                raise EnvironmentBuildFailed("the process that sets images up has no pipes")
            # The pipe stays open: the child ends with this process.
            child.stdin.write(msgspec.json.encode(setup, enc_hook=str) + b"\n")
            child.stdin.flush()
            said = child.stdout.read().decode(errors="replace")
        except OSError as error:  # it ended before it had read what to do
            raise EnvironmentBuildFailed(f"the process that sets images up ended: {error}") from None
        except BaseException:
            child.kill()
            raise
        finally:
            timer.cancel()
            ended.set()
            looking.join()
    if child.returncode != 0:
        why = said.strip()[-_LONGEST_FAILURE:] or f"it ended with status {child.returncode}"
        raise EnvironmentBuildFailed(f"the packages could not be set up: {why}")
    return said


def take_back(place: Path, settings: RuntimeSettings) -> None:
    """Of a child that failed, or was killed and had no time to do it itself; what it ran ended with it."""
    cgroups, uid = _find_cgroups(settings), read_uid_base(place)
    if cgroups.remove(name_container(place)) and uid is not None:
        _find_uids(settings).release(uid, place)
    cgroups.remove_parent()


def _kill_when_given_up(child: subprocess.Popen[bytes], given_up: Callable[[], bool], ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):
        if given_up():
            child.kill()
            return


def main() -> None:
    """The child: PID 1 of its own processes, with mounts and a network of its own."""
    if os.getpid() != 1:
        sys.exit("this is started by the process that makes images, in namespaces of its own")
    line = sys.stdin.buffer.readline()
    setup = msgspec.json.decode(line, type=ImageSetup, dec_hook=lambda kind, value: kind(value))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        sys.stdout.write(_set_up(setup))
    except KernelsError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"the image could not be changed: {error}")


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing more comes
    os._exit(1)


def _set_up(setup: ImageSetup) -> str:
    place, name = Path(setup.place), name_container(Path(setup.place))
    place.mkdir(mode=0o711)
    # Before the claim, which leads here: who removes images has to see at any time that this one is in use.
    write_journal(place, None, setup.runtime, setup.base_digest)
    cgroups = _find_cgroups(setup.settings)
    cgroups.remove(name)  # of a build that was killed, of which nothing else is left
    state = place / "state"
    command = OciCommand(setup.runtime, state, unified=cgroups.unused_unified, deadline_seconds=setup.seconds)
    uids = _find_uids(setup.settings)
    uid = uids.claim(place)
    try:
        write_journal(place, uid, setup.runtime, setup.base_digest)
        if not command.own_kernel:  # whose sockets are its own; and runsc sets no limit in a group that it finds
            # What sockets hold beside the container's memory, as with a sandbox.
            cgroups.make_with_limited_sockets(name, bundle.socket_bytes(setup.memory_bytes), top=command.groups_at_top)
            shares.keep_no_copies_of_sends(os.getpid())
        return _run(setup, command, cgroups, name, uid)
    finally:
        command.delete(name)
        cgroups.remove(name)
        cgroups.remove_parent()
        uids.release(uid, place)


def name_container(place: Path) -> str:
    """Of the container that works there, and of its control group."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, str(place)))


def _find_cgroups(settings: RuntimeSettings) -> Cgroups:
    return Cgroups(HostPlaces(settings).cgroup)


def _find_uids(settings: RuntimeSettings) -> UidRanges:
    return UidRanges(
        HostPlaces(settings).uid_claims, base=settings.uid_base, count=settings.uid_ranges, first_id=read_uid_base
    )


def _run(setup: ImageSetup, command: OciCommand, cgroups: Cgroups, name: str, uid: int) -> str:
    place = Path(setup.place)
    storage.make_image(place / "storage.img", setup.storage_bytes, 0)
    top = place / "storage"
    storage.mount_image(place / "storage.img", top, new=True)
    log = top / "said"  # there, so that it is bounded as well
    with user_namespace.owned_by(uid, bundle.UID_RANGE) as namespace:
        _mount_overlay(Path(setup.base), top, uid, namespace)
        joined = "" if command.own_kernel else namespace
        places = bundle.SetupPlaces(
            str(top / "root"), str(top / "tmp"), setup.files, uid, cgroups.path(name), user_namespace=joined
        )
        processors_left, _ = cgroups.processors_left(top=command.groups_at_top)
        config = _make_config(setup, places, cgroups, processors_left)
        command.run_to_end(name, config, place / "bundle", log)
    link_root(Path(setup.base), Path(setup.root))
    Layer(Path(setup.root), setup.storage_bytes).change(top, "changes")
    with log.open("rb") as file:
        return file.read(_LONGEST_SAID).decode(errors="replace")


def _mount_overlay(base: Path, top: Path, uid: int, namespace: str) -> None:
    """Show the image at `top`/root, where all of it belongs to the container's users."""
    for name in ("image", "changes", "work", "root", "tmp"):
        (top / name).mkdir(mode=0o755)
    os.chown(top / "changes", uid, uid)
    (top / "tmp").chmod(0o1777)
    owners = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with mounts.clone(base) as tree:
            mounts.set_attributes(tree, mounts.IDMAP | mounts.NOSUID | mounts.NODEV, owners)
            mounts.place(tree, top / "image")
    except OSError as error:
        raise EnvironmentBuildFailed(
            f"{base} cannot be shown to a container under other user ids ({error.strerror}): that takes Linux 5.19 and"
            " a file system that can do it, such as ext4, XFS or Btrfs"
        ) from None
    finally:
        os.close(owners)
    # By names below the working directory: a path may have commas and colons.
    done = subprocess.run(
        ["mount", "-t", "overlay", "-o", _OVERLAY, "sandcell", "root"],
        cwd=top,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise EnvironmentBuildFailed(f"no overlay of the image can be mounted: {done.stderr.strip()[-500:]}")


def _make_config(
    setup: ImageSetup, places: bundle.SetupPlaces, cgroups: Cgroups, processors_left: float
) -> dict[str, Any]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = bundle.SetupLimits(
        setup.memory_bytes,
        setup.pids,
        setup.vcpus,
        file_bytes=setup.storage_bytes,
        open_files=_OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard),
        processors_left=processors_left,
    )
    return bundle.setup_config(
        places, setup.command, setup.variables, limits, machine=platform.machine(), swap=cgroups.limits_swap()
    )


if __name__ == "__main__":
    main()
