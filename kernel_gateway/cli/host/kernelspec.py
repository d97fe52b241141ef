"""`sandcell kernelspec ...`: kernels in sandboxes for programs that run kernels of their own, on this host."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from kernel_gateway.cli.options import configured_briefly
from kernel_gateway.settings import Settings
from sandcell.cli.screen import say


@click.group()
def kernelspec() -> None:
    """Let nbclient, papermill and Jupyter run their kernels in sandboxes."""


@kernelspec.command("install", short_help="Install the kernel sandcell-python.")
@click.option("--user", is_flag=True, help="For this user, in every Python environment that has sandcell.")
@click.option("--sys-prefix", is_flag=True, help="For this Python environment alone.  [default]")
@click.option("--prefix", metavar="DIR", help="Below DIR/share/jupyter.")
@click.option("--environment", default="python", show_default=True, metavar="NAME", help="The image of the sandboxes.")
@configured_briefly
def install(settings: Settings, *, user: bool, sys_prefix: bool, prefix: str | None, environment: str) -> None:
    """Install the kernel `sandcell-python` for Jupyter programs of this host.

    Each of its kernels is a sandbox that the program's user makes here, which takes root; no service is asked. It has
    the bounds that the settings give now, and reaches no network.
    """
    if user + sys_prefix + (prefix is not None) > 1:
        raise click.UsageError("--user, --sys-prefix and --prefix exclude each other")
    from jupyter_client.kernelspec import KernelSpecManager  # noqa: PLC0415 - the client's verbs need none of it

    from kernels.provisioner import KERNELSPEC  # noqa: PLC0415

    where = None if user else prefix or sys.prefix
    with tempfile.TemporaryDirectory(prefix="sandcell-") as made:
        content = make_specification(settings, environment)
        Path(made, "kernel.json").write_text(json.dumps(content, indent=1))
        place = KernelSpecManager().install_kernel_spec(made, KERNELSPEC, user=user, prefix=where)
    say(f"installed {KERNELSPEC} in {place}; try: jupyter run --kernel {KERNELSPEC}")
    if os.geteuid() != 0:
        say("Its kernels are sandboxes made on this host, which takes root: start the program that uses it with sudo.")


def make_specification(settings: Settings, environment: str) -> dict[str, Any]:
    """The kernelspec, with what the provisioner needs to know of the settings."""
    from kernels.provisioner import PROVISIONER  # noqa: PLC0415

    config = {
        "environment": environment,
        "environments_directory": str(settings.environments_path),
        "data_directory": str(Path(settings.data_dir) / "kernels"),
        "run_directory": settings.run_dir,
        "runtime": settings.runtime,
        "memory_mb": settings.memory_mb,
        "storage_mb": settings.storage_mb,
        "pids": settings.pids,
        "uid_base": settings.uid_base,
        "uid_ranges": settings.uid_ranges,
        "cgroup_parent": settings.cgroup_parent,
    }
    return {
        "argv": [PROVISIONER],
        "display_name": f"Python in a sandbox ({environment})",
        "language": "python",
        "interrupt_mode": "signal",
        "metadata": {"kernel_provisioner": {"provisioner_name": PROVISIONER, "config": config}},
    }
