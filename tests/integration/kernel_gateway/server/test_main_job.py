"""The main job: a session remembers, its cells become a notebook, its files outlive it."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import nbformat
import pytest

from kernels.notebook import chain
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def live(service: RunningService) -> Iterator[LiveSession]:
    """One session for what does not mind what ran in it before."""
    with Rest(service) as rest, rest.session() as session:
        yield session


def test_globals_persist_from_call_to_call(rest: Rest) -> None:
    with rest.session() as session:
        assert session.run("x = 41")["status"] == "ok"
        outcome = session.run("x + 1")
        assert outcome["outputs"] == [
            {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}, "execution_count": 2}
        ]
        assert (outcome["execution_count"], outcome["generation"]) == (2, 1)


def test_two_sessions_share_nothing(rest: Rest, live: LiveSession) -> None:
    live.run("x = 1; open('f', 'w').write('x')")
    with rest.session() as two:
        assert two.run("x")["error"]["name"] == "NameError"
        assert two.run("import os; os.listdir()")["outputs"][0]["data"]["text/plain"] == "[]"


def test_a_plot_is_an_image_in_the_answer_and_in_the_notebook(rest: Rest, live: LiveSession) -> None:
    outcome = live.run("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()")
    image = next(one for one in outcome["outputs"] if one["output_type"] == "display_data")
    assert base64.b64decode(image["data"]["image/png"]).startswith(b"\x89PNG")
    notebook = nbformat.reads(rest.http.get(f"{live.path}/notebook").text, as_version=4)
    nbformat.validate(notebook)
    assert any("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))


def test_every_execution_is_a_cell_also_those_that_failed(rest: Rest) -> None:
    with rest.session() as session:
        session.run("print('one')")
        session.run("1 / 0")
        session.run("import os; os._exit(3)")
        session.run("'after'")
        notebook = nbformat.reads(rest.http.get(f"{session.path}/notebook").text, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code] == ["print('one')", "1 / 0", "import os; os._exit(3)", "'after'"]
    assert code[0].outputs[0].text == "one\n"
    assert code[1].outputs[0].ename == "ZeroDivisionError"
    story = [cell.source for cell in notebook.cells][notebook.cells.index(code[2]) :]
    assert len(story) == 4
    assert "status 3" in story[1]
    assert "generation 2" in story[2]
    assert "status 3" not in story[2], "the cause is told once"
    assert story[3] == "'after'"


def test_the_notebook_is_kept_beside_the_workspace_and_large_outputs_beside_it(
    rest: Rest, service: RunningService
) -> None:
    session = rest.session()
    session.run("from IPython.display import SVG")
    session.run("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\">' + 5_000_000 * 'x' + '</svg>')")
    session.run("'small'")
    assert len(rest.http.get(f"{session.path}/notebook").content) < 1_000_000
    session.stop()
    kept = service.data_dir / "store" / "workspaces" / "sessions" / session.id
    notebook = nbformat.read(kept / "history.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert (kept / "history.ipynb").read_bytes() == rest.http.get(f"{session.path}/notebook").content
    manifest = chain.read_manifest((kept / "history.json").read_bytes())
    assert chain.verify(notebook, manifest) == chain.Verified(whole=True, cells=len(notebook.cells))
    files = [
        name
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for name in output.get("metadata", {}).get("sandcell", {}).get("files", {}).values()
    ]
    assert [(kept / name).stat().st_size > 5_000_000 for name in files] == [True]


def test_an_idle_session_ends_and_its_files_wait_for_the_next(rest: Rest) -> None:
    session = rest.session(idle_timeout_seconds=10)
    session.run(
        "open('kept.txt', 'w').write('still here')\nimport os; os.makedirs('a/b'); open('a/b/c', 'w').write('c')"
    )
    for _ in range(1200):
        if session.show()["status"] == "TERMINATED":
            break
        time.sleep(0.1)
    assert session.show()["ended"]["reason"] == "idle_timeout"
    listed = rest.get(f"/v1/workspaces/{session.workspace_id}/files?recursive=true")
    assert {one["path"] for one in listed["items"] if one["kind"] == "file"} == {"kept.txt", "a/b/c"}
    assert rest.http.get(f"/v1/workspaces/{session.workspace_id}/files/kept.txt").text == "still here"
    with rest.session(workspace_id=session.workspace_id) as later:
        outcome = later.run("print(open('kept.txt').read(), open('a/b/c').read())")
        assert outcome["stdout"] == "still here c\n"


def test_files_deleted_in_the_session_are_gone_from_the_workspace(rest: Rest) -> None:
    session = rest.session()
    session.run("open('a', 'w').write('a'); open('b', 'w').write('b')")
    session.run("import os; os.remove('a')")
    session.stop()
    listed = rest.get(f"/v1/workspaces/{session.workspace_id}/files")
    assert [one["path"] for one in listed["items"]] == ["b"]


def test_files_go_in_and_out_while_the_session_lives(rest: Rest, live: LiveSession) -> None:
    content = bytes(range(256)) * 4096
    written = rest.http.put(f"{live.path}/files/data/in.bin", content=content)
    assert written.status_code in (200, 201), written.text
    outcome = live.run("data = open('data/in.bin', 'rb').read(); open('out.bin', 'wb').write(data[::-1])")
    assert outcome["status"] == "ok"
    assert rest.http.get(f"{live.path}/files/out.bin").content == content[::-1]
    assert rest.http.delete(f"{live.path}/files/out.bin").is_success
    assert rest.http.get(f"{live.path}/files/out.bin").status_code == 404


def test_a_command_runs_beside_the_kernel(rest: Rest, live: LiveSession) -> None:
    live.run("open('beside', 'w').write('1')")
    shown = rest.post(f"{live.path}/commands", command="cat beside; echo problem >&2; exit 3")
    assert (shown["stdout"], shown["stderr"], shown["exit_code"]) == ("1", "problem\n", 3)
