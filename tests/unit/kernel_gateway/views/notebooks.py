"""Notebooks to look at: bytes of documents made of cells."""

from __future__ import annotations

import json
from typing import Any


def code(source: str = "1", *outputs: dict[str, Any], status: str = "ok", **others: Any) -> dict[str, Any]:
    """A recorded code cell."""
    metadata = {"sandcell": {"status": status, "author": "ada", "face": "rest"}, **others}
    return {
        "cell_type": "code",
        "id": "c",
        "metadata": metadata,
        "source": source,
        "outputs": list(outputs),
        "execution_count": 1,
    }


def markdown(source: str, **others: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "m", "metadata": {}, "source": source, **others}


def display(**data: Any) -> dict[str, Any]:
    """An output; a media type is written with `__` for the slash."""
    bundle = {name.replace("__", "/").replace("_", "+"): value for name, value in data.items()}
    return {"output_type": "display_data", "data": bundle, "metadata": {}}


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def error(name: str, value: str, *traceback: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(traceback)}


def written(*cells: dict[str, Any], **metadata: Any) -> bytes:
    """A notebook's bytes; the cells get ids in order."""
    numbered = [{**cell, "id": f"c{number}"} for number, cell in enumerate(cells)]
    metadata = {"sandcell": {"session_id": "s", "environment": "python"}, **metadata}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": numbered}).encode()
