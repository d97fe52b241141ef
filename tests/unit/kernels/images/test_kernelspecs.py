"""Kernels that an image declares, and what of it can be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernels.images.kernelspecs import MOST_KERNELS, find_runtimes, read_kernelspecs
from kernels.kernelspec import MOST_BYTES, Kernelspec, parse_kernelspec

PLAIN: dict[str, Any] = {"argv": ["R", "--file", "{connection_file}"], "language": "R", "display_name": "R 4.2"}
PYTHON = "/opt/own/bin/python3"


def parse(**changes: Any) -> Kernelspec | None:
    said = {name: value for name, value in {**PLAIN, **changes}.items() if value is not None}
    return parse_kernelspec("ir", json.dumps(said), "/usr/share/jupyter/kernels/ir", PYTHON)


def test_a_plain_one_is_taken_as_jupyter_takes_it() -> None:
    assert parse() == Kernelspec("ir", "r", "R 4.2", ("R", "--file", "{connection_file}"), language_name="R")
    command = ["python3.12", "{resource_dir}/kernel.py", "--conn={connection_file}"]
    found = parse(argv=command, env={"A_1": "${PATH}:/x"}, interrupt_mode="message", display_name=None)
    assert found == Kernelspec(
        "ir",
        "r",
        "ir",
        (PYTHON, "/usr/share/jupyter/kernels/ir/kernel.py", "--conn={connection_file}"),
        (("A_1", "${PATH}:/x"),),
        by_message=True,
        language_name="R",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": None},
        {"argv": []},
        {"argv": "R {connection_file}"},
        {"argv": ["R"]},
        {"argv": ["R", 1, "{connection_file}"]},
        {"argv": ["R\0", "{connection_file}"]},
        {"language": None},
        {"language": 7},
        {"language": "\x1b[31m"},
        {"language": "x" * 81},
        {"env": ["A"]},
        {"env": {"A": 1}},
        {"env": {"A=B": "1"}},
        {"env": {"A": "\0"}},
    ],
)
def test_what_is_not_plain_is_no_kernel(changes: dict[str, Any]) -> None:
    assert parse(**changes) is None


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"argv": null}'])
def test_what_is_no_declaration_is_no_kernel(text: str) -> None:
    assert parse_kernelspec("ir", text, "/x", PYTHON) is None


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "", "x" * 65, "a b"])
def test_names_are_those_that_jupyter_gives(name: str) -> None:
    assert parse_kernelspec(name, json.dumps(PLAIN), "/x", PYTHON) is None


@pytest.mark.parametrize("title", ["x" * 101, "\x1b[31m", 7])
def test_a_title_that_is_not_plain_is_the_name(title: Any) -> None:
    found = parse(display_name=title)
    assert found is not None
    assert found.title == "ir"


def test_they_are_found_beside_the_interpreter_and_where_the_system_has_them_and_no_link_leads_out(
    tmp_path: Path,
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for place, name, title in (
        ("opt/own", "ir", "first"),
        ("usr", "ir", "second"),
        ("usr/local", "bash", "bash"),
        ("usr", "python3", "Python"),
    ):
        declare(root / place / "share/jupyter/kernels" / name, display_name=title)
    declare(outside / "linked")
    (root / "usr/share/jupyter/kernels/linked").symlink_to(outside / "linked")
    declare(root / "usr/share/jupyter/kernels/large", argv=["x" * MOST_BYTES, "{connection_file}"])
    (root / "usr/share/jupyter/kernels/file").touch()
    found = read_kernelspecs(str(root), PYTHON)
    assert [(each.name, each.title) for each in found] == [("bash", "bash"), ("ir", "first")]


def test_there_are_not_more_than_so_many(tmp_path: Path) -> None:
    for number in range(MOST_KERNELS + 5):
        declare(tmp_path / f"usr/share/jupyter/kernels/k{number:02}")
    assert len(read_kernelspecs(str(tmp_path), PYTHON)) == MOST_KERNELS
    assert read_kernelspecs(str(tmp_path / "nowhere"), PYTHON) == ()


def test_which_of_our_runtimes_an_image_has(tmp_path: Path) -> None:
    (tmp_path / "opt/node").mkdir(parents=True)
    assert find_runtimes(str(tmp_path), "/usr/bin") == {"python"}
    with_both = tmp_path / "both"
    (with_both / "opt/node").mkdir(parents=True)
    (with_both / "opt/node/node").touch()
    (with_both / "usr/local/bin").mkdir(parents=True)
    (with_both / "usr/local/bin/deno").symlink_to("/opt/deno")
    assert find_runtimes(str(with_both), "/opt/node:relative") == {"python", "deno", "nodejs"}


def declare(place: Path, **changes: Any) -> None:
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps({**PLAIN, **changes}))
