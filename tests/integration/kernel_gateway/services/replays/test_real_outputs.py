"""What a real kernel shows when the same code runs three times: pandas, matplotlib, times, paths, addresses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernels.replay import CellVerdict, Clock, Showing, judge
from sandcell import Client, Session

PREPARE = """
import datetime, logging, os, sys, tempfile, threading, time, warnings
import matplotlib.pyplot as plt, numpy as np, pandas as pd
from IPython.display import HTML, JSON, SVG, Image, Markdown, clear_output, display
runs, kept, alive = 0, [], []
def keep(*objects):  # so that no other one has its address, as in another process
    kept[:] = objects
    alive.extend(objects)
def plot(shift=0.0, **options):
    figure, axes = plt.subplots(**options)
    axes.plot(np.cumsum(np.random.default_rng(1).normal(size=200)) + shift)
    axes.plot([0, 1], [0, 20])
    plt.show()
def noise():
    get_ipython().run_line_magic("config", "InlineBackend.figure_formats = ['png']")
    plt.imshow(np.random.default_rng(2).normal(size=(200, 200)))
    plt.show()
def table(shift=0.0):
    values = np.random.default_rng(1).normal(size=(30, 3)) + shift
    return pd.DataFrame(values, columns=list("abc"), index=pd.date_range("2024-01-01", periods=30))
"""

SAME = {
    "a plot": "plot()",
    "a plot in SVG": "%config InlineBackend.figure_formats = ['svg']\nplot()",
    "a picture of noise": "noise()",
    "a table": "table()",
    "a long table": "pd.set_option('display.max_rows', 2000)\npd.concat([table()] * 20)",
    "a table to the last digit": "runs += 1; table(runs * 1e-14)",
    "a table as text": "print(table())",
    "a description": "table().describe()",
    "what pandas says of a table": "table().info()",
    "a series": "table()['a']",
    "a pivot": "table().groupby(table().index.month).agg(['mean', 'std'])",
    "an array": "np.linalg.inv(np.random.default_rng(3).normal(size=(5, 5)))",
    "objects": "class A: pass\nkeep(A(), lambda: 1); print(*kept, threading.current_thread()); [kept[0], id(kept[0])]",
    "now": "print(datetime.datetime.now(), time.ctime(), time.time())\n[datetime.datetime.now(), pd.Timestamp.now()]",
    "now in a table": "pd.DataFrame({'at': [pd.Timestamp.now()], 'n': [1]})",
    "logging": "logging.basicConfig(format='%(asctime)s %(message)s', force=True)\nlogging.warning('ready')",
    # Long enough for a clock of 4 ms to count some of both, user and system: "0 ns" in both replays would be news.
    "%time": "%time sum(range(2_000_000)) + len(os.urandom(1 << 23))",
    "%timeit": "%timeit -n 10 -r 2 sum(range(1000))",
    "%%time": "%%time\nx = list(range(1_000_000)) + [os.urandom(1 << 23)]\nprint(sum(x[:-1]))",
    "elapsed": "start = time.perf_counter(); time.sleep(0.01)\nprint(f'took {time.perf_counter() - start:.6f} s')",
    "temporary files": "print(tempfile.mkdtemp(), tempfile.NamedTemporaryFile().name)",
    "a process": "runs += 1; print('pid', os.getpid() + runs)",
    "random text": "import uuid; print(uuid.uuid4())",
    "a warning": "with warnings.catch_warnings():\n    warnings.simplefilter('always')\n    warnings.warn('old')",
    "progress": "for n in range(3): print(f'\\r{n}/3 {time.time()}', end='')\nprint('\\r' + 'done'.ljust(40))",
    "two streams": "for n in range(5): print(n); print(-n, file=sys.stderr)",
    "an exception": "keep(object()); raise ValueError(f'no {kept}')",
    "a missing file": "open(tempfile.mkdtemp() + '/missing.csv')",
    "cleared": "for n in range(3): clear_output(wait=True); print(n)",
    "displays": "display(HTML('<b>1</b>'), Markdown('*2*'), JSON({'a': [1.5]}), table().head(2))",
    "a handle": "h = display('begun', display_id=True); h.update('done')",
    "a shell line": "!echo $HOME; date",
}

DIFFERENT = {
    "a plot of other data": "runs += 1; plot(runs / 10)",
    "a plot of another size": "runs += 1; plot(figsize=(4 + runs, 3))",
    "a plot with another title": "runs += 1; plt.plot([1, 2]); plt.title(f'{runs} runs'); plt.show()",
    "a table of other data": "runs += 1; table(runs / 100)",
    "a table with another row": "runs += 1; table().head(runs % 7 + 1)",
    "another number": "runs += 1; runs",
    "random numbers": "np.random.default_rng().normal(size=3)",
    "another exception": "runs += 1; raise ValueError(runs)",
    "another date of data": "runs += 1; print(datetime.date(1990 + runs, 1, 1))",
}


@pytest.fixture(scope="module")
def session(client: Client) -> Iterator[Session]:
    with client.session() as session:
        prepared = session.run(PREPARE)
        assert prepared.status == "ok", prepared.error
        yield session


def run(session: Session, code: str) -> tuple[str, Showing]:
    found = session.run(code)
    assert found.outputs
    return found.status, Showing(found.outputs, Clock.of(None, found.execution.started_at, found.execution.ended_at))


def judged(*runs: tuple[str, Showing]) -> CellVerdict:
    (before, recorded), (status, first), (after, second) = runs
    return judge(recorded, status, first, second, recorded_status=before, second_status=after)


@pytest.mark.parametrize("name", SAME)
def test_the_same_code_shows_the_same(session: Session, name: str) -> None:
    found = judged(*(run(session, SAME[name]) for _ in range(3)))
    assert found.verdict == "same", found


@pytest.mark.parametrize("name", DIFFERENT)
def test_code_that_shows_something_else_differs(session: Session, name: str) -> None:
    recorded, first = (run(session, DIFFERENT[name]) for _ in range(2))
    found = judged(recorded, first, first)
    assert found.verdict == "different"
    assert found.diff
    assert found.why
