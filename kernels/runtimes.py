"""Opens the runtime that the settings name."""

from __future__ import annotations

from kernels import installed_runtimes
from kernels.errors import RuntimeUnusable
from kernels.oci.command import OciProgram
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxRuntime
from kernels.shared_host import SharedHost


def open_runtime(settings: RuntimeSettings) -> SandboxRuntime:
    """The runtime `settings.runtime`; raises `RuntimeUnusable` when it is not installed or cannot be opened.

    OCI programs share one `OciRuntime`, so that an environment may choose among them. Another runtime is alone in its
    service: which of two runtimes has a sandbox would have to be asked with each call.
    """
    found = installed_runtimes.find(settings.runtime)
    if isinstance(found, OciProgram):
        return SharedHost(settings) if settings.gateways else OciRuntime(settings)
    if settings.more_runtimes:
        others = ", ".join(settings.more_runtimes)
        raise RuntimeUnusable(
            f"the runtime {settings.runtime!r} is no OCI program and cannot share a service with {others}; give each a"
            " service of its own"
        )
    runtime: SandboxRuntime = found(settings)
    return runtime
