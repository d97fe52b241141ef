"""Notebooks to replay, and what the tests say of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sandcell import Client
from sandcell.models.replays import CellReplay, Replay
from tests.running_service import RunningService


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def result(text: str) -> dict[str, Any]:
    return {"output_type": "execute_result", "data": {"text/plain": text}, "metadata": {}, "execution_count": 1}


def display(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def code(source: str, *outputs: dict[str, Any], ran: bool = True) -> dict[str, Any]:
    """A cell as any Jupyter tool writes it; one that never ran has no number."""
    return {
        "cell_type": "code",
        "metadata": {},
        "source": source,
        "outputs": list(outputs),
        "execution_count": 1 if ran else None,
    }


def notebook(*cells: dict[str, Any], **metadata: Any) -> bytes:
    """A foreign notebook of format 4.4, whose cells have no ids."""
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": metadata, "cells": list(cells)}).encode()


def verdicts(replay: Replay) -> dict[int, str]:
    return {each.number: each.verdict for each in replay.verdicts}


def on(replay: Replay, number: int) -> CellReplay:
    return next(each for each in replay.verdicts if each.number == number)


@pytest.fixture(scope="module")
def client(service: RunningService) -> Iterator[Client]:
    with service.client() as client:
        yield client
