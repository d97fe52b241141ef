"""The names that code has defined, asked of a real kernel: whatever they stand for, none of their code runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kernels.errors import SandboxFailed
from kernels.execution import variables
from kernels.execution.variables import Variable
from tests.integration.kernels.execution.running_kernel import Runner, RunningKernel, with_hub

OnKernel = Callable[[Callable[[Runner], Any]], Any]

FRESH = "%reset -f"
HOSTILE = """
import collections, sys, time, types
called = []
def bad(self, *a, **k):
    called.append(self)
    time.sleep(60)
NAMES = ["__repr__", "__str__", "__len__", "__iter__", "__getattr__", "__getattribute__", "__sizeof__", "__eq__",
         "__bool__", "__hash__", "__dir__", "__format__", "__getitem__", "__contains__", "__next__", "__reduce__",
         "__index__", "__int__"]
methods = {name: bad for name in NAMES}
lying = {**methods, "__class__": property(bad), "__dict__": property(bad), "shape": property(bad),
         "dtype": property(bad), "__name__": property(bad), "__module__": property(bad), "__mro__": property(bad),
         "_mgr": property(bad)}
Meta = type("Meta", (type,), {**{n: bad for n in NAMES if n != "__hash__"}, "__hash__": bad, "__instancecheck__": bad,
                              "__subclasscheck__": bad, "mro": type.mro, "__name__": property(bad)})
plain = type("Lying", (), lying)()
meta = Meta("OfMeta", (), {"__slots__": ()})()
klass = Meta("Klass", (), {})
for base in (dict, list, tuple, str, bytes, int, float, set, frozenset, collections.OrderedDict, collections.deque):
    made = base.__new__(type("Sub", (base,), {k: v for k, v in lying.items() if k not in ("__dict__",)}))
    globals()["sub_" + base.__name__] = made
fake_frame = type("DataFrame", (), lying)()
nested = [plain, {1: meta}, (klass,)]
keyed = {1: plain, "a": meta}
class Colliding:
    def __hash__(self): return hash("__name__")
    __eq__ = bad
