"""How far 1 GB of printed output moves the memory of the service, which keeps a capped part of it."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.running_service import RunningService

WAYS = {
    "lines": "for i in range({megabytes}_000): print('x' * 999)",
    "one string": "print('x' * {megabytes}_000_000)",
    "a subprocess": "import subprocess; _ = subprocess.run('yes | head -c {megabytes}000000', shell=True)",
}


def run(service: RunningService, environments_dir: Path, *, rounds: int = 1000) -> str:
    """`rounds` is how many megabytes are printed each time."""
    grown = []
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=900) as http:
        session = http.post("/v1/sessions", json={}).raise_for_status().json()
        path = f"/v1/sessions/{session['id']}/executions"
        http.post(path, json={"code": "for i in range(5_000): print('x' * 999)"}).raise_for_status()
        for way, code in WAYS.items():
            before = _resident(service.service_pid, "VmRSS")
            Path(f"/proc/{service.service_pid}/clear_refs").write_text("5")  # resets the peak
            outcome = http.post(path, json={"code": code.format(megabytes=rounds)}).raise_for_status().json()
            assert outcome["status"] == "ok", outcome["status"]
            assert len(outcome["stdout"]) + outcome["truncated"]["stdout"] >= rounds * 1_000_000
            grown.append(f"{way} {(_resident(service.service_pid, 'VmHWM') - before) / 1e6:.0f} MB")
        http.delete(f"/v1/sessions/{session['id']}").raise_for_status()
    return f"service grew at its peak, {rounds} MB printed as {', as '.join(grown)} (at most 50)"


def _resident(pid: int, row: str) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(one.split()[1]) * 1024 for one in rows if one.startswith(f"{row}:"))
