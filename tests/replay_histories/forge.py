"""A process that has the heavy libraries loaded and forks a kernel for each request on its stdin, for record.py."""

import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

LOADED = (
    "numpy", "pandas", "matplotlib.pyplot", "plotly.express", "altair", "sklearn.ensemble", "sklearn.linear_model",
    "sklearn.cluster", "sklearn.decomposition", "sklearn.model_selection", "sklearn.datasets",
    "tqdm", "psutil", "scipy.stats", "ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell",
    "IPython.core.completer",
)  # fmt: skip
WORKSPACE = Path("/srv/workspace")


def main() -> None:
    """Answers each line with `done`: a connection file and files to start a kernel, or `end` to end it."""
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    kernel = 0
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("end"):
            _end(kernel)
            kernel = 0
        else:
            _fill_workspace(request["files"])
            kernel = os.fork()
            if not kernel:
                _become_kernel(request["connection"])
        sys.stdout.write("done\n")
        sys.stdout.flush()
    if kernel:
        _end(kernel)


def _end(kernel: int) -> None:
    os.kill(kernel, signal.SIGKILL)
    os.waitpid(kernel, 0)


def _fill_workspace(files: dict[str, str]) -> None:
    for old in WORKSPACE.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name, text in files.items():
        path = WORKSPACE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        now = time.time()  # by the clock of this run; the file system has the machine's
        os.utime(path, (now, now))


def _become_kernel(connection: str) -> None:
    os.chdir(WORKSPACE)
    sys.path[0] = str(WORKSPACE)
    random.seed()
    importlib.import_module("numpy").random.seed()
    global _ballast  # noqa: PLW0603 - so that no two kernels have their objects at the same addresses
    _ballast = [object() for _ in range(random.randrange(20_000, 200_000))]
    from ipykernel.kernelapp import IPKernelApp

    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    IPKernelApp.launch_instance(argv=["-f", connection, "--HistoryManager.enabled=False"])
    os._exit(0)


if __name__ == "__main__":
    main()
