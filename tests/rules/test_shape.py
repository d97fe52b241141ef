"""The rules of the house that a reader would otherwise have to remember: sizes, docstrings, names, settings."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
PACKAGES = ("kernel_gateway", "kernels", "workspace_sync", "client/sandcell")
MODULES = sorted(path for package in PACKAGES for path in (REPOSITORY / package).glob("**/*.py"))
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "base", "misc"}


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_answers_one_question(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    lines = len(text.splitlines())
    assert lines <= 700
    if lines > 400:
        warnings.warn(f"{name(path)} has {lines} lines: is it read in one piece?", stacklevel=1)
    assert path.stem not in FORBIDDEN_NAMES
    assert not text.strip() or ast.get_docstring(tree), "a module says what lives in it"
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > 40
    }
    assert long == {}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_settings_read_the_process_environment(path: Path) -> None:
    if name(path) in {"kernel_gateway/settings.py", "client/sandcell/settings.py"} or "guest" in path.parts:
        return  # the guest hands its own, made in the bundle, to what it starts
    text = path.read_text()
    if "os.environ" not in text and "os.getenv" not in text:
        return  # there is nothing to parse it for
    reads = [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr in {"environ", "getenv"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    ]
    assert reads == []