module = types.ModuleType("module")
fake_numpy = types.ModuleType("numpy")
fake_numpy.ndarray = klass
fake_numpy.generic = plain
fake_numpy.dtype = meta
sys.modules["numpy"] = fake_numpy
called.clear()
"""


async def shown(runner: Runner) -> dict[str, Variable]:
    found = await variables.ask(runner.hub)
    return {each.name: each for each in found.variables}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = 42", Variable("x", "int", size_bytes=28, preview="42")),
        ("x = 10 ** 400", Variable("x", "int", size_bytes=204, preview="<an integer of 1,329 bits>")),
        ("x = None", Variable("x", "NoneType", size_bytes=16, preview="None")),
        ("x = 'it'", Variable("x", "str", length=2, size_bytes=51, preview="'it'")),
        ("x = b'a' * 3", Variable("x", "bytes", length=3, size_bytes=36, preview="b'aaa'")),
        (
            "x = range(10**15)",
            Variable("x", "range", length=10**15, size_bytes=48, preview="range(0, 1000000000000000)"),
        ),
        ("x = (1, 'a', None)", Variable("x", "tuple", length=3, size_bytes=158, preview="(1, 'a', None)")),
        ("x = {'a': [1]}", Variable("x", "dict", length=1, size_bytes=326, preview="{'a': <list>}")),
        ("def x(): pass", Variable("x", "function", preview="<function x>")),
        ("class x: pass", Variable("x", "type", preview="<class x>")),
        ("import json as x", Variable("x", "module", preview="<module json>")),
        ("x = ValueError()", Variable("x", "ValueError")),
    ],
)
def test_what_is_told_of_ordinary_values(on_kernel: OnKernel, code: str, told: Variable) -> None:
    async def scenario(runner: Runner) -> None:
        await runner.run(f"{FRESH}\n{code}")
        assert (await shown(runner))["x"] == told

    on_kernel(scenario)


@pytest.mark.parametrize(
    ("code", "least", "most"),
    [
        ("x = [bytearray(1_000_000) for _ in range(50)]", 50_000_000, 51_000_000),
        ("x = {n: bytearray(1_000_000) for n in range(50)}", 50_000_000, 51_000_000),
        ("import collections\nx = collections.deque([(bytearray(1_000_000),)])", 1_000_000, 1_010_000),
        ("x = [bytearray(1_000_000)] * 5_000", 1_000_000, 1_100_000),  # one object
        ("x = [{'number': 1.5 * n, 'text': str(n)} for n in range(200_000)]", 40_000_000, 80_000_000),  # by estimate
        ("x = []\nx.append(x)", 50, 200),
        ("class C(list): __iter__ = __len__ = __getitem__ = None\nx = [C()]", 50, 300),
        ("class C(list): __iter__ = __len__ = __getitem__ = None\nx = C([bytearray(10_000)] * 9)", 10_000, 11_000),
        ("class C: pass\nx = C()\nx.held, x.self = [bytearray(1_000_000)], x", 1_000_000, 1_001_000),
        (
            "class A: __slots__ = ('a', 'b')\nclass C(A): pass\nx = C()\nx.a, x.c = bytes(50_000), bytes(70_000)",
            120_000,
            121_000,
        ),
        (
            "class C: pass\nx = [C() for _ in range(5_000)]\nfor each in x: each.held = bytes(10_000)",
            50_000_000,
            52_000_000,
        ),
        ("import typing\nclass C(typing.NamedTuple):\n    held: bytes\nx = C(bytes(60_000))", 60_000, 61_000),
        ("class C: pass\nx = C()", 50, 500),
        ("class C: pass\nx, other = C(), bytearray(1_000_000)\nx.names = globals()", 50, 500),
    ],
)
def test_collections_are_as_large_as_what_is_in_them(on_kernel: OnKernel, code: str, least: int, most: int) -> None:
    async def scenario(runner: Runner) -> None:
        assert (await runner.run(f"{FRESH}\n{code}")).status == "ok"
        found = (await shown(runner))["x"]
        assert found.size_bytes is not None
        assert least <= found.size_bytes <= most

    on_kernel(scenario)


def test_the_latest_come_first_and_what_ipython_keeps_for_itself_is_not_told(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        await runner.run(f"{FRESH}\na = 1\nb = 2\n_c = 3\nc = 4")
        await runner.run("a + b")
        found = await variables.ask(runner.hub)
        assert [each.name for each in found.variables] == ["c", "b", "a"]
        assert found.omitted == 0
        left = await runner.run("sorted(name for name in globals() if not name.startswith('_'))")
        names = left.outputs[-1]["data"]["text/plain"]
        assert names == "['In', 'Out', 'a', 'b', 'c', 'exit', 'get_ipython', 'open', 'quit']"

    on_kernel(scenario)


def test_objects_that_hang_lie_or_raise_are_not_asked(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        outcome = await runner.run(f"{FRESH}\n{HOSTILE}")
        assert outcome.status == "ok", outcome
        found = {name: replace(each, size_bytes=None) for name, each in (await shown(runner)).items()}
        assert (await runner.run("len(called)")).outputs[-1]["data"]["text/plain"] == "0"
        assert found["plain"] == Variable("plain", "Lying")
        assert found["meta"] == Variable("meta", "OfMeta")
        assert found["klass"] == Variable("klass", "Meta")
        assert found["fake_frame"] == Variable("fake_frame", "DataFrame")
        assert found["nested"].preview == "[<Lying>, <dict>, <tuple>]"
        assert found["keyed"].preview == "{1: <Lying>, 'a': <OfMeta>}"
        for name in ("dict", "list", "tuple", "str", "bytes", "set", "frozenset", "OrderedDict", "deque"):
            assert found[f"sub_{name}"] == Variable(f"sub_{name}", "Sub", length=0), name
        assert found["sub_int"] == Variable("sub_int", "Sub")

    on_kernel(scenario)


def test_what_code_lets_go_of_meanwhile_ends_in_its_own_thread(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        await runner.run(
            f"{FRESH}\nimport threading, time\nwhere = []\n"
            "class Ending:\n    def __del__(self): where.append(threading.current_thread().name)\n"
            "def churn():\n    until = time.monotonic() + 1\n"
            "    while time.monotonic() < until: globals()['x'] = [Ending()]; globals()['y'] = Ending()\n"
            "thread = threading.Thread(target=churn, name='theirs'); thread.start()"
        )
        for _ in range(20):
            await variables.ask(runner.hub)
        outcome = await runner.run("thread.join(); sorted(set(where) - {'theirs', 'MainThread'})")
        assert outcome.outputs[-1]["data"]["text/plain"] == "[]"

    on_kernel(scenario)


def test_the_answer_comes_while_a_thread_imports(on_kernel: OnKernel) -> None:
    """numpy's types are looked up among the modules, of which there are more and fewer meanwhile."""

    async def scenario(runner: Runner) -> None:
        await runner.run(
            f"{FRESH}\nimport sys, threading\nimporting, usual = True, sys.getswitchinterval()\n"
            "def churn():\n    n = 0\n    while importing:\n        n += 1\n"
            "        sys.modules[f'm{n}'] = sys\n"
            "        if n % 50 == 0:\n            for old in range(n - 49, n + 1): del sys.modules[f'm{old}']\n"
            "sys.setswitchinterval(1e-5); threading.Thread(target=churn).start()"
        )
        for _ in range(100):
            assert "importing" in {each.name for each in (await variables.ask(runner.hub)).variables}
        await runner.run("importing = False; sys.setswitchinterval(usual)")

    on_kernel(scenario)


