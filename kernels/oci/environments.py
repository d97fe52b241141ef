"""Environments on disk: builds a recipe into a read-only root file system and finds those that are built.

Layout below the environments directory: `<name>/<digest>/root` and `<name>/<digest>/environment.json`, and the link
`<name>/current` that names the newest. A build appears all at once (it is renamed into place) or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed, UnknownEnvironment
from kernels.oci import recipe as recipes
from kernels.oci.recipe import Recipe

Progress = Callable[[str], None]

_STEP_SECONDS: Final = 1800
_MANYLINUX: Final = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014")
_LEFT_OUT: Final = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


def installed(directory: Path) -> dict[str, Environment]:
    """Every built environment, by name."""
    found = {}
    for path in sorted(directory.glob("*/current/environment.json")):
        try:
            environment = _environment(path.resolve())
        except (OSError, ValueError, KeyError):
            continue  # a build that is being replaced
        found[environment.name] = environment
    return found


def find(directory: Path, image: str, digest: str) -> Environment:
    """The build of an image that has this digest, also one that a newer build has replaced.

    The names are taken as they are: the caller has checked that they are names. Raises `UnknownEnvironment`.
    """
    # An image that was adopted is a link from its digest to where it was unpacked.
    try:
        found = _environment((directory / image / digest.replace(":", "-") / "environment.json").resolve())
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
    target = directory / name / _folder(recipe)
    with _building(directory / name):
        if not (target / "environment.json").exists():
            _require_tools()
            _build(recipe, target, progress, variables)
        _point(target.parent / "current", target.name)
    return _environment(target / "environment.json")


def adopt(name: str, root: Path) -> Environment:
    """Register `root`, which was unpacked by other means from the recipe `name` (an image build), as its build.

    `root` is `<environments directory>/<name>/<any>/root`. Raises `UnknownEnvironment`.
    """
    recipe = recipes.read(name)
    _declare(recipe, root.parent)
    by_digest = root.parent.with_name(_folder(recipe))
    _point(by_digest, root.parent.name)
    _point(root.parent.parent / "current", by_digest.name)
    return _environment(root.parent / "environment.json")


def _environment(path: Path) -> Environment:
    declared = json.loads(path.read_text())
    return Environment(
        name=declared["name"],
        root=str(path.parent / "root"),
        digest=declared["digest"],
        description=declared["description"],
        python=declared["python"],
        image=declared["name"],
    )


def _build(recipe: Recipe, target: Path, progress: Progress, variables: Mapping[str, str]) -> None:
    unfinished = target.with_name(f".{target.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    root = unfinished / "root"
    unfinished.mkdir()
    log = unfinished / "build.log"
    started = time.monotonic()
    try:
        progress(f"1/3 {recipe.suite}: a minimal Debian with {', '.join(recipe.packages)}")
        _run("mmdebstrap", _bootstrap(recipe, root), log, variables)
        progress("2/3 Python packages")
        _run("pip", _install(recipe, root), log, variables)
        progress("3/3 compiling, fonts, the user")
        _run("finish.sh", _finish(root), log, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, stdin=recipe.finish)
        _declare(recipe, unfinished)
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    progress(f"environment {recipe.name} built in {time.monotonic() - started:.0f} s")


def _declare(recipe: Recipe, build: Path) -> None:
    declared = {name: getattr(recipe, name) for name in ("name", "digest", "description", "python")}
    (build / "environment.json").write_text(json.dumps(declared))


def _folder(recipe: Recipe) -> str:
    return recipe.digest.replace(":", "-")


def _bootstrap(recipe: Recipe, root: Path) -> list[str]:
    leave_out = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    include = f"--include={','.join(recipe.packages)}"
    # A `#` in an apt option keeps translated package descriptions away; recommends are never wanted.
    options = ["--aptopt=APT::Install-Recommends false", '--aptopt=Acquire::Languages "none"']
    return _apart("mmdebstrap", "--variant=minbase", include, *leave_out, *options, recipe.suite, str(root))


def _install(recipe: Recipe, root: Path) -> list[str]:
    """pip of the service's own Python, told to fetch wheels for the image's."""
    site = root / f"usr/local/lib/python{recipe.python_version}/dist-packages"
    platforms = [f"--platform={tag}_{platform.machine()}" for tag in _MANYLINUX]
    wanted = ["--only-binary=:all:", f"--python-version={recipe.python_version}", *platforms]
    command = [sys.executable, "-m", "pip", "install", "--no-compile", "--no-deps", "--require-hashes"]
    return [
        *command,
        "--root-user-action=ignore",
        *wanted,
        f"--target={site}",
        "--requirement",
        str(recipe.requirements),
    ]


def _finish(root: Path) -> list[str]:
    return _apart("--net", "--ipc", "--uts", "chroot", str(root), "/bin/sh")


def _apart(*command: str) -> list[str]:
    """A command whose mounts and processes end with it, however it ends: what is cleared away then is only ours."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *command]


def _run(step: str, command: list[str], log: Path, variables: Mapping[str, str], *, stdin: Path | None = None) -> None:
    with log.open("ab") as output, (stdin or Path(os.devnull)).open("rb") as source:
        try:
            done = subprocess.run(
                command,
                stdin=source,
                stdout=output,
                stderr=output,
                env=dict(variables),
                timeout=_STEP_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EnvironmentBuildFailed(f"{step} did not end in {_STEP_SECONDS} s; see the network") from None
    if done.returncode != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise EnvironmentBuildFailed(f"{step} failed with exit status {done.returncode}:\n{last}")


def _require_tools() -> None:
    missing = [tool for tool in ("mmdebstrap", "unshare", "chroot") if shutil.which(tool) is None]
    if missing:
        raise EnvironmentBuildFailed(
            f"missing: {', '.join(missing)}; install mmdebstrap, debian-archive-keyring, util-linux"
        )
    if os.geteuid() != 0:
        raise EnvironmentBuildFailed("building an environment makes a root file system: run it as root (sudo)")


def _point(link: Path, target: str) -> None:
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


@contextlib.contextmanager
def _building(directory: Path) -> Iterator[None]:
    """One build of an environment at a time on this host."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("a") as lock:
        os.fchmod(lock.fileno(), 0o600)  # who may read it may hold its lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
