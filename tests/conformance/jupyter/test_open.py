"""`sandcell attach --open`: JupyterLab as the person has it set up, with the session in it; nothing stays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.conformance.jupyter.conftest import Agents
from tests.doubles.server_process import free_port

SECONDS = 120
OWN_CONFIGURATION = """
c.ServerApp.port = {port}
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.IdentityProvider.token = "lab"
"""


@pytest.mark.sample("clients")
def test_a_lab_is_opened_and_closed(agents: Agents, client_environment: Callable[[str], Path], tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / ".jupyter").mkdir()
    (tmp_path / ".jupyter/jupyter_server_config.py").write_text(OWN_CONFIGURATION.format(port=port))
    lab = client_environment("jupyterlab") / "bin"
    account = {"SANDCELL_URL": agents.service.url, "SANDCELL_TOKEN": agents.service.token}
    places = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": f"{lab}:{os.environ['PATH']}"}
    sandcell = str(Path(sys.executable).with_name("sandcell"))
    process = subprocess.Popen(
        [sandcell, "attach", agents.id, "--open", "--name", "opened"],
        env={**os.environ, **account, **places},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert kernels(port, process) == [agents.id]
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    finally:
        process.kill()
    with pytest.raises(httpx.TransportError):
        ask(port)
    assert list(tmp_path.glob("sandcell-*")) == []
    assert agents.printed("print(agent)") == "41\n"
    with agents.service.client() as client:
        (token,) = [each for each in client.list_attach_tokens(agents.id).items if each.name == "opened"]
    assert token.revoked_at is not None


@pytest.mark.sample("clients")
def test_the_line_of_the_console_opens_a_lab_without_an_account(
    agents: Agents, client_environment: Callable[[str], Path], tmp_path: Path
) -> None:
    port = free_port()
    (tmp_path / ".jupyter").mkdir()
    (tmp_path / ".jupyter/jupyter_server_config.py").write_text(OWN_CONFIGURATION.format(port=port))
    with agents.service.client() as client:
        made = client.create_attach_token(agents.id, name="person")
    lab = client_environment("jupyterlab") / "bin"
    places = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": f"{lab}:{os.environ['PATH']}"}
    sandcell = str(Path(sys.executable).with_name("sandcell"))
    line = [sandcell, "attach", agents.id, "--url", agents.service.url, "--token", made.token or ""]
    environment = {name: each for name, each in os.environ.items() if not name.startswith("SANDCELL_")} | places
    output = subprocess.DEVNULL
    process = subprocess.Popen([*line, "--open"], env=environment, cwd=tmp_path, stdout=output, stderr=output)
    try:
        assert kernels(port, process) == [agents.id]
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    finally:
        process.kill()
    with agents.service.client() as client:
        client.revoke_attach_token(agents.id, made.id)
    refused = subprocess.run(
        [*line, "--open"], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert refused.returncode == 1
    assert "this attach token counts no longer" in refused.stderr


def ask(port: int) -> httpx.Response:
    address = f"http://127.0.0.1:{port}/api/kernels"
    return httpx.get(address, headers={"Authorization": "token lab"}, trust_env=False, timeout=SECONDS)


def kernels(port: int, process: subprocess.Popen[bytes]) -> list[str]:
    """The kernels that the Lab lists, once it answers."""
    give_up = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(httpx.TransportError):
            return [each["id"] for each in ask(port).raise_for_status().json()]
        assert process.poll() is None, "it ended"
        assert time.monotonic() < give_up, "the Lab never answered"
        time.sleep(0.1)
