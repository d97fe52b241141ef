"""Labelled histories run on real sandboxes: recorded with their files, replayed with those that changed.

Several histories are one notebook, as far as their files have names of their own: a sandbox is what costs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

import pytest

from sandcell import Client, Session
from tests.replay_histories import History, load
from tests.replay_histories.matrix import Matrix

SEED = 16
SAMPLED = 14
TOGETHER = 20
"""Histories in one notebook at most."""


def test_a_sample_of_the_labelled_histories(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    ordinary = [history for history in load() if all(len(str(cell.runs)) < 20_000 for cell in history.cells)]
    sample = random.Random(SEED).sample(ordinary, 3 * SAMPLED)
    hold(client, [next(notebooks(sample, SAMPLED))], capsys)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_all_labelled_histories(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    hold(client, notebooks(load(), TOGETHER), capsys)


def hold(client: Client, many: Iterable[Sequence[History]], capsys: pytest.CaptureFixture[str]) -> None:
    matrix = Matrix()
    for histories in many:
        replay(client, histories, matrix)
    with capsys.disabled():
        print(matrix)
    assert matrix.false_same == 0
    assert matrix.false_different <= 0.02


def notebooks(histories: Iterable[History], most: int) -> Iterator[list[History]]:
    """Histories whose files do not get in each other's way, as many together as may be."""
    groups: list[tuple[list[History], set[str]]] = []
    for history in histories:
        files = history.files.keys() | history.changed_files.keys()
        for group, taken in groups:
            if len(group) < most and taken.isdisjoint(files):
                break
        else:
            group, taken = [], set()
            groups.append((group, taken))
        group.append(history)
        taken |= files
    yield from sorted((group for group, _ in groups), key=len, reverse=True)


def replay(client: Client, histories: Sequence[History], matrix: Matrix) -> None:
    with client.session() as changed:
        upload(changed, histories, "first")
        with client.session() as session:
            upload(session, histories, "recorded")
            ran = [session.run(cell.source, timeout_seconds=120).status for each in histories for cell in each.cells]
        found = client.replay(session_id=session.id, inputs=changed.info.workspace_id)
    assert found.error is None
    cells = [(history, number, cell) for history in histories for number, cell in enumerate(history.cells, 1)]
    broken = {
        history.name
        for (history, _, cell), status in zip(cells, ran, strict=True)
        if (status == "error") != any(each["output_type"] == "error" for each in cell.runs["recorded"].outputs)
    }
    for (history, number, cell), verdict in zip(cells, found.verdicts, strict=True):
        if history.name not in broken:  # by a library that this environment does not have
            where = f"{history.family}/{history.name} cell {number} ({verdict.why[:200]})"
            matrix.add(cell.label, verdict.verdict, cell.verdicts, where)


def upload(session: Session, histories: Sequence[History], run: str) -> None:
    for history in histories:
        for path, text in history.files_of(run).items():
            session.upload(path, text.encode())
