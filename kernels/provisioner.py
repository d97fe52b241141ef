"""`sandcell-provisioner`: a kernel provisioner of jupyter_client that starts its kernel in a sandbox on this host.

For programs that run kernels of their own (nbclient, papermill, a Jupyter server): the kernelspec `sandcell-python`,
which `sandcell kernelspec install` writes, names it. The sandbox is held by a process next to the program
(`kernels.keeper`), which removes it when the kernel manager is done and also when the program dies.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, Final

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Float, Integer, Unicode

from kernels.errors import RuntimeUnusable
from kernels.keeper.caller import KeptSandbox
from kernels.keeper.wire import LaunchRequest, Report

PROVISIONER: Final = "sandcell-provisioner"
KERNELSPEC: Final = "sandcell-python"
_POLL_SECONDS: Final = 0.05


class SandcellProvisioner(KernelProvisionerBase):
    """One kernel in one sandbox. The traits are the service's settings of the same names, as the kernelspec has them.

    A restart is a blank kernel in the same sandbox: the files in /workspace stay. Nothing of the host is in it, neither
    the program's working directory nor its environment variables, and it reaches no network.
    """

    environment = Unicode("python", help="which built environment").tag(config=True)
    environments_directory = Unicode("", help="where built environments lie").tag(config=True)
    data_directory = Unicode("", help="directory of the sandboxes made here").tag(config=True)
    run_directory = Unicode("/run/sandcell", help="short directory for sockets").tag(config=True)
    runtime = Unicode("runc", help="sandbox runtime").tag(config=True)
    memory_mb = Integer(2048, help="memory of a sandbox").tag(config=True)
    storage_mb = Integer(512, help="disk of a sandbox").tag(config=True)
    pids = Integer(512, help="processes of a sandbox").tag(config=True)
    uid_base = Integer(1_200_000_000, help="first host uid given to sandboxes").tag(config=True)
    uid_ranges = Integer(4096, help="ranges of host uids").tag(config=True)
    cgroup_parent = Unicode("sandcell", help="first part of the name of the sandboxes' cgroup").tag(config=True)
    start_seconds = Float(90.0, help="time a sandbox and its kernel have to start").tag(config=True)

    _sandbox: KeptSandbox | None = None
    _running = False

    @property
    def has_process(self) -> bool:
        """Whether there is a kernel whose end has not been waited for yet."""
        return self._running

    async def poll(self) -> int | None:
        """None while the kernel runs, else its exit code."""
        return 0 if self._sandbox is None else self._sandbox.exit_code

    async def wait(self) -> int | None:
        """Wait for the end of the kernel, which the kernel manager has asked for."""
        while self._running:
            code = await self.poll()
            if code is not None:
                self._running = False
                return code
            await asyncio.sleep(_POLL_SECONDS)
        return None

    async def send_signal(self, signum: int) -> None:
        """SIGINT interrupts what runs; SIGKILL and SIGTERM end the kernel; others have no way in."""
        if self._sandbox is None:
            return
        if signum == signal.SIGINT:
            self._sandbox.ask("interrupt")
        elif signum in (signal.SIGKILL, signal.SIGTERM):
            self._sandbox.ask("kill")
        elif signum:
            self.log.warning("a kernel in a sandbox cannot be sent signal %s", signum)

    async def kill(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the contract
        await self.send_signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002
        await self.send_signal(signal.SIGTERM)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Nothing to prepare: what the kernel is started with is the sandbox's own matter."""
        return {**await super().pre_launch(**kwargs), "cmd": [KERNELSPEC]}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Make the sandbox, or start the next kernel in it; where the kernel listens.

        Raises `KernelsError` with a sentence that says what is missing.
        """
        require_root()
        if self._sandbox is not None and self._sandbox.ended:
            await self.cleanup()
        report = await asyncio.to_thread(self._launch)
        self._running = True
        self.connection_info = connection_info(report)
        return self.connection_info

    async def cleanup(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002
        """Remove the sandbox, unless the next kernel is to start in it."""
        if restart or self._sandbox is None:
            return
        sandbox, self._sandbox, self._running = self._sandbox, None, False
        if not await asyncio.to_thread(sandbox.end):
            self.log.warning("the sandbox is not removed yet; its keeper goes on with that")

    def _launch(self) -> Report:
        if self._sandbox is not None:
            return self._sandbox.next_kernel(self.start_seconds)
        sandbox = KeptSandbox(self._order())
        try:
            report = sandbox.await_start(1, self.start_seconds)
        except BaseException:
            sandbox.end()
            raise
        self._sandbox = sandbox
        return report

    def _order(self) -> LaunchRequest:
        if not self.data_directory or not self.environments_directory:
            raise RuntimeUnusable(
                "the kernelspec does not say where environments and sandboxes lie;"
                " write it again: sandcell kernelspec install"
            )
        return LaunchRequest(
            environment=self.environment,
            environments_directory=self.environments_directory,
            data_directory=self.data_directory,
            run_directory=self.run_directory,
            runtime=self.runtime,
            memory_mb=self.memory_mb,
            storage_mb=self.storage_mb,
            pids=self.pids,
            uid_base=self.uid_base,
            uid_ranges=self.uid_ranges,
            cgroup_parent=self.cgroup_parent,
        )


def require_root() -> None:
    """Raise `RuntimeUnusable` for a user who cannot make sandboxes."""
    if os.geteuid() != 0:
        raise RuntimeUnusable(
            f"the kernel {KERNELSPEC} makes a sandbox on this host, which takes root: run this program as root (sudo),"
            " or use a session of a running service instead: sandcell attach"
        )


def connection_info(report: Report) -> KernelConnectionInfo:
    """What a connection file says of this kernel."""
    return {
        "transport": "ipc",
        "ip": report.sockets,
        "shell_port": 1,
        "iopub_port": 2,
        "stdin_port": 3,
        "control_port": 4,
        "hb_port": 5,
        "key": report.key.encode(),  # type: ignore[typeddict-item]
        "signature_scheme": "hmac-sha256",
        "kernel_name": KERNELSPEC,
    }
