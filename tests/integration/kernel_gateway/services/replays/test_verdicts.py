"""What a replay on real sandboxes says of each cell."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json

import nbformat
import pytest

from sandcell import Client, InvalidRequest
from tests.integration.kernel_gateway.services.replays.conftest import (
    code,
    display,
    notebook,
    on,
    result,
    stream,
    verdicts,
)

TABLE = "class Table:\n    def _repr_html_(self): return '<table><tr><td>1</td><td>2.0</td></tr></table>'\nTable()"


def test_a_session_that_was_recorded(client: Client) -> None:
    with client.session() as session:
        session.run("x = 41")
        session.run("print(object()); x + 1")
        session.run("import random\n''.join(random.choices('abcdefghij', k=20))")
        session.run("1/0")
        session.command("echo hi; exit 3")
        session.run("y = 2", clear_context=True)
        session.run("x")
        session.run("let a = 40; console.log(a + 2)", language="javascript")
        session.run(TABLE)
        session.run("bar = display('0 %', display_id=True)")
        session.run("bar.update('100 %')")
        session.run("import time\nprint('begun')\ntime.sleep(60)", timeout_seconds=1)
        session.restart()
        session.run("y")
        replay = client.replay(session_id=session.id)
        recorded = nbformat.reads(session.notebook(), as_version=4)
    assert (replay.status, replay.error, replay.of) == ("done", None, session.id)
    said = [each.verdict for each in replay.verdicts]
    address = next(each for each in replay.verdicts if "address" in each.why)
    assert (address.verdict, address.why) == ("same", "Put aside: 1 address that differs from run to run.")
    random = next(number for number, verdict in enumerate(said) if verdict != "same")
    assert said.count("same") == len(said) - 1, replay.verdicts
    assert said[random] == "not_deterministic", replay.verdicts
    assert not replay.same
    assert replay.counts == {"not_deterministic": 1, "same": len(said) - 1}
    numbers = [number for number, cell in enumerate(recorded.cells, 1) if cell.cell_type == "code"]
    assert [each.number for each in replay.verdicts] == numbers
    nbformat.validate(nbformat.from_dict(replay.notebook))
    assert [cell["source"] for cell in replay.notebook["cells"]] == [cell.source for cell in recorded.cells]
    assert not replay.session_live
    assert client.get_session(replay.session_id or "").status == "TERMINATED"
    own = nbformat.reads(client.notebook(replay.session_id or ""), as_version=4)
    faces = {cell.metadata.sandcell.get("face") for cell in own.cells if cell.cell_type == "code"}
    assert faces == {"replay"}


def test_a_notebook_from_elsewhere(client: Client) -> None:
    given = notebook(
        {"cell_type": "markdown", "metadata": {}, "source": "# Sums"},
        code("x = 20\nprint(x)", stream("20\n")),
        code("x * 2", result("41")),
        code("y + 1", result("3")),
        code("open('data.csv')"),
        code("print('new')", ran=False),
        code("import time\ntime.sleep(600)"),
        code("import os\nos._exit(3)"),
        code("print(x)", stream("20\n")),
    )
    replay = client.replay(given, timeout_seconds=3)
    assert verdicts(replay) == {
        2: "same",
        3: "different",
        4: "needs_hidden_state",
        5: "failed",
        6: "new",
        7: "timed_out",
        8: "failed",
        9: "not_run",
    }
    assert on(replay, 3).diff.splitlines()[-2:] == ["-41", "+40"]
    assert "y" in on(replay, 4).why
    assert "data.csv" in on(replay, 5).why + on(replay, 5).diff
    assert "The kernel died" in on(replay, 8).why
    assert "the kernel died in cell 8" in on(replay, 9).why
    assert (replay.status, replay.same) == ("done", False)
    assert replay.notebook["cells"][2]["outputs"][0]["data"]["text/plain"] == "40"
    nbformat.validate(nbformat.from_dict(replay.notebook))


def test_displays_that_later_cells_update_are_compared_as_they_are_in_the_end(client: Client) -> None:
    given = notebook(
        code("bar, other = (display(n, display_id=True) for n in (1, 2))", display("'done'"), display("'done'")),
        code("one = display(1, display_id=True)", display("1")),
        code("bar.update('done'); other.update('done')"),
        code("one.update('2')"),
    )
    replay = client.replay(given)
    assert verdicts(replay) == {1: "same", 2: "different", 3: "same", 4: "same"}, replay.verdicts
    assert replay.notebook["cells"][0]["outputs"][1]["data"] == {"text/plain": "'done'"}


def test_a_notebook_that_is_the_same(client: Client) -> None:
    replay = client.replay(notebook(code("print(1)", stream("1\n")), code("2", ran=False)))
    assert (replay.counts, replay.same) == ({"new": 1, "same": 1}, True)


def test_times_of_the_run_cost_no_second_one_and_strictness_puts_nothing_aside(client: Client) -> None:
    with client.session() as session:
        session.run("open('made', 'w').close()")
        session.run(
            "import datetime, os\nprint(datetime.datetime.now(), os.stat('made').st_mtime)\n!ls -l --full-time made"
        )
        session.run("for n in range(1_500): print(n, 'of many lines' * 24)")
        replay = client.replay(session_id=session.id)
        strict = client.replay(session_id=session.id, strict=True)
    assert [each.verdict for each in replay.verdicts] == ["same"] * 3, replay.verdicts
    assert "of the run's own clock" in replay.verdicts[1].why
    assert "again" not in [event.event for event in client.replay_events(replay.id)]
    assert [each.verdict for each in strict.verdicts] == ["same", "different", "same"]
    assert "again" not in [event.event for event in client.replay_events(strict.id)]


def test_the_middle_of_a_long_text_counts(client: Client) -> None:
    with client.session() as session:
        session.run("changed = ''")
        session.run("for n in range(1_500): print(n, 'of many lines' * 24, changed if n == 750 else '')")
        given = json.loads(session.notebook())
    cell = next(cell for cell in given["cells"] if cell["source"] == "changed = ''")
    cell["source"] = "changed = '!'"
    replay = client.replay(json.dumps(given).encode())
    assert [each.verdict for each in replay.verdicts] == ["same", "different"]
    assert "by its SHA-256" in replay.verdicts[1].why


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "empty"),
        (b'{"cells": [', "not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[]", "JSON object"),
        (b"{}", "nbformat"),
        (notebook(code("1"), {"cell_type": "cod"}), "cell 2"),
        (notebook(code("1"), code("2", {"output_type": "strange"})), "cell 2: output 1"),
    ],
)
def test_what_is_no_notebook_is_refused_with_the_cell_named(client: Client, given: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=r"notebook|cell") as caught:
        client.replay(given)
    assert said in caught.value.message


def test_a_language_that_the_environment_has_not_is_named_with_those_it_has(client: Client) -> None:
    given = notebook(code("1"), kernelspec={"name": "ir", "language": "R", "display_name": "R"})
    replay = client.replay(given)
    assert not replay.same
    assert "no language 'r'; there are: python" in str(replay)


def test_what_tools_write_that_is_not_quite_json_is_read(client: Client) -> None:
    given = b"\xef\xbb\xbf" + notebook(code("print(1)", stream("1\n"))).replace(
        b'"metadata": {}', b'"metadata": {"a": NaN}'
    )
    assert client.replay(given).same
