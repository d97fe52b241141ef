"""Sets an image up as its own root would: in a container over the image, whose root is nobody on the host.

The container has no network, the system calls of every sandbox, and a range of user ids of its own. It sees the image
through an overlay; what it changes lies in a file system of its own, bounded like a sandbox's, and is taken over from
there into a new image. A child process does that, in a mount namespace that ends with it, however it ends.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from kernels.errors import EnvironmentBuildFailed, KernelsError
from kernels.images.layer import Layer, link_root
from kernels.oci import bundle, storage
from kernels.oci.cgroups import Cgroups
from kernels.oci.command import OciCommand
from kernels.oci.namespaces import mounts, user_namespace
from kernels.oci.places import HostPlaces, read_uid_base
from kernels.oci.uid_ranges import UidRanges
from kernels.sandbox import RuntimeSettings

FILES: Final = bundle.SETUP_FILES
_LONGEST_SAID: Final = 64 * 1024
_LONGEST_FAILURE: Final = 2000
_LOOK_SECONDS: Final = 0.5
_MORE_SECONDS: Final = 1800
"""To copy what it changed, and to clean up."""
_OVERLAY: Final = "lowerdir=image,upperdir=changes,workdir=work,redirect_dir=off,metacopy=off,index=off,nosuid,nodev"


class ImageSetup(msgspec.Struct, frozen=True):
    """What to do to which image: `command` runs in a container over `base`, and sees the directory `files` at `FILES`.

    `root` will be the new image, `place` a directory to work in: neither is there yet, both are the caller's to remove.
    `runtime` names the OCI runtime, `settings` where its control groups and user ids are. The same place gets the same
    control group.
    """

    base: str
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
    seconds: int


def run(setup: ImageSetup, given_up: Callable[[], bool] = lambda: False) -> str:
    """Set an image up; what its program said. Needs root; raises `EnvironmentBuildFailed` with that when it failed.

    `given_up` is asked again and again whether this is still wanted.
    """
    apart = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    child = subprocess.Popen(
        [*apart, sys.executable, "-m", __name__],
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


def _kill_when_given_up(child: subprocess.Popen[bytes], given_up: Callable[[], bool], ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):
        if given_up():
            child.kill()
            return


def main() -> None:
    """The child: PID 1 of its own processes, with mounts of its own."""
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
    place, settings = Path(setup.place), setup.settings
    name = str(uuid.uuid5(uuid.NAMESPACE_URL, setup.place))
    place.mkdir(mode=0o711)
    cgroups = Cgroups(HostPlaces(settings).cgroup)
    cgroups.remove(name)  # of a build that was killed, of which nothing else is left
    state = place / "state"
    command = OciCommand(setup.runtime, state, unified=cgroups.unused_unified, deadline_seconds=setup.seconds)
    uids = UidRanges(
        settings.run_directory / "uids", base=settings.uid_base, count=settings.uid_ranges, first_id=read_uid_base
    )
    uid = uids.claim(place)
    try:
        return _run(setup, command, cgroups, name, uid)
    finally:
        command.delete(name)
        cgroups.remove(name)
        cgroups.remove_parent()
        uids.release(uid, place)


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
        config = _make_config(setup, places, cgroups)
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


def _make_config(setup: ImageSetup, places: bundle.SetupPlaces, cgroups: Cgroups) -> dict[str, Any]:
    return bundle.setup_config(
        places,
        setup.command,
        setup.variables,
        memory_bytes=setup.memory_bytes,
        pids=setup.pids,
        machine=platform.machine(),
        swap=cgroups.limits_swap(),
    )


if __name__ == "__main__":
    main()
