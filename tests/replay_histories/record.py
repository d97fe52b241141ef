"""Runs the notebooks of `families/` and writes what they showed to `data/`.

`python -m tests.replay_histories.record [FAMILY ...]` runs each notebook three times, each time in an ipykernel of its
own with a fresh working directory, hash seed, addresses, process id and host name; the run on record some days earlier
by its clock (libfaketime). The kernels are forked from a process that has the heavy libraries loaded, one such process
for each run. Needs root on Linux (namespaces) and the packages in README.md.
"""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from nbformat.v4 import output_from_msg

from tests.replay_histories import DATA, RUNS, families, pack
from tests.replay_histories.writing import Draft, Family

WORKSPACE = Path("/srv/workspace")  # of the kernels, in a namespace in which /srv is theirs
HOSTS = {"recorded": "sandbox-5fd81c", "first": "sandbox-a30e77", "second": "sandbox-19c4b2"}
RECORDED_BEFORE_SECONDS = 3 * 86_400 + 15_777
CELL_SECONDS = 60
HERE = Path(__file__).parent


class Forge:
    """A process with the libraries loaded, of which each kernel is a fork."""

    def __init__(self, run: str, scratch: Path) -> None:
        self.scratch = scratch / run
        self.scratch.mkdir()
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        environment |= {"IPYTHONDIR": str(self.scratch), "MPLCONFIGDIR": f"{sys.prefix}/matplotlib", "TZ": "UTC"}
        if run == "recorded":
            library = next(Path(sys.prefix).rglob("libfaketime.so.1"))
            environment |= {"LD_PRELOAD": str(library), "FAKETIME": f"-{RECORDED_BEFORE_SECONDS}"}
            environment |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
        venv = Path(sys.prefix)
        setup = (
            f"mount -t tmpfs none /srv && mkdir /srv/workspace /srv/python && mount --bind {venv} /srv/python"
            f" && hostname {HOSTS[run]} && exec /srv/python/bin/python {HERE / 'forge.py'}"
        )
        command = ["unshare", "--mount", "--uts", "sh", "-c", setup]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def run(self, draft: Draft, files: dict[str, str]) -> list[tuple[list[dict[str, Any]], list[str]]]:
        """What each cell of `draft` showed, and when it began and ended."""
        file = self.scratch / "connection.json"
        path, _ = write_connection_file(str(file), transport="ipc", ip=str(self.scratch / "ipc"), key=b"histories")
        self._ask({"connection": path, "files": files})
        sockets = [self.scratch / f"ipc-{number}" for number in range(1, 6)]
        while not all(socket.exists() for socket in sockets):
            time.sleep(0.02)
        client = BlockingKernelClient()
        client.load_connection_file(path)
        client.start_channels()
        try:
            client.kernel_info(reply=True, timeout=30)
            return Notebook(client).run([cell.source for cell in draft.cells])
        finally:
            client.shutdown()
            client.stop_channels()
            self._ask({"end": True})
            for socket in sockets:
                socket.unlink()

    def _ask(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer != "done\n":
            raise RuntimeError(f"the forge said {answer!r}")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=120)


