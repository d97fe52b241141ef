"""How many processors programs should believe in: the vCPUs of the sandbox, never more than the host has.

The quota of the control group is what holds. These are hints, so that no library starts 64 threads for two processors:
an affinity, and the variables of libraries that do not ask for it. No variable that makes a program talk (Java's) is
here: those programs go by the affinity.
"""

from __future__ import annotations

import math
import os

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
    "JULIA_NUM_THREADS",
    "GOMAXPROCS",
    "PYTHON_CPU_COUNT",
)


def count_there() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0))


def whole(vcpus: float) -> int:
    """The vCPUs rounded up, as many as there are at most."""
    return max(1, min(math.ceil(vcpus), count_there()))


def variables(count: int) -> dict[str, str]:
    """What tells libraries so."""
    return dict.fromkeys(VARIABLES, str(count))


def neighbouring(count: int) -> set[int]:
    """`count` processors next to each other, from a random one on: others for each process that is started.

    Always the first ones would pile all sandboxes of a large host on them.
    """
    there = sorted(os.sched_getaffinity(0))
    first = int.from_bytes(os.urandom(4), "little") % len(there)
    return set((there + there)[first : first + count])
