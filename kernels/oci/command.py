"""The OCI command line: what each runtime needs, and one way to call them.

runc, crun and runsc (gVisor) take the same bundle; what differs between them is an `OciProgram`, not a branch in the
code. `docs/reference/runtimes.md` says why each difference is there. Other distributions add programs of their own by
entry point (`kernels.installed_runtimes`).
"""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from kernels import installed_runtimes
from kernels.errors import RuntimeUnusable, SandboxFailed
from kernels.oci import bundle
from kernels.oci.namespaces import apart

_ERROR_BYTES: Final = 2000
_QUESTION_SECONDS: Final = 10
_SOURCES: Final = "sources.json"
"""In a bundle: the host paths that the runtime has to find behind `apart.PLACE`."""


@dataclass(frozen=True)
class OciProgram:
    """An OCI runtime's executable and how it spells what we ask of it; `always` goes before the verb.

    `platforms` are gVisor's ways to intercept system calls, the first that the build has is taken: a runtime that has
    some brings a kernel of its own. Systrap comes last: where the host kills one of its processes for want of memory,
    gVisor (20240729) waits for that one for ever. `if_known` are flags given to builds that have them,
    `checkpoint_if_known` those of its verb `checkpoint`, by which it saves and restores sooner. `mapped` runtimes reach
    what the bundle binds as the sandbox's root, and need a way to it. `top` runtimes take a relative group of cgroup v1
    for one below the topmost. `unified_apart` runtimes must not see the empty v2 hierarchy of a hybrid host. `one_proc`
    runtimes mount proc nowhere but at the top.
    """

    program: str
    always: tuple[str, ...] = ()
    run: tuple[str, ...] = ("run", "--detach")
    delete: tuple[str, ...] = ("delete", "--force")
    platforms: tuple[str, ...] = ()
    if_known: tuple[str, ...] = ()
    checkpoint_if_known: tuple[str, ...] = ()
    mapped: bool = False
    top: bool = False
    unified_apart: bool = False
    one_proc: bool = False


RUNC: Final = OciProgram("runc")
CRUN: Final = OciProgram("crun", top=True, unified_apart=True, one_proc=True)
RUNSC: Final = OciProgram(
    "runsc",
    always=(
        "--network=none",
        "--host-uds=all",
        "--oci-seccomp",
        "--overlay2=none",
        "--file-access-mounts=shared",
        "--cpu-num-from-quota",
    ),
    platforms=("ptrace", "systrap"),
    if_known=("--directfs=false",),
    checkpoint_if_known=("--compression=none", "--exclude-committed-zero-pages"),
    mapped=True,
)
# The three that the tests hold to the whole profile.


def find_program(name: str) -> OciProgram:
    """The OCI program that is installed under this name; raises `RuntimeUnusable`."""
    found = installed_runtimes.find(name)
    if not isinstance(found, OciProgram):
        raise RuntimeUnusable(f"the runtime {name!r} is no OCI program; it cannot run with others in one service")
    return found


