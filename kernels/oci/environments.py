"""Environments on disk: builds a recipe into a read-only root file system and finds those that are built.

Layout below the environments directory: `<name>/<digest>/root` and `<name>/<digest>/environment.json`, and the link
`<name>/current` that names the newest. A build appears all at once (it is renamed into place) or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed, UnknownEnvironment
from kernels.oci import recipe as recipes
from kernels.oci.downloads import Downloads, Pin, read_pins
from kernels.oci.recipe import Recipe

Progress = Callable[[str], None]

_STEP_SECONDS: Final = 3600
_SAY_SECONDS: Final = 5.0
DOWNLOADS: Final = ".cache"
"""The folder beside the builds of one image that has what they fetched."""
MANYLINUX: Final = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014")
"""Platforms of wheels that fit every image, the newest first."""
_PIP_AT_ONCE: Final = 20
"""Packages of one pip; what it has fetched is kept when it ends, so a build that is cut off loses that many at most."""
_LEFT_OUT: Final = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


def find_installed(directory: Path) -> dict[str, Environment]:
    """Every built environment, by name."""
    found = {}
    for path in sorted(directory.glob("*/current/environment.json")):
        try:
            environment = _read_environment(path.resolve())
        except (OSError, ValueError, KeyError):
            continue  # a build that is being replaced
        found[environment.name] = environment
    return found


def stamp(directory: Path) -> tuple[tuple[object, ...], ...]:
    """Changes when what `find_installed` finds does, and is had in a tenth of its time."""
    found = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                current = Path(entry.path, "current")
                status = (current / "environment.json").stat()
                found.append((entry.name, str(current.readlink()), status.st_dev, status.st_ino, status.st_ctime_ns))
    return tuple(sorted(found))


def find(directory: Path, image: str, digest: str) -> Environment:
    """The build of an image that has this digest, also one that a newer build has replaced.

    The names are taken as they are: the caller has checked that they are names. Raises `UnknownEnvironment`.
    """
    # An image that was adopted is a link from its digest to where it was unpacked.
    try:
        found = _read_environment((locate(directory, image, digest) / "environment.json").resolve())
    except (OSError, ValueError, KeyError, TypeError):
        raise UnknownEnvironment(f"no image {image} of digest {digest} is built") from None
    if found.digest != digest or not Path(found.root).is_relative_to((directory / image).resolve()):
        raise UnknownEnvironment(f"no image {image} of digest {digest} is built")
    return found


def build(name: str, directory: Path, progress: Progress, *, variables: Mapping[str, str]) -> Environment:
    """Build the recipe `name`, or find that it is built already; says each step through `progress`.

    `variables` is the environment of the package tools (proxies, package indexes). Needs root. Raises
    `UnknownEnvironment` and `EnvironmentBuildFailed`.
    """
    recipe = recipes.read(name)
    target = locate(directory, name, recipe.digest)
    with building(directory / name):
        if not (target / "environment.json").exists():
            _require_tools()
            _build(recipe, target, progress, variables)
        point(target.parent / "current", target.name)
    return _read_environment(target / "environment.json")


def adopt(name: str, root: Path) -> Environment:
    """Register `root`, which was unpacked by other means from the recipe `name` (an image build), as its build.

    `root` is `<environments directory>/<name>/<any>/root`. Raises `UnknownEnvironment`.
    """
    recipe = recipes.read(name)
    _declare_recipe(root.parent, recipe)
    by_digest = locate(root.parents[2], name, recipe.digest)
    point(by_digest, root.parent.name)
    point(root.parent.parent / "current", by_digest.name)
    return _read_environment(root.parent / "environment.json")


def _read_environment(path: Path) -> Environment:
    declared = json.loads(path.read_text())
    return Environment(
        name=declared["name"],
        root=str(path.parent / "root"),
        digest=declared["digest"],
        description=declared["description"],
        python=declared["python"],
        image=declared["name"],
        variables=tuple(sorted(declared.get("variables", {}).items())),
    )


def _build(recipe: Recipe, target: Path, progress: Progress, variables: Mapping[str, str]) -> None:
    started = time.monotonic()
    downloads = Downloads(target.parent / DOWNLOADS)
    downloads.prepare()
    _require_space(recipe, target, progress)
    with stage(target) as unfinished:
        root, log = unfinished / "root", unfinished / "build.log"
        progress(f"1/4 {recipe.suite}: a minimal Debian with {_few(recipe.packages)}")
        bootstrap = _bootstrap(recipe, root, downloads.debs)
        _run(_Step("mmdebstrap", bootstrap, progress, tell=tell_of_mmdebstrap), log, variables)
        pins = read_pins(recipe.requirements.read_text())
        _fetch_wheels(recipe, pins, downloads, _Log(log, progress, variables))
        progress(f"3/4 installing {len(pins)} Python packages")
        # Below the target, so that pip moves what it has unpacked without copying it.
        (temporary := unfinished / "temporary").mkdir()
        _run(_Step("pip", _install(recipe, root, downloads), progress), log, {**variables, "TMPDIR": str(temporary)})
        temporary.rmdir()
        progress("4/4 compiling, fonts, the user")
        for script in recipe.finish:
            finish = _Step(script.name, _finish(root), progress, stdin=script)
            _run(finish, log, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        downloaded = downloads.keep_only(pins, root)
        _declare_recipe(unfinished, recipe)
    seconds, size = time.monotonic() - started, measure_size(target)
    (target / "sizes.json").write_text(json.dumps({"download_bytes": downloaded, "disk_bytes": size}))
    progress(f"environment {recipe.name} built in {seconds:.0f} s: {megabytes(size)}")


def _require_space(recipe: Recipe, target: Path, progress: Progress) -> None:
    """Say how large it will be, as the last recorded build of the recipe was; refuse where it cannot fit."""
    if not (sizes := recipe.sizes):
        return
    downloads, disk = megabytes(sizes.download_bytes), megabytes(sizes.disk_bytes)
    progress(
        f"{recipe.name}: about {downloads} to download, less what an earlier build has fetched, and {disk} of disk"
    )
    free = shutil.disk_usage(target.parent).free
    if free < sizes.disk_bytes:
        raise EnvironmentBuildFailed(
            f"{target.parent} has {megabytes(free)} of disk left, and {recipe.name} takes {disk}, and {downloads} of"
            " downloads: make room, or name a larger place in the setting environments_dir"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:4])} and {len(names) - 4} more packages"


def _fetch_wheels(recipe: Recipe, pins: list[Pin], downloads: Downloads, into: _Log) -> None:
    missing = downloads.find_missing(pins)
    into.progress(f"2/4 fetching {len(missing)} of {len(pins)} Python packages" if missing else "2/4 nothing to fetch")
    with tempfile.TemporaryDirectory(prefix="sandcell-") as place:
        some = Path(place, "some.txt")
        for done in range(0, len(missing), _PIP_AT_ONCE):
            some.write_text("\n".join(pin.text for pin in missing[done : done + _PIP_AT_ONCE]) + "\n")
            tell = functools.partial(tell_of_pip, packages=len(missing), before=done)
            step = _Step("pip", _download(recipe, some, downloads), into.progress, tell=tell)
            _run(step, into.path, into.variables)


def _declare_recipe(build: Path, recipe: Recipe) -> None:
    declare(build, name=recipe.name, digest=recipe.digest, description=recipe.description, python=recipe.python)


def _bootstrap(recipe: Recipe, root: Path, debs: Path) -> list[str]:
    leave_out = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    include = f"--include={','.join(recipe.packages)}"
    # A `#` in an apt option keeps translated package descriptions away; recommends are never wanted.
    options = ["--aptopt=APT::Install-Recommends false", '--aptopt=Acquire::Languages "none"']
    # apt finds there what an earlier build has fetched, and leaves what it fetches: mmdebstrap would remove both.
    archives = '"$1/var/cache/apt/archives"'
    keep = [
        "--skip=download/empty,essential/unlink",
        f"--setup-hook=mkdir -p {archives} && mount --bind {shlex.quote(str(debs.resolve()))} {archives}",
        f"--customize-hook=umount {archives}",
    ]
    return _apart("mmdebstrap", "--variant=minbase", include, *leave_out, *options, *keep, recipe.suite, str(root))


def _download(recipe: Recipe, requirements: Path, downloads: Downloads) -> list[str]:
    """pip of the service's own Python, told to fetch wheels for the image's."""
    return [
        *_pip(recipe, "download", requirements),
        f"--dest={downloads.wheels}",
        *("--no-cache-dir", "--progress-bar=off"),
    ]


def _install(recipe: Recipe, root: Path, downloads: Downloads) -> list[str]:
    site = root / f"usr/local/lib/python{recipe.python_version}/dist-packages"
    return [
        *_pip(recipe, "install", recipe.requirements),
        *("--no-compile", "--root-user-action=ignore", "--no-index", f"--find-links={downloads.wheels}"),
        # Versions of pip before 23.3 ask here whether packages are for their own Python; the lock is of the image's.
        "--ignore-requires-python",
        f"--target={site}",
    ]


def _pip(recipe: Recipe, verb: str, requirements: Path) -> list[str]:
    platforms = [f"--platform={tag}_{platform.machine()}" for tag in MANYLINUX]
    wanted = ["--only-binary=:all:", f"--python-version={recipe.python_version}", *platforms]
    locked = ["--no-deps", "--require-hashes", f"--requirement={requirements}"]
    return [sys.executable, "-I", "-m", "pip", verb, *locked, *wanted]


def _finish(root: Path) -> list[str]:
    return _apart("--net", "--ipc", "--uts", "chroot", str(root), "/bin/sh")


def _apart(*command: str) -> list[str]:
    """A command whose mounts and processes end with it, however it ends: what is cleared away then is only ours."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *command]


