"""`python -m benchmarks [--short] [NAME ...]`: runs the benchmarks on this machine and prints their figures.

Root is needed, and the built environment `python`. Every figure compares things measured in turn in the same run, since
the machine is shared and its absolute times drift.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import (
    agent_engine_files,
    agentcore,
    agentcore_files,
    agentcore_load,
    attach,
    bounds,
    bursts,
    checkpoints,
    cold_start,
    console_tab,
    doors,
    egress,
    execution,
    execution_role,
    hibernation,
    idle_memory,
    kept_variables,
    layers,
    lazy_start,
    live_sessions,
    mirror_cost,
    mirroring,
    paged_out,
    pods,
    printed_memory,
    recording,
    warm_execution,
    warm_pool,
)
from benchmarks.agentcore_client import ACCESS_KEY, SECRET_KEY
from tests.running_service import RunningService

BENCHMARKS = {
    "cold_start": cold_start.run,
    "warm_pool": warm_pool.run,
    "bursts": bursts.run,
    "warm_execution": warm_execution.run,
    "execution": execution.run,
    "idle_memory": idle_memory.run,
    "paged_out": paged_out.run,
    "hibernation": hibernation.run,
    "checkpoints": checkpoints.run,
    "kept_variables": kept_variables.run,
    "live_sessions": live_sessions.run,
    "printed_memory": printed_memory.run,
    "console_tab": console_tab.run,
    "recording": recording.run,
    "attach": attach.run,
    "egress": egress.run,
    "execution_role": execution_role.run,
    "layers": layers.run,
    "pods": pods.run,
    "mirroring": mirroring.run,
    "lazy_start": lazy_start.run,
    "mirror_cost": mirror_cost.run,
    "doors": doors.run,
    "agent_engine_files": agent_engine_files.run,
    "agentcore": agentcore.run,
    "agentcore_load": agentcore_load.run,
    "agentcore_files": agentcore_files.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="two rounds of each")
    parser.add_argument("name", nargs="*", choices=[*BENCHMARKS, "all"], default="all")
    parser.add_argument("--sessions", type=_read_numbers, help="of `live_sessions`, such as 1,10,50")
    parser.add_argument("--seconds", type=int, help="for which `live_sessions` asks each number of them")
    parser.add_argument("--plot", type=Path, help="where `live_sessions` writes its plot, a PNG")
    given = parser.parse_args()
    data = Path(os.environ.get("SANDCELL_DATA_DIR", ".sandcell")).absolute()
    cores, memory = os.cpu_count(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    print(f"machine: {cores} cores, {memory} GiB, Linux {platform.release()}, Python {platform.python_version()}")
    short = {"rounds": 2} if given.short else {}
    for name in BENCHMARKS if "all" in given.name else given.name:
        with tempfile.TemporaryDirectory(prefix="scbench", dir="/tmp") as directory:
            settings = {
                "environments_dir": data / "environments",
                "keep_variables": "on_idle",  # as it is where nobody says otherwise
                "invocations_per_second": 10_000,
                "requests_per_second": 100_000,
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            }
            service = RunningService(Path(directory), settings)
            service.start()
            try:
                more = _read_more(given) if name == "live_sessions" else {}
                print(f"{name}: {BENCHMARKS[name](service, data / 'environments', **{**short, **more})}", flush=True)
            finally:
                service.stop()
    if bounds.MISSED and not given.short:
        sys.exit("\n".join(["bounds that this run has missed:", *bounds.MISSED]))


def _read_more(given: argparse.Namespace) -> dict[str, Any]:
    """What only `live_sessions` takes."""
    more = {"sizes": given.sessions, "rounds": given.seconds, "plot": given.plot}
    return {name: value for name, value in more.items() if value is not None}


def _read_numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(each) for each in text.split(",")))


if __name__ == "__main__":
    main()
