"""How the code is laid out: small folders that import each other without a circle, tests laid out as their source."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import docs

REPOSITORY = Path(__file__).parent.parent.parent
PACKAGES = ("kernel_gateway", "kernels", "workspace_sync", "client/sandcell")
MOST_MODULES = 20
SMALL_LINES = 40
SMALL = {
    "kernel_gateway.dataset_profile.packing": "runs in the service; the rest of its folder runs in a sandbox",
    "kernel_gateway.faces.agentcore.tools.code": "one kind of tool a module",
    "kernel_gateway.faces.jupyter.service": "one resource a module",
    "kernel_gateway.views.folding": "pure, beside colours: where HTML of a terminal may be cut",
    "kernels.guest.processes.deno": "one kind of kernel a module",
    "kernels.guest.workspace.shared_memory": "segments are removed by the user's identity, apart from requests",
}
"""Modules below 40 lines that one other imports, each with the reason why it is no part of that one."""
PATHS = {docs.module_of(path): path for package in PACKAGES for path in sorted((REPOSITORY / package).glob("**/*.py"))}
FOLDERS = sorted({path.parent for path in PATHS.values()})
MIRRORED = [REPOSITORY / "tests" / kind for kind in ("unit", "integration")]


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def imported_by(module: str) -> Iterator[str]:
    """Every module of the project that `module` imports: also in functions, and for its types alone."""
    path = PATHS[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in PATHS)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            source = ".".join([*parts, *([node.module] if node.module else [])])
            for alias in node.names:
                yield from (found for found in (f"{source}.{alias.name}", source) if found in PATHS)


@functools.cache
def imports() -> dict[str, set[str]]:
    """Of every module of the project those that it imports; computed only when a test asks."""
    return {module: set(imported_by(module)) - {module} for module in PATHS}


def siblings(package: str) -> dict[str, set[str]]:
    """The modules and folders of a package, each with those beside it that it imports, a folder taken as a whole."""
    found: dict[str, set[str]] = defaultdict(set)
    inside = package + "."
    for module, others in imports().items():
        if module.startswith(inside):
            one = module.removeprefix(inside).partition(".")[0]
            beside = {other.removeprefix(inside).partition(".")[0] for other in others if other.startswith(inside)}
            found[one] |= beside - {one}
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_is_small_and_says_what_lives_in_it(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES
    assert (folder / "__init__.py").exists()


def reached(one: str, beside: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [one]
    while waiting:
        new = beside[waiting.pop()] - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize("package", sorted({module.rpartition(".")[0] for module in PATHS} - {""}))
def test_folders_import_what_lies_beside_them_without_a_circle(package: str) -> None:
    beside = siblings(package)
    folders = [one for one in beside if PATHS[f"{package}.{one}"].name == "__init__.py"]
    in_circles = {folder for folder in folders if folder in reached(folder, beside)}
    ties = [
        f"{module} imports {other}"
        for module, others in sorted(imports().items())
        for other in sorted(others)
        for one, target in [tuple(each.removeprefix(package + ".").partition(".")[0] for each in (module, other))]
        if one != target and target in in_circles and target in reached(one, beside) and one in reached(target, beside)
    ]
    assert in_circles == set(), ties


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    importers: dict[str, set[str]] = defaultdict(set)
    for module, others in imports().items():
        for other in others:
            importers[other].add(module)
    small = {
        module
        for module, path in PATHS.items()
        if path.name not in {"__init__.py", "__main__.py"}
        and len(importers[module]) == 1
        and len(path.read_text().splitlines()) < SMALL_LINES
    }
    assert small == set(SMALL)


@pytest.mark.parametrize("kind", MIRRORED, ids=name)
def test_tests_lie_as_what_they_test(kind: Path) -> None:
    folders = {test.parent.relative_to(kind) for test in kind.glob("**/test_*.py")}
    assert [str(folder) for folder in sorted(folders) if not (REPOSITORY / folder).is_dir()] == []