class OciCommand:
    """Calls one runtime; blocking, each call with a deadline. `unified` is where a hybrid host has its cgroup v2."""

    def __init__(
        self, name: str, state_directory: Path, *, unified: Path | None = None, deadline_seconds: float = 30
    ) -> None:
        self.name = name
        self._program = find_program(name)
        self._state_directory = state_directory
        self._unified = unified if self._program.unified_apart else None
        self._deadline_seconds = deadline_seconds

    @property
    def program(self) -> str:
        """The name of the executable, as looked up on PATH."""
        return self._program.program

    @property
    def own_kernel(self) -> bool:
        """Whether sandboxes get a kernel of their own (gVisor's) instead of the host's."""
        return bool(self._program.platforms)

    @property
    def groups_at_top(self) -> bool:
        """Whether sandboxes' groups lie below the topmost one of cgroup v1, not below the service's."""
        return self._program.top

    def version(self) -> str | None:
        """First line of `--version`, or None when the program is missing or does not answer."""
        answer = self._ask("--version")
        return answer.splitlines()[0] if answer else None

    @functools.cached_property
    def options(self) -> tuple[str, ...]:
        """What goes before every verb: the row's flags and those that depend on the build.

        Raises `RuntimeUnusable` when the build has no platform that is known to hold.
        """
        if not self.own_kernel:
            return self._program.always
        offered = self._ask("help", "platforms").split()
        platform = next((one for one in self._program.platforms if one in offered), None)
        if platform is None:
            raise RuntimeUnusable(
                f"{self.program} offers the platforms {', '.join(offered) or '(none)'}; needed is one of:"
                f" {', '.join(self._program.platforms)}"
            )
        known = self._ask("flags").split()
        if not known:  # without them a flag that closes something would be left out unsaid
            raise RuntimeUnusable(f"{self.program} does not say which flags it has; see whether `runsc flags` answers")
        return (f"--platform={platform}", *self._program.always, *_choose_known(self._program.if_known, known))

    @functools.cached_property
    def _checkpoint_options(self) -> tuple[str, ...]:
        return _choose_known(self._program.checkpoint_if_known, self._ask("help", "checkpoint").split())

    def require(self) -> None:
        """Raise `RuntimeUnusable` when the program is not there, or is a build that cannot do what is needed."""
        if shutil.which(self.program) is None:
            raise RuntimeUnusable(f"{self.program} is not installed; install the package {self.program}")
        _ = self.options

    def run(self, sandbox_id: str, config: dict[str, Any], directory: Path, log: Path) -> None:
        """Write the bundle to `directory`, start it detached; output goes to `log`, PID 1 to the bundle's file `pid`.

        Raises `SandboxFailed` with what the runtime said.
        """
        image = "" if self.own_kernel else config["root"]["path"]
        config, sources = self._adapt(config)
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(config))
        if self.own_kernel:  # which can be restored, in this bundle
            (directory / _SOURCES).write_text(json.dumps(sources))
        run = (*self._program.run, "--pid-file", str(directory / "pid"), "--bundle", str(directory), sandbox_id)
        with log.open("ab") as output:
            self._call(*run, image=image, sources=sources, output=output)

    def run_to_end(self, sandbox_id: str, config: dict[str, Any], directory: Path, log: Path) -> None:
        """Run a container whose root can be written to, and wait for its end, within this command's deadline.

        What it says goes to `log`. Raises `SandboxFailed` with the end of that when it fails.
        """
        if self._program.top:
            config = _put_group_at_top(config)
        limits: dict[str, int] = {}
        if self.own_kernel:
            config = bundle.with_kernel_of_its_own(config)
        else:
            config, limits = bundle.without_limits_of_processes(config)
        config, sources = bundle.rebase(config, apart.PLACE)
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(config))
        with log.open("ab") as output:
            run = ("run", "--bundle", str(directory), sandbox_id)
            self._call(*run, sources=sources, output=output, limits=limits)

    def may_restore(self, directory: Path) -> bool:
        """Whether what `run` has made in this directory can be saved, and restored."""
        return self.own_kernel and (directory / _SOURCES).exists()

    def checkpoint(self, sandbox_id: str, image: Path, log: Path, seconds: float) -> None:
        """Write all of a container to files in `image` and end it, gVisor's alone. Raises `SandboxFailed`."""
        checkpoint = ("checkpoint", *self._checkpoint_options, "--image-path", str(image), sandbox_id)
        with log.open("ab") as output:
            self._call(*checkpoint, output=output, seconds=seconds)

    def restore(self, sandbox_id: str, directory: Path, image: Path, log: Path, seconds: float) -> None:
        """Start a container as `run` has made it in `directory`, with what `checkpoint` has written. As `run`."""
        sources = json.loads((directory / _SOURCES).read_text())
        where = ("--pid-file", str(directory / "pid"), "--bundle", str(directory))
        with log.open("ab") as output:
            restore = ("restore", "--detach", "--image-path", str(image), *where, sandbox_id)
            self._call(*restore, sources=sources, output=output, seconds=seconds)

    def delete(self, sandbox_id: str) -> None:
        """Kill and forget the container; absent is fine."""
        with tempfile.TemporaryFile() as output:
            self._call(*self._program.delete, sandbox_id, output=output)

    def _adapt(self, config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The bundle as this runtime has to be given it, and the host paths that it must find behind `apart.PLACE`."""
        if self._program.top:
            config = _put_group_at_top(config)
        if self.own_kernel:
            config = bundle.with_kernel_of_its_own(config)
        if self._program.one_proc:
            config = bundle.without_guest_proc(config)
        if not self.own_kernel:
            return bundle.with_own_views(config, apart.IMAGE, apart.PLACE)
        return bundle.rebase(config, apart.PLACE) if self._program.mapped else (config, [])

    def _ask(self, *question: str) -> str:
        """What the program says to a harmless question; nothing when it is missing or does not answer."""
        path = shutil.which(self.program)
        if path is None:
            return ""
        try:
            done = subprocess.run(
                [path, *question], capture_output=True, text=True, timeout=_QUESTION_SECONDS, check=False
            )
        except (subprocess.TimeoutExpired, OSError):
            return ""
        return done.stdout + done.stderr if done.returncode == 0 else ""

    def _call(
        self,
        *arguments: str,
        output: IO[bytes],
        image: str = "",
        sources: Sequence[str] = (),
        limits: Mapping[str, int] | None = None,
        seconds: float | None = None,
    ) -> None:
        seconds = self._deadline_seconds if seconds is None else seconds
        self.require()
        program = shutil.which(self.program) or self.program  # not by the child's PATH: what was asked for its flags
        command = [*_limit(limits or {}), program, "--root", str(self._state_directory), *self.options, *arguments]
        try:
            status = apart.call(
                lambda: _run(command, output, seconds),
                unmounted=self._unified,
                image=image,
                reachable=sources,
            )
        except OSError as error:  # no process or descriptor is left on the host, or a mount is refused
            raise SandboxFailed(f"{self.program} {arguments[0]} failed before it was started: {error}") from None
        except subprocess.TimeoutExpired:
            raise SandboxFailed(f"{self.program} {arguments[0]} did not end in {seconds:g} s") from None
        if status != 0:
            raise SandboxFailed(f"{self.program} {arguments[0]} failed: {_read_tail(output).strip() or status}")


def _choose_known(flags: tuple[str, ...], said: list[str]) -> tuple[str, ...]:
    """Those of the flags that a build has, by the words of its help, which names each with one dash."""
    return tuple(flag for flag in flags if flag.partition("=")[0].removeprefix("-") in said)


def _put_group_at_top(config: dict[str, Any]) -> dict[str, Any]:
    group = config["linux"]["cgroupsPath"].lstrip("/")
    return {**config, "linux": {**config["linux"], "cgroupsPath": f"/{group}"}}


def _limit(limits: Mapping[str, int]) -> list[str]:
    """What goes before a command that is to be limited, with all that it starts."""
    words = [f"--{name.removeprefix('RLIMIT_').lower()}={most}:{most}" for name, most in limits.items()]
    return ["prlimit", *words, "--"] if words else []


def _run(command: Sequence[str], output: IO[bytes], seconds: float) -> int:
    """The exit status of a command that writes to a file; raises `TimeoutExpired` once it is killed at its deadline."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # not the host's null device, of which runsc makes the sandbox's user the owner
        start_new_session=True,  # Ctrl-C in a terminal is for the service, not for what it calls
        stdout=output,
        stderr=subprocess.STDOUT,
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    with child:
        try:
            cast("IO[bytes]", child.stdin).close()
            _await_end(child, seconds)
        except BaseException:
            child.kill()
            raise
    return child.returncode


def _await_end(child: subprocess.Popen[bytes], seconds: float) -> None:
    # `child.wait(seconds)` polls, with pauses of up to 50 ms: each start of a sandbox would take that much longer.
    descriptor = os.pidfd_open(child.pid)
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        if not ended.poll(seconds * 1000):
            raise subprocess.TimeoutExpired(child.args, seconds)
    finally:
        os.close(descriptor)


def _read_tail(file: IO[bytes]) -> str:
    """The end of what was written to an open file, at a position of its own: a sandbox may hold the file as well."""
    with Path(f"/proc/self/fd/{file.fileno()}").open("rb") as written:
        written.seek(max(0, os.fstat(file.fileno()).st_size - _ERROR_BYTES))
        return written.read(_ERROR_BYTES).decode(errors="replace")