def _run(step: _Step, log: Path, variables: Mapping[str, str]) -> None:
    """Run a step of a build; says every few seconds how long it takes, how much there is and what it does."""
    started = time.monotonic()
    with log.open("ab") as output, (step.stdin or Path(os.devnull)).open("rb") as source:
        begun = output.tell()
        child = subprocess.Popen(step.command, stdin=source, stdout=output, stderr=output, env=dict(variables))
        try:
            while (status := _wait(child, _SAY_SECONDS)) is None:
                seconds = time.monotonic() - started
                if seconds > _STEP_SECONDS:
                    raise EnvironmentBuildFailed(f"{step.name} did not end in {_STEP_SECONDS} s; see the network")
                with log.open("rb") as written:
                    written.seek(begun)
                    doing = step.tell(written.read().decode(errors="replace"))
                size = megabytes(measure_size(log.parent))
                step.progress(f"    {seconds:.0f} s, {size} so far{', ' if doing else ''}{doing}")
        finally:
            if child.poll() is None:  # the process that keeps its mounts apart takes all of them along
                child.kill()
                child.wait()
    if status != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise EnvironmentBuildFailed(f"{step.name} failed with exit status {status}:\n{last}")


class _Step(msgspec.Struct, frozen=True):
    """One command of a build; `tell` makes of what it has written what it does, in a few words."""

    name: str
    command: list[str]
    progress: Progress
    stdin: Path | None = None
    tell: Callable[[str], str] = lambda _: ""


