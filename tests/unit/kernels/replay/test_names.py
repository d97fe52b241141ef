"""Names that a notebook's cells read and none of them defines."""

from __future__ import annotations

import tracemalloc

import pytest

from kernels.execution.outputs import Output
from kernels.replay import find_hidden_names, hidden, missing_name
from kernels.replay.ipython_source import CellSource, read
from tests.unit.kernels.replay.shown import error, stdout

Cells = list[str]
CASES: dict[str, tuple[Cells, dict[int, list[str]]]] = {
    "a name of no cell": (["x = 1", "y = x + z"], {1: ["z"]}),
    "a name of a later cell": (["print(x)", "x = 1"], {0: ["x"]}),
    "read before it is bound": (["print(x)\nx = 1"], {0: ["x"]}),
    "its own former value": (["df = df.dropna()"], {0: ["df"]}),
    "augmented": (["total += 1"], {0: ["total"]}),
    "augmented in a loop": (["for i in range(3):\n    total += i"], {0: ["total"]}),
    "bound later in the loop": (["for i in range(3):\n    if i: print(last)\n    last = i"], {}),
    "comprehensions": (["[a for a in b if c]", "{k: v for k, v in d.items() for q in v}"], {0: ["b", "c"], 1: ["d"]}),
    "a generator": (["sum(x for x in xs)"], {0: ["xs"]}),
    "a comprehension's own name": (["[a for a in (1,)]\na"], {0: ["a"]}),
    "a function": (["def f(a, b=given):\n    c = a\n    return a + b + c + g + h\nh = 1"], {0: ["given", "g"]}),
    "a function of a later cell": (["def f():\n    return later()", "def later(): pass\nf()"], {}),
    "functions in each other": (
        ["def f():\n    v = 1\n    def g():\n        nonlocal v\n        v += w\n        return v\n    return g"],
        {0: ["w"]},
    ),
    "recursion": (["def f(n): return f(n - 1)"], {}),
    "a lambda": (["key = lambda a, *b, **c: (a, b, c, free)"], {0: ["free"]}),
    "a class": (["class A(Base):\n    x = 1\n    y = x + w\n    def m(self): return x, A"], {0: ["Base", "w", "x"]}),
    "decorators and annotations": (["@deco\ndef f(x: Ann, *, y: int = 1) -> Ret: ..."], {0: ["deco", "Ann", "Ret"]}),
    "annotations that are not evaluated": (["from __future__ import annotations", "def f(x: Ann) -> Ret: ..."], {}),
    "annotations of locals": (["def f():\n    x: Ann = 1\n    return x"], {}),
    "annotated without a value": (["x: int = y\nq: int", "q"], {0: ["y"], 1: ["q"]}),
    "globals": (["def f():\n    global g\n    g = 1\nf()\ng"], {}),
    "deleted": (["x = 1\ndel x", "x"], {1: ["x"]}),
    "deleted without being there": (["del x"], {0: ["x"]}),
    "imports": (["import a.b.c, d.e as f\nfrom g import h as i, j\na, f, i, j", "d, h"], {1: ["d", "h"]}),
    "a star import": (["from math import *", "sin(x)"], {}),
    "exec": (["exec('x = 1')", "x"], {}),
    "globals()": (["globals()['x'] = 1", "x"], {}),
    "asked for first": (["if 'x' in globals(): print(x)"], {}),
    "tried first": (["try:\n    x\nexcept NameError:\n    x = 1", "x"], {}),
    "tried otherwise": (["try:\n    x\nexcept ValueError as e:\n    print(e)\ne"], {0: ["x", "e"]}),
    "a global that its function wants to be there": (["def f():\n    global n\n    n += 1\nf()"], {}),
    "an optional import": (["try:\n    import tqdm\nexcept ImportError:\n    tqdm = None\ntqdm"], {}),
    "bound in a branch": (["if 1:\n    x = 1\nelse:\n    y = 2\nx, y"], {}),
    "a walrus": (["if (n := 3) > 2: print(n)\n[m := i for i in range(3)]\nm, n", "i"], {1: ["i"]}),
    "match": (
        ["match q:\n    case {'a': a, **rest}: a, rest\n    case [b, *c]: b, c\n    case Point(x=xx) as p: xx, p"],
        {0: ["q", "Point"]},
    ),
    "with": (["with open('x') as f, g as (h, i): f, h, i"], {0: ["g"]}),
    "async": (
        ["await foo()\nasync with a as b: b\nasync for i in c: i\n[x async for x in d]"],
        {0: ["foo", "a", "c", "d"]},
    ),
    "f-strings": (["f'{x!r:>{w}} {1+1}'"], {0: ["x", "w"]}),
    "attributes and items": (["a = [1]\na[k] = v\na.b = w"], {0: ["v", "k", "w"]}),
    "chained": (["x = y = z"], {0: ["z"]}),
    "of IPython": (["In[0], Out[1], _, __, ___, _3, _i3, _i, _oh, _dh, get_ipython", "display(exit, quit)"], {}),
    "builtins": (["print(len(__name__), ExceptionGroup, __builtins__)"], {}),
    "bound as a builtin": (["import builtins\nbuiltins.foo = 1", "foo"], {}),
    "no file": (["__file__"], {0: ["__file__"]}),
    "%time": (["%time y = slow(3)", "y"], {0: ["slow"]}),
    "%timeit": (["%timeit -n 10 -r 3 f(x)"], {0: ["f", "x"]}),
    "%%time": (["%%time\nimport os\nz = os.getcwd() + q", "z"], {0: ["q"]}),
    "%%capture": (["%%capture out\nprint(1)", "out.show()"], {}),
    "%%bash": (["%%bash\necho $x", "x"], {1: ["x"]}),
    "%%bash into a name": (["%%bash --out text\nls", "text"], {}),
    "an unknown magic": (["%%sql result <<\nselect 1", "result"], {}),
    "%run": (["%run other.py", "defined_there"], {}),
    "%reset": (["x = 1", "%reset -f", "x"], {2: ["x"]}),
    "a shell line": (["!echo {x} $y\n%matplotlib inline\nimport os\nos.x"], {}),
    "a shell line in a block": (["if a:\n    !ls\nelse:\n    %cd x"], {0: ["a"]}),
    "a shell line into a name": (["files = !ls *.csv", "files, other"], {1: ["other"]}),
    "pip": (["pip install pandas\nimport pandas as pd", "pd, np"], {1: ["np"]}),
    "help": (["plt.plot?\nnp??", "z"], {1: ["z"]}),
    "no magic in a string": (["s = '''\n%notmagic\n!no\n'''\n%matplotlib inline\ns, t"], {0: ["t"]}),
    "no Python at all": (["this is (not python", "python, elsewhere"], {1: ["elsewhere"]}),
    "indented": (["    x = 1\n    y", "x"], {0: ["y"]}),
    "a bad escape": ([r"x = '\d'", "x"], {}),
    "nothing": (["", "\n", "# only words"], {}),
}

