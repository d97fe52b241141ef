"""Names that a notebook's cells read and none of them defines. Pure, by the syntax tree: nothing is run."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.outputs import Output


def hidden_names(cells: Sequence[str]) -> dict[int, list[str]]:
    """Cell index to the names it reads that neither an earlier cell nor Python nor IPython defines.

    `cells` are sources of code cells in the order in which they ran. Cells without such names are left out. Names are
    never accused when something that cannot be read may have defined them: a star import, `exec`, `%run`.
    """
    return {}


def missing_name(replayed: Sequence[Output], cells: Sequence[str], index: int) -> str | None:
    """The name for want of which cell `index` failed, if no cell up to it defines it: hidden state. For `judge`."""
    return None
