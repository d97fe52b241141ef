"""Types of messages are ready before threads decode any: else msgspec may end the process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kernels.struct_types import prepare_struct_types

DECODED_TWICE = """
import sys, threading, msgspec
from kernels.struct_types import prepare_struct_types

looking, decoded = threading.Event(), threading.Event()

def look():
    looking.set()
    decoded.wait(120)
    return int

class Inner(msgspec.Struct):
    number: "look()"

class Outer(msgspec.Struct):
    inner: Inner

if sys.argv[1] == "prepared":
    decoded.set()
    prepare_struct_types()
text = b'{"inner": {"number": 1}}'
first = threading.Thread(target=msgspec.json.decode, args=(text,), kwargs={"type": Outer})
first.start()
assert looking.wait(120)
print(msgspec.json.decode(text, type=Outer).inner.number)
decoded.set()
first.join()
"""


@pytest.mark.parametrize(("how", "ended"), [("prepared", 0), ("as it comes", -signal.SIGSEGV)])
def test_a_type_that_a_thread_looks_at_is_decoded_by_another(how: str, ended: int) -> None:
    """Once the second case does not crash any more, msgspec does without this."""
    done = subprocess.run(
        [sys.executable, "-c", DECODED_TWICE, how], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (ended, "1\n" if how == "prepared" else ""), done.stderr


def test_what_cannot_be_decoded_is_left_alone() -> None:
    prepare_struct_types()
