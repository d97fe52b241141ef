"""The variables of a session, over the service: arrays and tables, while code runs, by each caller that may ask."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from sandcell import Client, Conflict, NotFound, Session
from sandcell.models.inspection import Variable

TABLES = """
import numpy as np, pandas as pd
a = np.zeros((3, 4))
b = np.arange(5, dtype='uint8')[::2]
c = np.array(7)
d = np.array([object()])
e = np.float64(1.5)
f = np.int32(-4)
g = np.array([(1, 2.0)], dtype=[('x', 'i4'), ('y', 'f8')])
frame = pd.DataFrame({'n': [1, 2, 3], 's': ['a', 'b', 'c'], 't': pd.date_range('2020', periods=3)})
words = pd.DataFrame({'s': ['a', 'b']}, index=['x', 'y'])
dates = pd.DataFrame({'n': [1.0, 2.0]}, index=pd.date_range('2020', periods=2))
empty = pd.DataFrame()
column = frame['n']
"""


def found(session: Session) -> dict[str, Variable]:
    return {each.name: each for each in session.variables().variables}


def test_arrays_and_tables_say_their_shape_and_none_of_their_data(session: Session) -> None:
    assert session.run(TABLES).error is None
    told = found(session)
    assert told["a"] == Variable("a", "ndarray", [3, 4], 3, 96, "float64")
    assert told["b"] == Variable("b", "ndarray", [3], 3, 3, "uint8")
    assert told["c"] == Variable("c", "ndarray", [], None, 8, "int64")
    assert told["d"].preview == "object"
    assert (told["e"].type, told["e"].preview) == ("float64", "1.5")
    assert (told["f"].type, told["f"].preview) == ("int32", "-4")
    assert told["g"].shape == [1]
    assert told["frame"] == Variable("frame", "DataFrame", [3, 3], 3)
    assert told["dates"] == Variable("dates", "DataFrame", [2, 1], 2, 16)  # numpy has all of it
    assert told["column"] == Variable("column", "Series", [3], 3, 24)
    assert told["words"].type == told["empty"].type == "DataFrame"
    assert told["np"].preview == "<module numpy>"


def test_an_array_has_its_shape_however_many_modules_came_before_numpy(session: Session) -> None:
    session.restart()
    code = (
        "import sys, types\nfor n in range(2000):\n    sys.modules[f'm{n}'] = types.ModuleType(f'm{n}')\n"
        "import numpy as np\na = np.zeros((3, 4))"
    )
    assert session.run(code).error is None
    assert found(session)["a"].shape == [3, 4]
    session.restart()


def test_a_frame_whose_class_was_tampered_with_runs_none_of_it(session: Session) -> None:
    code = (
        "import time, pandas as pd\ncalled = []\nkept = pd.DataFrame.shape\n"
        "def bad(self, *a):\n    called.append(1); time.sleep(60)\n"
        "frame = pd.DataFrame({'n': [1]})\n"
        "pd.DataFrame.shape = pd.DataFrame.__len__ = pd.DataFrame.__repr__ = pd.DataFrame._mgr = property(bad)\n"
        "called.clear()"
    )
    assert session.run(code).error is None
    assert found(session)["frame"].type == "DataFrame"
    assert session.run("len(called)").text == "0"
    session.restart()


def test_it_is_answered_while_code_sleeps_and_many_ask_at_once(session: Session) -> None:
    running = session.submit("answer = 42\nimport time; time.sleep(60)")
    until = time.monotonic() + 120
    while "answer" not in found(session) and time.monotonic() < until:
        time.sleep(0.05)
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda _number: found(session)["answer"].preview, range(24)))
    assert told == ["42"] * 24
    assert session.get_execution(running.id).status == "running"
    session.interrupt_execution(running.id)
    assert session.wait(running.id).status == "interrupted"


def test_it_says_of_which_kernel_it_speaks(session: Session) -> None:
    session.run("before = 1")
    generation = session.variables().generation
    session.restart()
    after = session.variables()
    assert after.generation == generation + 1
    assert after.variables == []


def test_code_that_lets_nothing_else_run_is_told_apart_in_time(session: Session, http: httpx.Client) -> None:
    running = session.submit("import re; re.match('(a+)+b', 'a' * 60)")
    until = time.monotonic() + 120
    while session.get_execution(running.id).status != "running" and time.monotonic() < until:
        time.sleep(0.05)
    answer = http.get(f"/v1/sessions/{session.id}/variables")
    while answer.status_code == 200 and time.monotonic() < until:  # the code has not come to its last line
        answer = http.get(f"/v1/sessions/{session.id}/variables")
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_passed")
    session.restart()
    assert session.wait(running.id).status == "died"


def test_a_kernel_that_forges_its_answer_gets_an_error(session: Session, http: httpx.Client) -> None:
    for lie in (
        "{'status': 'ok', 'variables': 5}",
        "{'status': 'ok', 'variables': [], 'omitted': -1}",
        "{'status': 'ok', 'variables': [{'name': 'x' * 2_000_000, 'type': 'y'}]}",
        "{'status': 'ok', 'variables': [{'name': 'x', 'type': 'y', 'shape': [1] * 100}]}",
    ):
        assert session.run(f"get_ipython().kernel._variables = lambda: {lie}").error is None
        answer = http.get(f"/v1/sessions/{session.id}/variables")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "sandbox_unavailable")
        assert "answer about its variables" in answer.json()["error"]["message"]
    session.restart()


def test_others_and_ended_sessions(client: Client) -> None:
    with pytest.raises(NotFound):
        client.variables(str(uuid.uuid4()))
    with client.session() as ended:
        pass
    with pytest.raises(Conflict):
        client.variables(ended.id)
