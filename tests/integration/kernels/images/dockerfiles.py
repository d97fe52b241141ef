"""Images of the Dockerfiles in `examples/images`: built by buildah over a Debian of mmdebstrap's, run in sandboxes."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import uuid
from pathlib import Path

from kernels.environment import Environment
from kernels.images import importing, sources
from kernels.images.importing import Import
from kernels.kernelspec import Kernelspec
from kernels.runtimes import open_runtime
from kernels.sandbox import RuntimeSettings, SandboxSpec
from kernels.sandboxed.kernel_events import ignore_events
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import open_kernel

EXAMPLES = Path(__file__).parents[4] / "examples" / "images"
PATHS = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")


def bootstrap(suite: str, root: Path, *packages: str) -> None:
    """A minimal Debian."""
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in PATHS]
    options += [f"--include={','.join(packages)}"] if packages else []
    options.append('--aptopt=Acquire::Check-Valid-Until "false"')  # of a mirror that stands still; signatures count
    command = ["mmdebstrap", "--variant=minbase", *options, suite, str(root)]
    # Its mounts and processes end with it, however it ends.
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    subprocess.run([*apart, *command], check=True, capture_output=True, timeout=1800)


def run(environment: Environment, settings: RuntimeSettings, code: str, kernel: Kernelspec | None = None) -> str:
    """What code prints in a sandbox of the environment, in Python or in a kernel that its image declares."""

    async def work() -> str:
        runtime, sandbox_id = open_runtime(settings), str(uuid.uuid4())
        try:
            info = await runtime.create(SandboxSpec(sandbox_id, environment))
            live = await open_kernel(runtime, info, KernelLimits(start_seconds=600), ignore_events)
            name = "python" if kernel is None else kernel.name
            try:
                outcome = await live.execute(
                    code, timeout_seconds=120, emit=lambda _event: None, runtime=name, declared=kernel
                )
            finally:
                await live.aclose()
        finally:
            await runtime.destroy(sandbox_id)
            await runtime.aclose()
        assert outcome.status == "ok", outcome
        return outcome.stdout

    return asyncio.run(work())


def build(name: str, base: Path, variables: dict[str, str], settings: RuntimeSettings, tmp_path: Path) -> Environment:
    place = tmp_path / name
    shutil.copytree(EXAMPLES / name, place)
    dockerfile = place / "Dockerfile"
    text, count = re.subn(r"(?m)^FROM .*$", f"FROM oci-archive:{base}", dockerfile.read_text())
    assert count == 1
    dockerfile.write_text(text)
    with sources.build_source(place, print, variables=variables) as source:
        wanted = Import(name, variables=variables, sandboxes=settings)
        return importing.import_image(source.parts, wanted, tmp_path / "environments", print)