def test_the_answer_comes_while_code_sleeps_and_while_a_thread_changes_the_names(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        await runner.run(
            f"{FRESH}\nimport threading\nstop = False\n"
            "def churn():\n    n = 0\n    while not stop:\n        n += 1; globals()[f'n{n % 5000}'] = n\n"
            "        if n % 7 == 0: globals().pop(f'n{(n * 31) % 5000}', None)\n"
            "threading.Thread(target=churn).start()"
        )
        for _ in range(10):
            found = await variables.ask(runner.hub)
            assert found.omitted or "stop" in {each.name for each in found.variables}
        await runner.run("stop = True")
        await runner.run(FRESH)
        sleeping = asyncio.create_task(runner.run("x = 1\nimport time; time.sleep(60)"))
        async with asyncio.timeout(120):
            while "x" not in await shown(runner):
                await asyncio.sleep(0.05)
        assert not sleeping.done()
        await runner.kernel.interrupt()
        assert (await sleeping).status == "error"

    on_kernel(scenario)


def test_a_million_names_are_counted_and_the_latest_told(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        await runner.run(f"{FRESH}\nglobals().update({{f'v{{n}}': n for n in range(1_000_000)}})")
        found = await variables.ask(runner.hub)
        assert len(found.variables) == 1_000
        assert found.variables[0].name == "v999999"
        assert found.omitted >= 999_000
        long = "globals().update({('v' * 500) + str(n): chr(0x1f600) * 10_000 for n in range(2_000)})"
        await runner.run(f"{FRESH}\n{long}")
        found = await variables.ask(runner.hub)
        assert 100 < len(found.variables) < 1_000
        assert len(found.variables) + found.omitted == 2_000
        assert max(len(each.name) for each in found.variables) <= 200
        await runner.run(FRESH)

    on_kernel(scenario)


def test_names_that_are_none_and_texts_that_no_message_carries(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        code = "globals().update({5: 1, ('a',): 2, 'a\\nb': 3, '\\ud800': '\\udfff', chr(0x1f600): 4})"
        assert (await runner.run(f"{FRESH}\n{code}")).status == "ok"
        found = await shown(runner)
        assert set(found) == {"a\nb", "\\ud800", chr(0x1F600)}
        assert found["\\ud800"].preview == "'\\udfff'"
        await runner.run("for name in [5, ('a',)]: globals().pop(name)")

    on_kernel(scenario)


def test_nothing_is_published_and_nobody_takes_a_busy_kernel_for_idle(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        sleeping = asyncio.create_task(runner.run("print('begun')\nimport time; time.sleep(300)"))
        async with asyncio.timeout(120):
            while not any("begun" in event.data.get("text", "") for event in runner.events):
                await asyncio.sleep(0.01)
        told: list[str] = []
        unsubscribe = runner.hub.subscribe(lambda channel, message: told.append(f"{channel} {message.msg_type}"))
        await variables.ask(runner.hub)
        unsubscribe()
        assert told == ["control sandcell_variables_reply"]
        assert not sleeping.done()
        await runner.kernel.interrupt()
        assert (await sleeping).status == "error"

    on_kernel(scenario)


def test_a_namespace_that_is_none_is_an_error_of_its_own(start: Callable[[], RunningKernel]) -> None:
    async def scenario(runner: Runner) -> None:
        await runner.run("get_ipython().user_ns_hidden = 5")
        with pytest.raises(SandboxFailed, match="could not look"):
            await variables.ask(runner.hub)

    asyncio.run(with_hub(start(), scenario))
