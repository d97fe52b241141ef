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
SANDCELL = str(Path(sys.executable).with_name("sandcell"))
OWN_CONFIGURATION = """
c.ServerApp.port = {port}
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.IdentityProvider.token = "lab"
"""


@pytest.mark.sample("clients")
def test_a_lab_is_opened_and_closed(agents: Agents, client_environment: Callable[[str], Path], tmp_path: Path) -> None:
    account = {"SANDCELL_URL": agents.service.url, "SANDCELL_TOKEN": agents.service.token}
    environment = {**os.environ, **account, **places(client_environment, tmp_path)}
    port = open_and_close([SANDCELL, "attach", agents.id, "--open", "--name", "opened"], environment, tmp_path, agents)
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
    with agents.service.client() as client:
        made = client.create_attach_token(agents.id, name="person")
    line = [SANDCELL, "attach", agents.id, "--url", agents.service.url, "--token", made.token or "", "--open"]
    environment = {name: each for name, each in os.environ.items() if not name.startswith("SANDCELL_")}
    environment |= places(client_environment, tmp_path)
    open_and_close(line, environment, tmp_path, agents)
    with agents.service.client() as client:
        client.revoke_attach_token(agents.id, made.id)
    refused = subprocess.run(
        line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert refused.returncode == 1
    assert "this attach token counts no longer" in refused.stderr


def places(client_environment: Callable[[str], Path], home: Path) -> dict[str, str]:
    """Variables of a person who has JupyterLab installed."""
    lab = client_environment("jupyterlab") / "bin"
    return {"HOME": str(home), "TMPDIR": str(home), "PATH": f"{lab}:{os.environ['PATH']}"}


def open_and_close(line: list[str], environment: dict[str, str], home: Path, agents: Agents) -> int:
    """Start a Lab, see that it has the session's kernel, and end it; the port at which it was."""
    port = free_port()
    (home / ".jupyter").mkdir()
    (home / ".jupyter/jupyter_server_config.py").write_text(OWN_CONFIGURATION.format(port=port))
    output = subprocess.DEVNULL
    process = subprocess.Popen(line, env=environment, cwd=home, stdout=output, stderr=output)
    try:
        assert kernels(port, process) == [agents.id]
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    finally:
        process.kill()
    return port


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
