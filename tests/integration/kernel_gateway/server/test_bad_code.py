"""Code that misbehaves: each gets a clear answer, loses nothing that was acknowledged, and the next execution works."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.integration.kernel_gateway.server.test_running_executions import begun
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def unharmed(service: RunningService) -> Iterator[LiveSession]:
    """One session for all code that does it no harm."""
    with Rest(service) as rest, rest.session() as session:
        yield session


def test_a_syntax_error_is_an_outcome(unharmed: LiveSession) -> None:
    outcome = unharmed.run("def (:")
    assert (outcome["status"], outcome["error"]["name"]) == ("error", "SyntaxError")
    assert not any("\x1b" in line for line in outcome["error"]["traceback"])
    unharmed.works()


def test_an_endless_loop_is_interrupted_at_its_timeout_and_globals_stay(rest: Rest) -> None:
    with rest.session() as session:
        session.run("x = 5")
        outcome = session.run("while True: pass", timeout_seconds=1)
        assert (outcome["status"], outcome["death"]) == ("timeout", None)
        assert session.run("x")["outputs"][0]["data"]["text/plain"] == "5"
        assert session.show()["generation"] == 1


def test_a_loop_that_will_not_be_interrupted_is_killed_and_says_so(rest: Rest) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    with rest.session() as session:
        outcome = session.run(code, timeout_seconds=3)
        assert (outcome["status"], outcome["death"]["cause"]) == ("timeout", "deadline")
        session.works()  # on the next kernel, which is being started when the outcome is there
        assert session.show()["generation"] == 2


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("code", "cause", "detail"),
    [
        ("import os; os._exit(3)", "exit", {"exit_code": 3}),
        ("import ctypes; ctypes.string_at(0)", "signal", {"signal": "SIGSEGV"}),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal", {"signal": "SIGKILL"}),
        ("x = b'1' * (4 << 30)", "oom", {"signal": "SIGKILL", "memory_limit_bytes": 2048 << 20}),
    ],
)
def test_a_kernel_that_dies_leaves_its_cause(rest: Rest, code: str, cause: str, detail: dict[str, object]) -> None:
    with rest.session() as session:
        # Once its output has left the process: SIGKILL takes what is still in it.
        until_told = "while not os.path.exists('go'): time.sleep(0.02)"
        dying = session.submit(f"import os, time\nprint('before', flush=True)\n{until_told}\n{code}")
        begun(session, dying)
        assert rest.http.put(f"{session.path}/files/go", content=b"").is_success
        outcome = session.outcome(dying["id"])
        assert (outcome["status"], outcome["death"]["cause"]) == ("died", cause), outcome
        assert {name: outcome["death"][name] for name in detail} == detail
        assert outcome["stdout"] == "before\n"
        session.works()
        assert session.run("1")["generation"] == 2
        assert session.show()["generation"] == 2


def test_killing_the_guest_is_refused(unharmed: LiveSession) -> None:
    assert unharmed.run("import os; os.kill(1, 9)")["error"]["name"] == "PermissionError"
    unharmed.works()


@pytest.mark.long  # nine core-seconds; the escape corpus has one under each runtime
def test_a_fork_bomb_stays_in_its_session(rest: Rest) -> None:
    with rest.session() as bombed, rest.session() as other:
        # What cannot fork any more stays: there is no room left, and no processor is taken from the other tests.
        running = bombed.submit(
            "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(60)", timeout_seconds=2
        )
        other.works()
        outcome = bombed.outcome(running["id"])
        assert outcome["status"] in {"timeout", "error", "died"}
        bombed.works()
        other.works()


def test_filling_the_disk_is_an_error_of_the_code(unharmed: LiveSession) -> None:
    outcome = unharmed.run("with open('big', 'wb') as f:\n  while True: f.write(bytes(1 << 20))")
    assert outcome["error"]["name"] == "OSError"
    assert "No space left" in outcome["error"]["value"] or "File too large" in outcome["error"]["value"]
    unharmed.works()
    assert unharmed.run("import os; os.remove('big')")["status"] == "ok"


def test_output_past_the_cap_is_counted_and_the_ends_are_kept(unharmed: LiveSession) -> None:
    line = "x" * 999 + "\n"
    outcome = unharmed.run("print('first')\nfor i in range(20_000): print('x' * 999)\nprint('last')")
    assert outcome["status"] == "ok"
    assert outcome["stdout"].startswith("first\n")
    assert outcome["stdout"].endswith("last\n")
    kept = len(outcome["stdout"].encode())
    assert kept < 1_100_000
    assert outcome["truncated"]["stdout"] > 20_000 * len(line) - 1_100_000
    unharmed.works()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close()",
        "import os; os.close(1); os.close(2)",
        "import sys, io; sys.stdout = io.StringIO()",
        "import sys; sys.stdout = None; sys.stderr = None",
        "import builtins; del builtins.print",
        "In = Out = None",
    ],
)
def test_breaking_the_output_does_not_break_the_session(rest: Rest, code: str) -> None:
    with rest.session() as session:
        session.run(code)
        session.works()


def test_deleting_the_workspace_leaves_an_empty_one(rest: Rest) -> None:
    with rest.session() as session:
        session.run("open('x', 'w').write('1')")
        session.run("import shutil; shutil.rmtree('/workspace', ignore_errors=True)")
        session.works()
        assert session.run("open('y', 'w').write('2')")["status"] == "ok"


def test_input_is_refused_at_once_with_a_sentence(unharmed: LiveSession) -> None:
    outcome = unharmed.run("input('name? ')", timeout_seconds=30)
    assert outcome["status"] == "error"
    assert "input" in outcome["error"]["value"]
    unharmed.works()


def first_process(service: RunningService, session: LiveSession) -> int:
    return int((service.data_dir / "sandboxes" / session.id / "bundle" / "pid").read_text())


def test_a_sandbox_killed_from_the_host_is_replaced_and_files_stay(rest: Rest, service: RunningService) -> None:
    with rest.session() as session:
        session.run("x = 1; open('kept', 'w').write('1')")
        running = session.submit("import time; time.sleep(60)")
        os.kill(first_process(service, session), signal.SIGKILL)
        outcome = session.outcome(running["id"])
        assert (outcome["status"], outcome["death"]["cause"]) == ("died", "sandbox")
        session.works()
        assert session.run("print(open('kept').read())")["stdout"] == "1\n"
        assert session.run("x")["error"]["name"] == "NameError"
        assert session.show()["generation"] == 2


def test_killing_the_kernel_from_the_host_while_idle_is_noted(rest: Rest, service: RunningService) -> None:
    with rest.session() as session:
        session.run("x = 1")
        session.run("import os; pid = os.getpid()")
        session.run(
            "import subprocess; subprocess.Popen('sleep 0.2; kill -9 %d' % pid, shell=True, start_new_session=True)"
        )
        for _ in range(1200):
            if session.show()["generation"] == 2:
                break
            time.sleep(0.05)
        assert session.show()["generation"] == 2
        session.works()
        notebook = json.loads(rest.http.get(f"{session.path}/notebook").text)
        notes = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
        assert any("SIGKILL" in note for note in notes)


def test_expecting_another_generation_runs_nothing(rest: Rest, unharmed: LiveSession) -> None:
    answer = rest.http.post(f"{unharmed.path}/executions", json={"code": "open('x','w')", "expect_generation": 7})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "generation_mismatch")
    assert unharmed.run("import os; os.path.exists('x')")["outputs"][0]["data"]["text/plain"] == "False"


def test_the_service_keeps_its_memory_whatever_is_printed(rest: Rest, service: RunningService) -> None:
    def peak() -> int:
        rows = Path(f"/proc/{service.service_pid}/status").read_text().splitlines()
        return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM:"))

    with rest.session() as session:
        session.run("for i in range(2000): print('x' * 999)")
        before = peak()
        for code in ("for i in range(100_000): print('x' * 999)", "print('x' * 100_000_000)"):
            assert session.run(code)["status"] == "ok"
        assert peak() - before < 50_000_000
