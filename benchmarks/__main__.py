"""`python -m benchmarks [--short] [NAME ...]`: runs the benchmarks on this machine and prints their figures.

Root is needed, and the built environment `python`. Every figure compares things measured in turn in the same run, since
the machine is shared and its absolute times drift.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

from benchmarks import (
    agentcore,
    agentcore_files,
    agentcore_load,
    attach,
    cold_start,
    egress,
    execution_role,
    idle_memory,
    layers,
    lazy_start,
    mirror_cost,
    mirroring,
    printed_memory,
    recording,
    warm_execution,
)
from benchmarks.agentcore_client import ACCESS_KEY, SECRET_KEY
from tests.running_service import RunningService

BENCHMARKS = {
    "cold_start": cold_start.run,
    "warm_execution": warm_execution.run,
    "idle_memory": idle_memory.run,
    "printed_memory": printed_memory.run,
    "recording": recording.run,
    "attach": attach.run,
    "egress": egress.run,
    "execution_role": execution_role.run,
    "layers": layers.run,
    "mirroring": mirroring.run,
    "lazy_start": lazy_start.run,
    "mirror_cost": mirror_cost.run,
    "agentcore": agentcore.run,
    "agentcore_load": agentcore_load.run,
    "agentcore_files": agentcore_files.run,
}


def main(names: list[str]) -> None:
    data = Path(os.environ.get("SANDCELL_DATA_DIR", ".sandcell")).absolute()
    cores, memory = os.cpu_count(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    print(f"machine: {cores} cores, {memory} GiB, Linux {platform.release()}, Python {platform.python_version()}")
    short = {"rounds": 2} if "--short" in names else {}
    for name in [name for name in names if name != "--short"] or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix="scbench", dir="/tmp") as directory:
            settings = {
                "environments_dir": data / "environments",
                "invocations_per_second": 10_000,
                "requests_per_second": 100_000,
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            }
            service = RunningService(Path(directory), settings)
            service.start()
            try:
                print(f"{name}: {BENCHMARKS[name](service, data / 'environments', **short)}", flush=True)
            finally:
                service.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