class _Log(msgspec.Struct, frozen=True):
    """Where the steps of a build write, and what they run with."""

    path: Path
    progress: Progress
    variables: Mapping[str, str]


def tell_of_mmdebstrap(written: str) -> str:
    """Its last word on what it does."""
    said = re.findall(r"^I: (.+)$", written, re.MULTILINE)
    return said[-1][:80].rstrip(".") if said else ""


def tell_of_pip(written: str, packages: int, before: int = 0) -> str:
    """How many of the packages it has come to, those of pips before it included."""
    return f"package {before + written.count('Collecting ')} of {packages}"


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1_000_000:,.0f} MB"


def _wait(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.wait(seconds)
    return None


def measure_size(directory: Path) -> int:
    """What lies below a directory, in bytes; what goes away meanwhile counts nothing."""
    size = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - tens of thousands of files
    return size


def _require_tools() -> None:
    missing = [tool for tool in ("mmdebstrap", "unshare", "chroot") if shutil.which(tool) is None]
    if missing:
        raise EnvironmentBuildFailed(
            f"missing: {', '.join(missing)}; install mmdebstrap, debian-archive-keyring, util-linux"
        )
    if os.geteuid() != 0:
        raise EnvironmentBuildFailed("building an environment makes a root file system: run it as root (sudo)")


def locate(directory: Path, name: str, digest: str) -> Path:
    """The place of a build, below the environments directory."""
    return directory / name / digest.replace(":", "-")


def declare(build: Path, *, name: str, digest: str, description: str, python: str, **more: Any) -> None:
    """Write what a build is, with what else is known of it; with this file it counts as complete."""
    declared = {"name": name, "digest": digest, "description": description, "python": python, **more}
    (build / "environment.json").write_text(json.dumps(declared))


@contextlib.contextmanager
def stage(target: Path) -> Iterator[Path]:
    """A directory next to `target` that is renamed to it when the block ends, and removed when the block fails.

    Unless the block has renamed it itself, which it does when only what is in it says how it is called.
    """
    unfinished = target.with_name(f".{target.name}")
    remove_tree(unfinished)  # of a process that was killed
    unfinished.mkdir()
    try:
        yield unfinished
        if unfinished.exists():
            unfinished.rename(target)
    except BaseException:
        remove_tree(unfinished)
        raise


def remove_tree(place: Path) -> None:
    """Remove a directory and all below it, also of a hostile image; what is mounted there stays."""
    # Not `shutil.rmtree`, which gives up on trees that are deeper than its recursion and its descriptors reach.
    subprocess.run(["rm", "-rf", "--one-file-system", "--", str(place)], capture_output=True, check=False)


def point(link: Path, target: str) -> None:
    """Make a link to `target`, in the place of what is there: a reader finds the former link or the new one."""
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


@contextlib.contextmanager
def building(directory: Path) -> Iterator[None]:
    """One build of an environment at a time on this host; what is made meanwhile can be changed by its owner alone."""
    mask = os.umask(0o022)  # sudo-rs hands on the user's, and the launcher takes no image that others can change
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for each in (directory, directory.parent):
            each.chmod(each.stat().st_mode & 0o7755)
        with (directory / ".lock").open("a") as lock:
            os.fchmod(lock.fileno(), 0o600)  # who may read it may hold its lock
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    finally:
        os.umask(mask)
