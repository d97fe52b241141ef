"""Rows of tables, what is in their columns and values as a whole, by a session's kernel, over the service."""

from __future__ import annotations

import base64

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
class Columnar:
    "What a frame of Polars, which the image lacks, says of itself."
    columns, dtypes, shape = ["city", "mm"], ["String", "Float64"], (3, 2)
    def __init__(self, rows): self.own = rows
    def __len__(self): return len(self.own)
    def __getitem__(self, wanted): return Columnar([row for row in self.own[wanted[0]]])
    def iter_rows(self): return iter(self.own)
columnar = Columnar([("Oslo", 1.5), ("Bergen", 22.25), (None, 3.0)])
class Sheet:
    "What one of openpyxl's says of itself."
    def iter_rows(self): return iter(())
    def __getitem__(self, wanted): raise TypeError(wanted)
sheet = Sheet()
from datetime import timedelta, timezone
zone = timezone(timedelta(hours=1))
class Loud:
    def __str__(self): raise ValueError("x" * 1_000)
many = pd.DataFrame({
    "whole": [1, 2, 3, 100],
    "real": [0.5, float("nan"), float("inf"), -0.5],
    "large": np.array([0, 2**64 - 1, 2**63, 1], dtype="u8"),
    "when": pd.to_datetime(["2026-01-01", "2026-01-03", None, "2026-01-02"]),
    "zone": pd.to_datetime(["2026-01-01T02:00", "2026-01-01T03:00", None, None]).tz_localize(zone),
    "took": pd.to_timedelta([1, 3, 2, None], unit="h"),
    "kind": pd.Categorical(["a", "b", "a", None], categories=["a", "b", "c"]),
    "true": [True, False, True, True],
    "maybe": pd.array([1, None, 2, 3], dtype="Int64"),
    "text": ["x" * 1_000, "y", "x" * 1_000, None],
    "same": [7.0] * 4,
    "loud": ["quiet", Loud(), Loud(), None],
    "none": [None] * 4,
})
sampled = np.arange(2_500_000)
structured = np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])
hidden = np.ma.array([1, 2, 900], mask=[False, False, True])
matrix = np.matrix([[1.0, 2.0], [3.0, np.nan]])
grey = np.array([[0.0, 50.0], [100.0, np.nan]])
colour = np.array([[[255, 0, 300], [1, 2, 3]]] * 2)
large = np.tile(np.arange(1_000), (600, 1))
nested = {"rain": [1.5, "mm"], "long": list(range(100_000))}
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


def test_rows_of_a_frame_without_an_index(prepared: Session) -> None:
    found = prepared.rows("columnar", first=1, count=5, timeout=PATIENT)
    assert [(each.name, each.type) for each in found.columns] == [("city", "String"), ("mm", "Float64")]
    assert found.rows == [["1", "Bergen", "22.25"], ["2", "None", "3.0"]]
    assert (found.total, found.wide) == (3, 2)


def test_an_answer_is_bounded(prepared: Session) -> None:
    wide = prepared.rows("wide", timeout=PATIENT)
    assert (len(wide.columns), wide.wide) == (200, 500)
    texts = prepared.rows("texts", 0, 1_000, timeout=PATIENT)
    assert len(texts.rows[0][1]) == 200
    assert sum(len(each.encode()) for row in texts.rows for each in row) < 1_100_000


