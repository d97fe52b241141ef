"""Rows of tables by a session's kernel, over the service: between cells, as text, page by page."""

from __future__ import annotations

import pytest

from sandcell import Client, Conflict, Forbidden, InvalidRequest, NotFound, ServiceUnavailable, Session
from tests.integration.kernel_gateway.services.executions.test_inspection import PATIENT, wait_running
from tests.running_service import RunningService

CODE = """
import numpy as np, pandas as pd
frame = pd.DataFrame({"city": ["Oslo", None, "Bergen"], "mm": [1.5, 22.25, float("nan")]}, index=["a", "b", "c"])
twice = pd.DataFrame([[1, 2]], columns=["same", "same"])
wide = pd.DataFrame(np.zeros((3, 500), dtype="int8"))
long = pd.Series(range(5_000), name="n")
texts = pd.Series(["é" * 10_000] * 1_000)
grid = np.arange(6).reshape(3, 2)
empty = pd.DataFrame()
word = "Oslo"
class Odd:
    shape = (1,)
    def __getitem__(self, wanted): raise SystemExit
odd = Odd()
"""


@pytest.fixture(scope="module")
def prepared(session: Session) -> Session:
    assert session.run(CODE).error is None
    return session


def test_rows_of_frames_series_and_arrays(prepared: Session) -> None:
    table = prepared.rows("frame", timeout=PATIENT)
    assert [each.name for each in table.columns] == ["city", "mm"]
    assert table.columns[1].type == "float64"
    assert (table.first, table.total, table.wide) == (0, 3, 2)
    assert table.rows[0] == ["a", "Oslo", "1.5"]
    assert [row[0] for row in table.rows] == ["a", "b", "c"]
    assert prepared.rows("frame", 2, timeout=PATIENT).rows == [["c", "Bergen", "nan"]]
    assert prepared.rows("twice", timeout=PATIENT).rows == [["0", "1", "2"]]
    assert prepared.rows("grid", 1, 1, timeout=PATIENT).rows == [["1", "2", "3"]]
    series = prepared.rows("long", 4_990, 1_000, timeout=PATIENT)
    assert (len(series.rows), series.total, series.columns[0].name) == (10, 5_000, "n")
    assert prepared.rows("empty", timeout=PATIENT).rows == prepared.rows("frame", 99, timeout=PATIENT).rows == []


def test_an_answer_is_bounded(prepared: Session) -> None:
    wide = prepared.rows("wide", timeout=PATIENT)
    assert (len(wide.columns), wide.wide) == (200, 500)
    texts = prepared.rows("texts", 0, 1_000, timeout=PATIENT)
    assert len(texts.rows[0][1]) == 200
    assert sum(len(each.encode()) for row in texts.rows for each in row) < 1_100_000


def test_what_is_no_table_and_what_fails_is_said(prepared: Session) -> None:
    with pytest.raises(NotFound):
        prepared.rows("nothing", timeout=PATIENT)
    with pytest.raises(InvalidRequest, match="no table"):
        prepared.rows("word", timeout=PATIENT)
    with pytest.raises(ServiceUnavailable, match="SystemExit"):
        prepared.rows("odd", timeout=PATIENT)
    assert prepared.run("word").text == "'Oslo'"


def test_nothing_is_recorded_and_code_that_runs_is_not_disturbed(
    prepared: Session, service: RunningService, client: Client
) -> None:
    ran = len(prepared.list_executions(limit=100).items)
    prepared.rows("frame", timeout=PATIENT)
    assert len(prepared.list_executions(limit=100).items) == ran
    running = prepared.submit("import time; time.sleep(600)")
    wait_running(prepared, running.id)
    with pytest.raises(Conflict):
        prepared.rows("frame", timeout=PATIENT)
    prepared.interrupt_execution(running.id)
    assert prepared.wait(running.id).status == "interrupted"
    token = client.create_token("admin", "looks at rows", scope="read").token
    with Client(service.url, token) as reader, pytest.raises(Forbidden, match="scope run"):
        reader.rows(prepared.id, "frame")
