"""The process that makes a view has so much memory and so long, and says what it cannot read."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kernel_gateway.errors import DeadlinePassed, InvalidRequest, PayloadTooLarge
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.executions import views
from kernel_gateway.services.executions.views import Form, Views
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.settings import Settings
from tests.unit.kernel_gateway.views.notebooks import code, display, markdown, stream, written

ADA = Principal(id="a", name="ada", admin=False)
BOB = Principal(id="b", name="bob", admin=False)


class OneNotebook:
    """Stands for the notebooks of sessions: gives one that no session would have."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def notebook(self, _: Principal, __: str) -> bytes:
        return self._content


class Counting(OneNotebook):
    """Counts how often it was read."""

    reads = 0

    async def notebook(self, _: Principal, __: str) -> bytes:
        self.reads += 1
        return await super().notebook(_, __)


class ByPrincipal:
    """Stands for the notebooks of sessions: one for each principal."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents = contents

    async def notebook(self, principal: Principal, _: str) -> bytes:
        return self._contents[principal.id]


def made(content: bytes, form: Form = "html", **settings: Any) -> bytes:
    shown = Views(cast("Notebooks", OneNotebook(content)), replace(Settings(), **settings))
    return asyncio.run(shown.view(ADA, "s", form))


def children() -> list[str]:
    return Path("/proc/self/task/self/children").read_text().split() if Path("/proc/self/task/self").exists() else []


def test_a_view_is_made_in_a_process_that_is_gone_afterwards() -> None:
    before = set(children())
    assert b"&lt;x&gt;" in made(written(code("1", stream("<x>"))))
    assert set(children()) <= before


def test_what_cannot_be_read_is_refused_with_the_sentence() -> None:
    with pytest.raises(InvalidRequest, match="not JSON"):
        made(b"{", "py")
    with pytest.raises(InvalidRequest, match=r"cell 2 \('x'\): its `source` is missing"):
        made(json.dumps({"nbformat": 4, "cells": [code("1"), {"cell_type": "raw", "id": "x"}]}).encode())


def test_one_that_is_too_large_is_not_begun() -> None:
    with pytest.raises(PayloadTooLarge, match=r"get it as ipynb"):
        made(written(code("x" * 2000)), notebook_bytes=1024)


async def many_ask_at_once() -> int:
    """How many notebooks are in memory while none of the views is done."""
    notebooks = Counting(written(code("1")))
    shown = Views(cast("Notebooks", notebooks), Settings())
    asking = [asyncio.create_task(shown.view(ADA, "s", "html")) for _ in range(10)]
    while not notebooks.reads:
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    reads, done = notebooks.reads, sum(each.done() for each in asking)
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return reads - done


def test_who_waits_for_a_place_holds_no_notebook_in_memory() -> None:
    assert asyncio.run(many_ask_at_once()) <= views.VIEWS_AT_ONCE


def test_text_that_takes_too_long_holds_up_nobody() -> None:
    slow = written(*(markdown("[a](" * 20_000 + "![" * 20_000 + "*_" * 20_000) for _ in range(50)))
    before = set(children())
    with pytest.raises(DeadlinePassed, match="view_seconds"):
        made(slow, view_seconds=5.0)
    assert set(children()) <= before


def test_a_principal_whose_views_are_slow_holds_up_nobody_elses() -> None:
    """And the time that a view has begins with its work: those that wait behind slow ones are made as well."""

    async def scene() -> None:
        slow = written(*(markdown("[a](" * 20_000 + "![" * 20_000 + "*_" * 20_000) for _ in range(50)))
        shown = Views(cast("Notebooks", ByPrincipal({"a": slow, "b": written(code("1"))})), replace(Settings()))
        begun = [asyncio.create_task(shown.view(ADA, "s", "html")) for _ in range(4)]
        await asyncio.sleep(0)
        page = await shown.view(BOB, "s", "html")
        assert b"<html" in page
        assert not any(each.done() for each in begun)
        for each in begun:
            each.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    before = set(children())
    asyncio.run(scene())
    assert set(children()) <= before


def test_one_that_grows_beyond_its_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "VIEW_MEMORY_BYTES", 300_000_000)
    with pytest.raises(PayloadTooLarge, match="too large"):
        made(written(*(code("1", display(text__html="<b>x</b>" * 100_000)) for _ in range(20))))


def test_a_view_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_VIEW_BYTES", 1000)
    with pytest.raises(PayloadTooLarge, match="too large"):
        made(written(code("1")))
