"""The `sandcell` command against a real service: what a new user does, and what the exit status says."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import nbformat
import pytest

from sandcell.saved import format_content
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.running_service import RunningService

PLOT = """
import matplotlib.pyplot as plt
rows = open("data.csv").read().split()
print(len(rows), "rows")
plt.plot([1, 2, 3]); plt.show()
plt.plot([3, 2, 1]); plt.show()
"""


@pytest.fixture(scope="module")
def shared_session(service: RunningService) -> Iterator[str]:
    """A session for tests that leave no trace in it."""
    with service.client() as client, client.session() as session:
        yield session.id


def test_what_a_new_user_does(sandcell: Shell) -> None:
    first = sandcell("run", "x = 41")
    assert (first.returncode, first.stdout) == (0, "")
    assert "new session" in first.stderr
    second = sandcell("run", "x + 1")
    assert (second.returncode, second.stdout, second.stderr) == (0, "42\n", "")
    (sandcell.directory / "analysis.py").write_text(PLOT)
    (sandcell.directory / "data.csv").write_text("a\nb\nc\n")
    (sandcell.directory / "plot-1.png").write_text("mine")
    third = sandcell("run", "analysis.py", "--file", "data.csv")
    assert (third.returncode, third.stdout) == (0, "3 rows\n")
    assert third.stderr.splitlines() == ["saved plot-2.png", "saved plot-3.png"]
    assert (sandcell.directory / "plot-1.png").read_text() == "mine"
    assert (sandcell.directory / "plot-2.png").read_bytes().startswith(b"\x89PNG")
    assert sandcell("notebook", "-o", "history.ipynb").returncode == 0
    notebook = nbformat.read(sandcell.directory / "history.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code"][:2] == ["x = 41", "x + 1"]
    assert any("image/png" in o.get("data", {}) for cell in notebook.cells for o in cell.get("outputs", []))


def test_a_run_is_done_when_its_files_are_in_the_store(sandcell: Shell) -> None:
    assert sandcell("session", "new", "--sync", "before_return").returncode == 0
    stored = sandcell("run", "n = open('f', 'w').write('kept')", "--json")
    assert json.loads(stored.stdout)["sync"] == {"mode": "before_return", "durable": True, "error": None}
    shown = json.loads(sandcell("session", "show", "--json").stdout)
    assert shown["sync"]["durable"]["execution_id"] == json.loads(stored.stdout)["id"]
    assert sandcell("workspace", "cat", shown["workspace_id"], "f").stdout == "kept"
    rows = dict(line.split("\t") for line in sandcell("session", "show").stdout.splitlines())
    assert (rows["durable up to"], rows["sync"]) == (json.loads(stored.stdout)["id"], "before_return")
    assert json.loads(sandcell("run", "1", "--sync", "async", "--json").stdout)["sync"]["mode"] == "async"
    assert sandcell("session", "stop").returncode == 0


def test_one_that_is_hibernated_shows_until_when_and_uses_no_memory(sandcell: Shell) -> None:
    assert sandcell("run", "kept, lost = 1, open('f', 'w')").returncode == 0
    before = dict(line.split("\t") for line in sandcell("session", "show").stdout.splitlines())
    assert (before["hibernated"], before["memory"].startswith("0 MB")) == ("", False)
    assert sandcell("session", "hibernate").returncode == 0
    session = json.loads(sandcell("session", "show", "--json").stdout)
    assert (session["usage"]["memory_bytes"], session["usage"]["pids"]) == (0, 0)
    assert session["usage"]["memory_peak_bytes"] > 0
    rows = dict(line.split("\t") for line in sandcell("session", "show").stdout.splitlines())
    assert rows["memory"].startswith("0 MB of ")
    assert rows["hibernated"].startswith(f"until {session['hibernated']['until']}, as variables: ")
    assert rows["hibernated"].endswith(", 1 variables not kept")
    assert sandcell("session", "stop").returncode == 0


def test_a_session_that_has_ended_is_replaced_and_said(sandcell: Shell, service: RunningService) -> None:
    (sandcell.directory / "kept.txt").write_text("kept")
    sandcell("run", "y = 1", "--file", "kept.txt")
    listed = json.loads(sandcell("session", "ls", "--json").stdout)
    current = json.loads(sandcell("session", "show", "--json").stdout)
    assert current["id"] in [each["id"] for each in listed]
    with service.client() as client:
        client.stop_session(current["id"])
    after = sandcell("run", "print(open('kept.txt').read(), 'y' in globals())")
    assert (after.returncode, after.stdout) == (0, "kept False\n")
    assert current["id"] in after.stderr
    assert "blank" in after.stderr
    assert sandcell("session", "stop").returncode == 0
    assert sandcell("workspace", "get", current["workspace_id"], "kept.txt", "-o", "back.txt").returncode == 0
    assert (sandcell.directory / "back.txt").read_text() == "kept"
    assert "kept.txt" in sandcell("workspace", "ls", current["workspace_id"]).stdout
    assert sandcell("workspace", "get", current["workspace_id"], "kept.txt", "-o", "-").stdout == "kept"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["run", "1/0"], 1, "ZeroDivisionError"),
        (["run", "def f(:"], 1, "SyntaxError"),
        (["run"], 2, "Usage"),
        (["run", "absent.py"], 2, "there is no file"),
        (["brew"], 2, "No such command"),
        (["run", "1", "--token", "wrong"], 3, "token"),
        (["run", "1", "--url", "http://127.0.0.1:9"], 3, "cannot reach"),
        (["run", "1", "--url", "http://127.0.0.1:9"], 3, "sandcell serve"),
        (["run", "1", "--url", "127.0.0.1"], 2, "must be like http://"),
        (["session", "show", "absent"], 7, "there is no such session\n`sandcell session ls --all`"),
        (["workspace", "ls", "absent"], 7, "`sandcell workspace ls`"),
        (["token", "revoke", "absent"], 7, "`sandcell token ls`"),
        (["keys", "revoke", "absent"], 7, "`sandcell keys ls`"),
        (["notebook", "-o", "absent/history.ipynb"], 1, "Error: absent/history.ipynb: No such file"),
        (["run", "while True: pass", "--timeout", "1"], 4, "time was up"),
        (["run", "import os; os._exit(3)"], 6, "died"),
        (["run", "1", "--session", "absent"], 7, "session"),
        (["run", "1", "--new", "--environment", "cobol"], 7, "cobol"),
    ],
)
def test_the_exit_status_says_what_happened(
    sandcell: Shell, shared_session: str, arguments: list[str], status: int, said: str
) -> None:
    done = sandcell(*arguments, variables={"SANDCELL_SESSION": shared_session})
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


def test_ctrl_c_interrupts_the_code_and_the_session_lives_on(sandcell: Shell) -> None:
    sandcell("run", "z = 1")
    process = sandcell.start("run", "print('begun', flush=True)\nimport time\ntime.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 5
    assert "interrupting" in stderr
    assert sandcell("run", "z + 1").stdout == "2\n"


def test_code_from_standard_input_and_json(sandcell: Shell, shared_session: str) -> None:
    done = sandcell("run", "-", "--json", stdin="print('ü')\n6 * 7", variables={"SANDCELL_SESSION": shared_session})
    result = json.loads(done.stdout)
    assert (result["status"], result["stdout"], result["saved"]) == ("ok", "ü\n", [])


def test_what_serve_saved_needs_no_token(sandcell: Shell, service: RunningService, tmp_path: Path) -> None:
    saved = tmp_path / "config/sandcell/client.toml"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(format_content(service.url, service.token))
    del sandcell.environment["SANDCELL_URL"], sandcell.environment["SANDCELL_TOKEN"]
    assert sandcell("run", "6 * 7").stdout == "42\n"


def test_no_other_session_takes_the_place_of_one_that_was_named(sandcell: Shell) -> None:
    ended = sandcell("session", "new").stdout.strip()
    assert sandcell("session", "stop", ended).returncode == 0
    by_variable = sandcell("run", "1", variables={"SANDCELL_SESSION": ended})
    for named in (sandcell("run", "1", "--session", ended), by_variable):
        assert (named.returncode, named.stdout) == (7, "")
        assert "new session" not in named.stderr


def test_tokens(sandcell: Shell) -> None:
    token = sandcell("token", "create", "somebody").stdout.strip()
    assert sandcell("session", "ls", "--token", token).returncode == 0
    rows = json.loads(sandcell("token", "ls", "--json").stdout)
    mine = next(row for row in rows if row["principal"] == "somebody" and not row["revoked_at"])
    assert token not in json.dumps(rows)
    assert sandcell("token", "revoke", mine["id"]).returncode == 0
    assert sandcell("session", "ls", "--token", token).returncode == 3


def test_console_prints_a_link_that_signs_in_once(sandcell: Shell, service: RunningService) -> None:
    link = sandcell("console", "--print").stdout.strip()
    url, _, code = link.partition("/#sign-in=")
    assert url == service.url
    own = {"X-Sandcell-Console": "1"}
    answers = [httpx.post(f"{url}/console/sign-in", json={"link": code}, headers=own, trust_env=False) for _ in "12"]
    assert [each.status_code for each in answers] == [200, 401]


def test_console_says_the_link_where_there_is_no_browser(sandcell: Shell) -> None:
    shown = sandcell("console", variables={"BROWSER": "false"})
    assert shown.returncode == 0
    assert "/#sign-in=" in shown.stdout
    assert "no browser could be opened" in shown.stderr


def test_access_keys(sandcell: Shell) -> None:
    created = sandcell("keys", "create", "somebody", "--name", "a test")
    key_id, secret = re.fullmatch(
        r"AWS_ACCESS_KEY_ID=(SCAK[A-Z2-7]{16})\nAWS_SECRET_ACCESS_KEY=([A-Za-z0-9]{40})\n", created.stdout
    ).groups()  # type: ignore[union-attr]
    rows = json.loads(sandcell("keys", "ls", "--json").stdout)
    mine = next(row for row in rows if row["id"] == key_id)
    assert (mine["principal"], mine["name"], mine["revoked_at"]) == ("somebody", "a test", None)
    assert secret not in json.dumps(rows) + created.stderr
    assert sandcell("keys", "revoke", key_id).returncode == 0
    assert json.loads(sandcell("keys", "create", "somebody", "--json").stdout)["secret_access_key"]
    assert f"{key_id}\tsomebody\ta test\t" in sandcell("keys", "ls").stdout


def test_help_teaches(sandcell: Shell) -> None:
    text = sandcell("--help").stdout
    assert "sandcell run 'x + 1'" in text
    assert "Exit status" in text
    for command in (
        "serve",
        "run",
        "session",
        "notebook",
        "workspace",
        "token",
        "keys",
        "environments",
        "agents",
        "doctor",
    ):
        done = sandcell(command, "--help")
        assert (done.returncode, command in text) == (0, True)
    assert "sandcell" in sandcell("--version").stdout


def test_variables_and_an_output_in_full(sandcell: Shell, service: RunningService) -> None:
    with service.client() as client, client.session() as session:
        session.run("greeting = 'hello'\nfor n in range(60_000): print(f'{n:07}')")
        table = sandcell("variables", session.id)
        assert (table.returncode, table.stdout) == (0, "n\tint\t\t28\t59999\ngreeting\tstr\t5\t54\t'hello'\n")
        found = json.loads(sandcell("variables", session.id, "--json").stdout)
        assert [each["name"] for each in found["variables"]] == ["n", "greeting"]
        cell = json.loads(session.notebook())["cells"][-1]
        digest = cell["metadata"]["sandcell"]["full"][0]["sha256"]
        assert sandcell("output", session.id, digest).stdout.endswith("\n0059999\n")
        assert sandcell("output", session.id, digest, "-o", "all.txt").returncode == 0
        assert (sandcell.directory / "all.txt").stat().st_size == 480_000
        absent = sandcell("output", session.id, "0" * 64)
        assert (absent.returncode, "no such output" in absent.stderr) == (7, True)
