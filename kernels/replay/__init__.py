"""Whether a notebook that was run again showed the same: comparison of outputs, hidden state, the verdict on a cell.

Pure: no I/O, no clock, no sandbox. What is compared came out of sandboxes or from foreign files and is hostile: nothing
here raises on it, and time and memory are bounded however large it is (see `kernels.replay.budget`).
"""

from kernels.replay.comparison import Comparison, Showing, compare
from kernels.replay.hidden import find_hidden_names, missing_name
from kernels.replay.text import text_of
from kernels.replay.tokens import Clock
from kernels.replay.verdict import CellVerdict, Verdict, judge

__all__ = [
    "CellVerdict",
    "Clock",
    "Comparison",
    "Showing",
    "Verdict",
    "compare",
    "find_hidden_names",
    "judge",
    "missing_name",
    "text_of",
]
