#!/usr/bin/env python3
"""Whether the Kubernetes trial has passed with what it covers as it is now.

`record` is for `make kubernetes-trial`, after it has passed: it writes tests/kubernetes_trial/passed.json. `check` says
by its exit status whether these files are those that passed then, or that there is no cluster to try them on: so that
CI need not run it each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
PASSED = REPOSITORY / "tests" / "kubernetes_trial" / "passed.json"
COVERED = (
    "kernels/kubernetes/*.py",
    "kernels/guest/network/*.py",
    "kernels/guest/workspace/gathering.py",
    "kernels/sandboxed/kernel_launcher.py",
    "kernels/sandboxed/workspace_copy.py",
    "kernel_gateway/services/adoption.py",
    "kernel_gateway/services/gateways.py",
    "kernel_gateway/services/reconciler.py",
    "kernel_gateway/services/shutdown.py",
    "kernel_gateway/services/sessions/session_sandbox.py",
    "kernel_gateway/storage/engines/lease.py",
    "kernel_gateway/storage/states/gateways.py",
    "deploy/helm/sandcell/templates/*",
    "deploy/helm/sandcell/values.yaml",
    "tests/kubernetes_trial/*.py",
    "tests/kubernetes_chart.py",
    "tests/kubernetes_cluster.py",
)


def covered_files() -> Iterator[Path]:
    """All that decides how sessions fare in pods, and what the trial holds them to."""
    for pattern in COVERED:
        yield from sorted(REPOSITORY.glob(pattern))


def fingerprint() -> str:
    """Of those files, as they are now."""
    found = hashlib.sha256()
    for path in covered_files():
        content = path.read_bytes()
        found.update(f"{path.relative_to(REPOSITORY)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def main(arguments: list[str]) -> int:
    if arguments == ["record"]:
        PASSED.write_text(json.dumps({"tried": fingerprint()}, indent=1) + "\n")
        return 0
    if arguments == ["check"]:
        place = Path(os.environ.get("SANDCELL_KUBERNETES", REPOSITORY.parent / "shared/kubernetes"))
        if not (place / "cluster/up.sh").exists():
            sys.stdout.write(f"kubernetes-trial: not run, SANDCELL_KUBERNETES names no cluster's folder: {place}\n")
            return 0
        tried = json.loads(PASSED.read_text()).get("tried") if PASSED.exists() else None
        return 0 if tried == fingerprint() else 1
    sys.stderr.write("kubernetes_trial.py: check or record\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