ODD = {
    "brackets": "(" * 50_000,
    "sum": "1+" * 50_000 + "1",
    "signs": "-" * 100_000 + "1",
    "attributes": "x." * 50_000 + "x",
    "lambdas": "lambda:" * 3_000 + "1",
    "quotes": "'" * 100_000,
    "zero": "\x00",
    "surrogate": "x = '\ud800'",
    "targets": " " * 150_000 + "= %x",
    "help lines": "x?\n" * 50_000,
    "magics": "%time 1\n" * 10_000,
    "backslashes": "\\\n" * 90_000,
    "huge": "x = 1\n" * 200_000,
    "long name": "n" * 100_000,
}


@pytest.mark.parametrize("name", CASES)
def test_hidden_names(name: str) -> None:
    cells, hidden = CASES[name]
    assert find_hidden_names(cells) == hidden


@pytest.mark.parametrize("name", ODD)
def test_no_source_raises_or_accuses_much(name: str) -> None:
    found = find_hidden_names([ODD[name], "x"])
    assert sum(map(len, found.values())) <= 1


def test_names_said_of_a_cell_are_bounded() -> None:
    cells = ["\n".join(f"name_{number}" for number in range(1_000))]
    assert len(find_hidden_names(cells)[0]) == 100


def failed(name: str) -> list[Output]:
    return [stdout("before\n"), error("NameError", f"name '{name}' is not defined")]


def test_a_name_is_missing_when_no_cell_defines_it() -> None:
    cells = ["import os", "def f():\n    return helper()", "f()\nprint(table)"]
    assert missing_name(failed("table"), cells, 2) == "table"
    assert missing_name(failed("helper"), cells, 2) == "helper"
    assert missing_name(failed("os"), cells, 2) is None, "a cell that failed was to define it"
    assert missing_name(failed("elsewhere"), cells, 2) is None, "a library's own trouble"


def test_a_name_is_missing_when_only_a_later_cell_defines_it() -> None:
    cells = ["print(x)", "x = 1"]
    assert missing_name(failed("x"), cells, 0) == "x"


def test_a_name_that_only_a_function_binds_when_it_is_there_already() -> None:
    assert missing_name(failed("n"), ["def f():\n    global n\n    n += 1", "f()"], 1) is None, "it may have been bound"
    assert missing_name(failed("n"), ["def f():\n    global n\n    n += 1\nf()"], 0) == "n"


def test_a_suggestion_after_the_name_is_taken() -> None:
    outputs = [error("NameError", "name 'tabel' is not defined. Did you mean: 'table'?")]
    assert missing_name(outputs, ["table = 1", "tabel"], 1) == "tabel"


def test_no_name_is_missing_without_evidence() -> None:
    assert missing_name([error("ValueError", "name 'x' is not defined")], ["x"], 0) is None
    assert missing_name([stdout("fine")], ["x"], 0) is None
    assert missing_name(failed("x"), ["from somewhere import *", "x"], 1) is None
    assert missing_name(failed("x"), [], 3) is None
    assert missing_name([error("NameError", "odd")], ["x"], 0) is None


def not_defined(name: str) -> list[Output]:
    return [error("NameError", f"name '{name}' is not defined")]


def test_a_notebook_of_many_names_takes_memory_for_each_once() -> None:
    cells = ["=".join(f"n{cell}_{number}" for number in range(50)) + " = 1" for cell in range(400)]
    tracemalloc.start()
    try:
        assert missing_name(not_defined("absent"), [*cells, "absent"], 400) == "absent"
        assert find_hidden_names([*cells, "absent"]) == {400: ["absent"]}
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_where_one_cell_fails_the_others_are_not_read_again_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[str] = []

    def reading(source: str) -> CellSource:
        readings.append(source)
        return read(source)

    monkeypatch.setattr(hidden, "read", reading)
    cells = ["import once_upon_a_time as upon", *["upon"] * 20]
    for index in range(1, len(cells)):
        assert missing_name(not_defined("upon"), cells, index) is None
    assert len(readings) == len(cells)
