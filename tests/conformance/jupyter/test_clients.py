"""People's clients, each by its own interpreter, attached to a session in which an agent works."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client_environments import make_command, read_report
from tests.conformance.jupyter import client_environments
from tests.conformance.jupyter.conftest import Agents
from tests.running_service import RunningService

TICKS = "".join(f"tick {number}\n" for number in range(24))


@pytest.mark.sample("clients")
def test_jupyterlabs_server_joins_a_live_kernel_and_leaves_it_alive(
    agents: Agents, said: Callable[..., dict[str, Any]], lab_configuration: Path
) -> None:
    seen = said("jupyterlab", "with_jupyter_server.py", str(lab_configuration))
    assert seen["adopt"] == {"status": 201, "kernel": agents.id}
    assert seen["listed"] == [agents.id]
    assert seen["shared"]["stdout"] == "42\n"

    # More than the Lab's server takes, and bytes that would end its loop without a word: what comes next is heard.
    assert (seen["flood"]["status"], "12,58" in seen["flood"]["stderr"]) == ("ok", True)
    assert seen["after flood"]["stdout"] == "still here\n"
    assert {"comm_open", "comm_msg"} <= set(seen["buffers"]["types"])
    assert seen["after buffers"]["stdout"] == "still here\n"

    assert seen["ticks"]["stdout"] == TICKS, "a line was lost, or came twice, over a cut of four seconds"
    assert seen["exit"] is True, "the Lab's server hung when it was to stop"
    assert agents.printed("print(agent, person)") == "41 7\n"


@pytest.mark.sample("clients")
def test_the_configuration_of_sandcell_attach_lists_the_session_in_the_picker(
    agents: Agents, said: Callable[..., dict[str, Any]], lab_configuration: Path
) -> None:
    seen = said("jupyterlab", "with_lab_configuration.py", str(lab_configuration))
    assert seen == {"picker": [agents.id], "exit": True}
    assert agents.printed("print(agent)") == "41\n"


@pytest.mark.sample("clients")
def test_the_sequence_of_vs_code_by_its_own_library(agents: Agents, said: Callable[..., dict[str, Any]]) -> None:
    seen = said("jupyterlab_services", "with_services.mjs")
    assert seen["password"] == [404, 404], "VS Code would ask for a password"
    assert seen["kernelspecs"] == ["python"]
    assert [each["kernel"] for each in seen["sessions"]] == [agents.id]
    assert seen["sessions"][0]["path"].startswith("the agent's")
    assert (seen["status"], seen["protocol"]) == ("connected", "v1.kernel.websocket.jupyter.org")
    assert seen["shared"] == {"status": "ok", "text": "42\n"}
    assert seen["interrupted"] == {"status": "error", "name": "KeyboardInterrupt"}
    assert (seen["buffers"], seen["heard"]) == ([[0, 255]], "[{'answer': 42}]\n")
    assert seen["subshell"] == "ok"
    assert seen["after"]["status"] == 200, "deleting the session ended the kernel"
    assert agents.printed("print(agent)") == "41\n"


@pytest.mark.sample("clients")
def test_jupyter_kernel_client(agents: Agents, said: Callable[..., dict[str, Any]]) -> None:
    seen = said("jupyter_kernel_client", "with_kernel_client.py")
    assert seen["id"] == agents.id
    for step in ("shared", "after a shutdown request"):
        # A print may come in several messages, of which this client makes as many outputs.
        assert {(each["output_type"], each["name"]) for each in seen[step]["outputs"]} == {("stream", "stdout")}
        assert "".join(each["text"] for each in seen[step]["outputs"]) == "42\n"
    assert "application/vnd.jupyter.widget-view+json" in seen["widget"]
    assert seen["variables"] == {
        "seen by code": "it's [1, {'a': 2}] 3\n",
        "back": ["it's", [1, {"a": 2}]],
        "made": {"x": [2, 4]},
        "names": ["sent_frame", "sent_list", "sent_text"],
    }
    assert agents.printed("print(agent)") == "41\n"


@pytest.mark.sample("clients")
def test_what_a_person_ran_is_in_the_record_with_their_name(
    agents: Agents, said: Callable[..., dict[str, Any]]
) -> None:
    said("jupyterlab_services", "with_services.mjs")
    with agents.service.client() as client:
        cells = json.loads(client.notebook(agents.id))["cells"]
    about = [cell["metadata"]["sandcell"] for cell in cells if cell["cell_type"] == "code"]
    assert (about[0]["author"], about[0]["face"]) == ("admin", "rest")
    assert [each["author"] for each in about if each["face"] == "jupyter"][-1] == "ana"


@pytest.mark.sample("clients")
def test_a_requested_restart_is_no_death_to_the_library_of_jupyterlab(
    service: RunningService, client_environment: Callable[[str], Path], tmp_path: Path
) -> None:
    place = client_environment("jupyterlab_services")
    script = client_environments.SCRIPTS / "restarting.mjs"
    with service.client() as client, client.session("python") as session:
        command = make_command(place, script, service.url, service.token, session.id)
        seen = read_report(command, os.environ, tmp_path)
    assert (seen["before"], seen["own"], seen["agents"]) == (["ok", ""], ["ok", "False\n"], ["ok", "False\n"])
    death = seen["states"].index("by a death")
    assert "autorestarting" not in seen["states"][:death]
    assert "autorestarting" in seen["states"][death:]
