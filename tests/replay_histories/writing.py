"""The words that `families/*.py` are written in: histories, and cells with their labels.

A cell is a string of code, with nothing changed about it, or a `Code` made by `same`, `random`, `different` or
`undecidable`. What tells the replay from the record is `change`: pairs of old and new text in the files that the cells
read.
"""

from dataclasses import dataclass, field, replace
from textwrap import dedent

NOTHING_CHANGED = "nothing changed"
DIFFERS = ("different", "failed", "needs_hidden_state")  # of a replay that did not show what the record shows


@dataclass(frozen=True)
class Code:
    """A cell, its label, and every verdict that agrees with it."""

    source: str
    label: str = "same"
    why: str = NOTHING_CHANGED
    verdicts: tuple[str, ...] = ("same",)


@dataclass(frozen=True)
class Draft:
    """A history before it was run."""

    family: str
    name: str
    about: str
    cells: tuple[Code, ...]
    files: dict[str, str] = field(default_factory=dict)
    changed_files: dict[str, str] = field(default_factory=dict)


def same(source: str, why: str = NOTHING_CHANGED) -> Code:
    """What it shows is the same for a reader, whatever clocks, addresses and process ids did."""
    return Code(source, "same", why)


def random(source: str, why: str) -> Code:
    """What it shows was drawn at random and may be put aside or be called so, but the replay is not accused."""
    return Code(source, "same", why, ("same", "not_deterministic"))


def different(source: str, why: str) -> Code:
    """What it shows changed, and the replay must say so."""
    return Code(source, "different", why, DIFFERS)


def different_and_random(source: str, why: str) -> Code:
    """What it shows changed, and varies from run to run besides, so that the replay may also say no more than that."""
    return Code(source, "different", why, (*DIFFERS, "not_deterministic"))


def undecidable(source: str, why: str) -> Code:
    """A careful reader could say either."""
    return Code(source, "undecidable", why, ("same", "not_deterministic", *DIFFERS))


class Family:
    """The histories of one family, in the order they are written down."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.drafts: list[Draft] = []

    def add(
        self,
        name: str,
        about: str,
        *cells: str | Code,
        files: dict[str, str] | None = None,
        change: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """One history; each pair in `change` stands in exactly one file or more, and is otherwise in the replay."""
        texts = {path: dedent(text).lstrip("\n") for path, text in (files or {}).items()}
        changed = dict(texts)
        for old, new in change:
            if not any(old in text for text in changed.values()):
                raise ValueError(f"{self.name}/{name}: no file says {old!r}")
            changed = {path: text.replace(old, new) for path, text in changed.items()}
        differing = {path: text for path, text in changed.items() if text != texts[path]}
        self.drafts.append(Draft(self.name, name, about, tuple(map(_clean, cells)), texts, differing))

    def pair(
        self,
        name: str,
        about: str,
        *cells: str | Code,
        files: dict[str, str],
        change: tuple[tuple[str, str], ...],
        unchanged: str = NOTHING_CHANGED,
        is_random: bool = False,
    ) -> None:
        """The history with `change`, and its twin without, in which all that differs is noise."""
        self.add(name, about, *cells, files=files, change=change)
        verdicts = ("same", "not_deterministic") if is_random else ("same",)
        twins = [
            replace(code, label="same", why=unchanged, verdicts=verdicts) if code.label == "different" else code
            for code in map(_clean, cells)
        ]
        self.add(f"{name}-unchanged", "The same notebook with the same files", *twins, files=files)


def _clean(cell: str | Code) -> Code:
    code = Code(cell) if isinstance(cell, str) else cell
    return replace(code, source=dedent(code.source).strip("\n"))
