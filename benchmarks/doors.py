"""Create and execute through each door's own client, as ratios to REST: all in turn, in one run.

A client runs in the environment that the conformance tests have made for it; doors whose client is not there are named
and left out, since half a gigabyte from a registry is no part of a measurement.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.agentcore_client import ACCESS_KEY, SECRET_KEY
from tests.running_service import RunningService

CLIENTS = Path(__file__).parent / "door_clients"
DOORS = {
    "AgentCore": ("agentcore", "agentcore-clients/boto3_newest-*"),
    "Agent Engine": ("agent_engine", "agent-engine-clients/vertexai_newest-*"),
    "E2B": ("e2b", "e2b-clients/newest-*"),
    "MCP": ("mcp", "mcp-clients/sdk-*"),
    "Jupyter": ("jupyter", "jupyter-clients/jupyter_kernel_client-*"),
    "LibreChat": ("librechat", "librechat-clients/newest-*"),
}
"""By the name of a door what its client is told, and where its environment is below the data directory."""
EXECUTIONS = 10
"""After each create; the first of them warms up."""


class DoorClient:
    """A client's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.creates: list[float] = []
        self.executes: list[float] = []
        assert self._read() == "ready"

    def ask(self, command: str) -> float:
        """The seconds that one call took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, f"the client of a door ended: {self._process.wait(timeout=60)}"
        return line


def run(service: RunningService, environments_dir: Path, *, rounds: int = 12) -> str:
    """`rounds` creates of each door, the first to warm up, with some executions after each."""
    places = {name: sorted(environments_dir.parent.glob(place)) for name, (_, place) in DOORS.items()}
    absent = [name for name, found in places.items() if not found]
    with ExitStack() as stack:
        clients = {"REST": stack.enter_context(start_client([sys.executable], "rest", service))}
        for name, found in places.items():
            if found:
                clients[name] = stack.enter_context(
                    start_client(find_interpreter(name, found[0]), DOORS[name][0], service)
                )
        for number in range(rounds):
            for client in clients.values():
                _measure(client, keep=number > 0)
    rest = clients.pop("REST")
    told = [f"REST by its Python client: create {_say(rest.creates)}, `1+1` {_say(rest.executes)}"]
    told += [f"{name} {_compare(client.creates, rest.creates)}, {_compare(client.executes, rest.executes)}"
             for name, client in clients.items()]  # fmt: skip
    return "; ".join([*told, *([f"no client is there for {', '.join(absent)}"] if absent else [])])


def _measure(client: DoorClient, *, keep: bool) -> None:
    created = client.ask("create")
    executed = [client.ask("execute") for _ in range(EXECUTIONS)][1:]
    if keep:
        client.creates.append(created)
        client.executes += executed


def find_interpreter(name: str, place: Path) -> list[str]:
    return [str(place / "bin" / ("node" if name == "LibreChat" else "python"))]


@contextmanager
def start_client(interpreter: Sequence[str], door: str, service: RunningService) -> Iterator[DoorClient]:
    script = CLIENTS / "client.py"
    if door == "librechat":  # Node.js wants it beside its packages
        script = Path(interpreter[0]).parents[1] / "door_client.mjs"
        script.write_text((CLIENTS / "client.mjs").read_text())
    token = f"{ACCESS_KEY}:{SECRET_KEY}" if door == "agentcore" else service.token
    command = [*interpreter, str(script), door, service.url, token]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield DoorClient(process)
    finally:
        process.communicate(timeout=120)


def _say(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f} ms"


def _compare(seconds: list[float], rest: list[float]) -> str:
    return f"{statistics.median(seconds) / statistics.median(rest):.2f} times ({_say(seconds)})"