class Notebook:
    """Runs cells in a kernel and keeps their outputs as Jupyter would."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.shown: list[list[dict[str, Any]]] = []
        self.displays: dict[str, list[dict[str, Any]]] = {}
        self.clear_next = False

    def run(self, sources: list[str]) -> list[tuple[list[dict[str, Any]], list[str]]]:
        times = []
        for source in sources:
            self.shown.append([])
            self.clear_next = False
            times.append(self._run_cell(source))
        return list(zip(self.shown, times, strict=True))

    def _run_cell(self, source: str) -> list[str]:
        request = self.client.execute(source, stop_on_error=False)
        started = ended = ""
        while not ended:
            message = self.client.get_iopub_msg(timeout=CELL_SECONDS)
            if message["parent_header"].get("msg_id") != request:
                continue
            when = message["header"]["date"].isoformat()
            started = started or when
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                ended = when
            else:
                self._take(message)
        return [started, ended]

    def _take(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "clear_output":
            self.clear_next = bool(content["wait"])
            if not content["wait"]:
                self.shown[-1].clear()
        elif kind == "update_display_data":
            for output in self.displays.get(content["transient"]["display_id"], []):
                output["data"], output["metadata"] = content["data"], content["metadata"]
        elif kind in ("stream", "display_data", "execute_result", "error"):
            if self.clear_next:
                self.shown[-1].clear()
                self.clear_next = False
            self._add(dict(output_from_msg(message)), content.get("transient", {}).get("display_id"))

    def _add(self, output: dict[str, Any], display_id: str | None) -> None:
        outputs = self.shown[-1]
        last = outputs[-1] if outputs else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["text"] += output["text"]
            return
        outputs.append(output)
        if display_id:
            self.displays.setdefault(display_id, []).append(output)


def main() -> None:
    """Records the families that are named, or all."""
    wanted = set(sys.argv[1:])
    modules = [
        importlib.import_module(f"{families.__name__}.{found.name}")
        for found in pkgutil.iter_modules(families.__path__)
    ]
    chosen = [family for module in modules for family in module.FAMILIES if not wanted or family.name in wanted]
    with tempfile.TemporaryDirectory() as scratch:
        forges: dict[str, Forge] = {}  # begun with the first history that is to run: labels alone need none
        for family in chosen:
            _record_family(family, forges, Path(scratch))
        for forge in forges.values():
            forge.close()


def _record_family(family: Family, forges: dict[str, Forge], scratch: Path) -> None:
    """Records what is new or has other code or files; of the rest the outputs stay, only labels are written again."""
    path = DATA / f"{family.name}.json"
    old = json.loads(path.read_text(encoding="utf-8"))["histories"] if path.exists() else []
    known = {_identity(entry): entry["cells"] for entry in old}
    heads = [_describe(draft) for draft in family.drafts]
    missing = [(head, draft) for head, draft in zip(heads, family.drafts, strict=True) if _identity(head) not in known]
    if missing and not forges:
        forges |= {run: Forge(run, scratch) for run in RUNS}
    for head, draft in missing:
        known[_identity(head)] = _record(draft, forges)
        _write(path, family.name, heads, known)
    _write(path, family.name, heads, known)


def _describe(draft: Draft) -> dict[str, Any]:
    cells = [
        {"source": code.source, "label": code.label, "why": code.why, "verdicts": list(code.verdicts)}
        for code in draft.cells
    ]
    head = {"name": draft.name, "about": draft.about, "files": draft.files, "changed_files": draft.changed_files}
    return head | {"cells": cells}


def _identity(entry: dict[str, Any]) -> str:
    sources = [cell["source"] for cell in entry["cells"]]
    return json.dumps([entry["name"], entry["files"], entry["changed_files"], sources])


def _write(path: Path, family: str, heads: list[dict[str, Any]], known: dict[str, list[dict[str, Any]]]) -> None:
    entries = []
    for head in heads:
        if ran := known.get(_identity(head)):
            shown = [{"times": cell["times"], "outputs": cell["outputs"]} for cell in ran]
            entries.append(head | {"cells": [cell | more for cell, more in zip(head["cells"], shown, strict=True)]})
    text = json.dumps({"family": family, "histories": entries}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _record(draft: Draft, forges: dict[str, Forge]) -> list[dict[str, Any]]:
    files = {run: draft.files if run == "recorded" else draft.files | draft.changed_files for run in RUNS}
    with ThreadPoolExecutor(len(RUNS)) as pool:
        ran = dict(zip(RUNS, pool.map(lambda run: forges[run].run(draft, files[run]), RUNS), strict=True))
    cells = []
    for place in range(len(draft.cells)):
        shown = {run: ran[run][place][0] for run in RUNS}
        _check(draft, place, shown)
        outputs = {run: "as recorded" if _is_equal(shown[run], shown["recorded"]) else pack(shown[run]) for run in RUNS}
        outputs["recorded"] = pack(shown["recorded"])
        cells.append({"times": {run: ran[run][place][1] for run in RUNS}, "outputs": outputs})
    return cells


def _is_equal(one: object, other: object) -> bool:
    """Whether both are written the same way: unlike `==`, the order of keys counts."""
    return json.dumps(one) == json.dumps(other)


def _check(draft: Draft, place: int, outputs: dict[str, list[dict[str, Any]]]) -> None:
    """Prints what looks like a mistake: an error that nothing says is expected, or a label that the outputs refute."""
    code, where = draft.cells[place], f"{draft.family}/{draft.name} cell {place + 1}"
    if code.label == "different" and outputs["recorded"] == outputs["first"]:
        print(where, "is labelled different, and shows the same")
    for output in outputs["recorded"]:
        if output["output_type"] == "error" and "error" not in draft.about.lower():
            print(where, "raised", output["ename"], output["evalue"])
    if code.label == "same" and code.why != "nothing changed" and outputs["recorded"] == outputs["first"]:
        print(where, "is said to show noise, and shows none")


if __name__ == "__main__":
    main()
