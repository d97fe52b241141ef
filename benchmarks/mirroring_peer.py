"""One process that mirrors, as a part of the service would: `python -m benchmarks.mirroring_peer STORE_URL`.

Reads a line for each thing to do, `flush DIRECTORY PREFIX` or `restore DIRECTORY PREFIX`, and answers with the seconds
it took and the most memory (bytes) this process ever had. A directory's mirror lives on from line to line.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workspace_sync import Mirror, ObjectStore, TransferLimits, open_store

LARGE = 6_000_000
THREADS = 8
"""As the service has by default."""
DEADLINE_SECONDS = 3600.0


def peak_bytes() -> int:
    """The most memory this process ever had resident."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def answer(store: ObjectStore, executor: ThreadPoolExecutor) -> None:
    mirrors: dict[tuple[str, str], Mirror] = {}
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, directory, prefix = line.split()
        mirror = mirrors.get((directory, prefix))
        if mirror is None:
            limits = TransferLimits(settle_seconds=0.0)
            mirror = mirrors[directory, prefix] = Mirror(directory, store, prefix, executor=executor, limits=limits)
        began = time.monotonic()
        if verb == "flush":
            await mirror.flush(DEADLINE_SECONDS)
        else:
            await mirror.restore()
        print(json.dumps({"seconds": time.monotonic() - began, "peak_bytes": peak_bytes()}), flush=True)
    for mirror in mirrors.values():
        await mirror.aclose()


def main(url: str) -> None:
    store = open_store(url)
    store.put("before", io.BytesIO(bytes(LARGE)), LARGE)  # a service learns from the first large file how a server is
    with ThreadPoolExecutor(THREADS) as executor:
        asyncio.run(answer(store, executor))
    store.close()


if __name__ == "__main__":
    main(sys.argv[1])
