"""`sandcell replay` as a person uses it: a table of verdicts, a new notebook, an exit status."""

from __future__ import annotations

import json

import nbformat

from tests.integration.client.sandcell.cli.conftest import Shell


def test_a_notebook_is_run_again_and_looked_at(sandcell: Shell) -> None:
    assert sandcell("run", "x = 41").returncode == 0
    assert sandcell("run", "print(x + 1)").returncode == 0
    assert sandcell("notebook", "-o", "history.ipynb").returncode == 0
    same = sandcell("replay", "history.ipynb", "-o", "again.ipynb")
    assert same.returncode == 0, same
    assert [line.split("\t")[:2] for line in same.stdout.splitlines()] == [["2", "same"], ["3", "same"]]
    assert same.stderr.splitlines()[-2:] == ["2 same", "wrote again.ipynb"]
    written = nbformat.read(sandcell.directory / "again.ipynb", as_version=4)
    assert written.cells[2].outputs[0].text == "42\n"
    edited = (sandcell.directory / "history.ipynb").read_text().replace("x = 41", "x = 1")
    (sandcell.directory / "edited.ipynb").write_text(edited)
    other = sandcell("replay", "edited.ipynb", "--until", "3")
    assert other.returncode == 1
    assert "-42" in other.stdout.splitlines()
    assert "+2" in other.stdout.splitlines()
    kept = other.stderr.splitlines()[-1].split()[-2]
    assert sandcell("run", "--session", kept, "x").stdout == "1\n"
    assert sandcell("session", "stop", kept).returncode == 0
    current = json.loads(sandcell("session", "show", "--json").stdout)["id"]
    said = json.loads(sandcell("replay", current, "--json").stdout)
    assert (said["same"], said["of"], said["notebook"]) == (True, current, None)
    back = sandcell("session", "new", "--replay-of", current)
    assert sandcell("run", "x").stdout == "41\n"
    for session in (current, back.stdout.strip()):
        assert sandcell("session", "stop", session).returncode == 0


def test_files_that_no_cell_wrote_come_from_the_session_s_workspace(sandcell: Shell) -> None:
    (sandcell.directory / "data.csv").write_text("1,2")
    first = sandcell("run", "--new", "open('data.csv').read()", "--file", "data.csv")
    assert first.returncode == 0, first
    session = json.loads(sandcell("session", "show", "--json").stdout)
    without = sandcell("replay", session["id"])
    hint = f"--inputs {session['workspace_id']}"
    assert (without.returncode, hint in without.stderr) == (1, True), without.stderr
    assert sandcell("replay", session["id"], *hint.split()).returncode == 0
    assert sandcell("session", "stop", session["id"]).returncode == 0


def test_what_cannot_be_replayed_is_said(sandcell: Shell) -> None:
    missing = sandcell("replay", "nothing.ipynb")
    assert (missing.returncode, "there is no file nothing.ipynb" in missing.stderr) == (2, True)
    unknown = sandcell("replay", "no-such-session")
    assert (unknown.returncode, "no such session" in unknown.stderr) == (7, True)
    (sandcell.directory / "bad.ipynb").write_text('{"nbformat": 4, "cells": [{"cell_type": "code"}]}')
    bad = sandcell("replay", "bad.ipynb")
    assert (bad.returncode, "cell 1: its `source` is missing" in bad.stderr) == (7, True)