def test_columns_are_summarized_in_the_sandbox(prepared: Session) -> None:
    table = prepared.rows("many", count=1, histograms=True, timeout=PATIENT)
    while table.stopped:  # a busy machine had no time for the last ones
        table = prepared.rows("many", count=1, histograms=True, timeout=PATIENT)
    assert table.summarized == 4
    about = {each.name: each.summary for each in table.columns}
    seen = {name: (each.minimum, each.maximum, each.missing, sum(each.counts)) for name, each in about.items() if each}
    assert seen["whole"] == ("1", "100", 0, 4)
    assert seen["real"] == ("-0.5", "inf", 1, 2)
    assert seen["large"] == ("0", str(2**64 - 1), 0, 4)
    assert seen["when"] == ("2026-01-01T00:00:00", "2026-01-03T00:00:00", 1, 3)
    assert seen["zone"] == ("2026-01-01T01:00:00", "2026-01-01T02:00:00", 2, 2)
    assert seen["took"] == ("1:00:00", "3:00:00", 1, 3)
    assert seen["maybe"] == ("1", "3", 1, 3)
    assert seen["same"] == ("7.0", "7.0", 0, 4)
    whole, same, kind, true, text, loud, none = (
        about[each] for each in ("whole", "same", "kind", "true", "text", "loud", "none")
    )
    assert whole is not None
    assert (whole.counts, whole.edges[:2]) == ([3, *[0] * 18, 1], ["1", "5.95"])
    assert same is not None
    assert (same.counts, same.edges) == ([4], ["7", "7"])
    assert kind is not None
    assert (kind.distinct, kind.missing, [(each.value, each.count) for each in kind.frequent]) == (
        2,
        1,
        [("a", 2), ("b", 1)],
    )
    assert true is not None
    assert [(each.value, each.count) for each in true.frequent] == [("True", 3), ("False", 1)]
    assert text is not None
    assert (text.frequent[0].value, text.missing) == ("x" * 77 + "...", 1)
    assert loud is not None
    assert (loud.problem, loud.frequent) == ("ValueError: " + "x" * 65 + "...", [])
    assert none is not None
    assert (none.missing, none.distinct) == (4, 0)


def test_arrays_are_summarized_and_long_ones_by_a_sample(prepared: Session) -> None:
    sampled = prepared.rows("sampled", count=1, histograms=True, timeout=PATIENT)
    assert (sampled.total, sampled.summarized) == (2_500_000, 833_334)
    [column] = sampled.columns
    assert column.summary is not None
    assert max(column.summary.counts) - min(column.summary.counts) <= 2
    wanted = {"structured": ("", 0, 1), "hidden": ("2", 1, None), "grid": ("4", 0, None), "matrix": ("3.0", 0, None)}
    for name, said in wanted.items():
        summary = prepared.rows(name, histograms=True, timeout=PATIENT).columns[0].summary
        assert summary is not None
        assert (summary.maximum, summary.missing, summary.distinct) == said
    assert prepared.rows("empty", histograms=True, timeout=PATIENT).columns == []
    assert prepared.rows("frame", timeout=PATIENT).columns[0].summary is None


def test_arrays_are_pictures_and_values_are_whole_texts(prepared: Session) -> None:
    grey = prepared.rows("grey", show="picture", timeout=PATIENT).picture
    assert grey is not None
    assert (grey.minimum, grey.maximum, grey.height, grey.width, grey.channels) == ("0", "100", 2, 2, 2)
    assert base64.b64decode(grey.data) == bytes([0, 255, 128, 255, 255, 255, 0, 0])
    matrix = prepared.rows("matrix", show="picture", timeout=PATIENT).picture
    assert matrix is not None
    assert base64.b64decode(matrix.data) == bytes([0, 255, 128, 255, 255, 255, 0, 0])
    colour = prepared.rows("colour", show="picture", timeout=PATIENT).picture
    assert colour is not None
    assert base64.b64decode(colour.data) == bytes([255, 0, 255, 255, 1, 2, 3, 255] * 2)
    large = prepared.rows("large", show="picture", timeout=PATIENT).picture
    assert large is not None
    assert (large.height, large.width, large.down, large.across) == (200, 250, 3, 4)
    for name in ("word", "frame", "long"):
        with pytest.raises(InvalidRequest, match="no picture"):
            prepared.rows(name, show="picture", timeout=PATIENT)
    nested = prepared.rows("nested", show="text", timeout=PATIENT)
    assert nested.text is not None
    assert nested.text.startswith("{'rain': [1.5, 'mm'], 'long': [0, 1, 2, ")
    assert (len(nested.text), nested.cut) == (100_000, True)
    assert prepared.rows("word", show="text", timeout=PATIENT).text == "'Oslo'"
    with pytest.raises(NotFound):
        prepared.rows("nothing", show="text", timeout=PATIENT)


def test_what_is_no_table_and_what_fails_is_said(prepared: Session) -> None:
    with pytest.raises(NotFound):
        prepared.rows("nothing", timeout=PATIENT)
    for name in ("word", "sheet"):
        with pytest.raises(InvalidRequest, match="no table"):
            prepared.rows(name, timeout=PATIENT)
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
