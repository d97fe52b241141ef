"""A session's notebook as the service gives it: as it is, as a page, as a script, with what a browser is to know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import nbformat
import pytest

from tests.running_service import RunningService


def test_the_page_is_served_with_a_policy_under_which_nothing_runs(http: httpx.Client, ended: str) -> None:
    answer = http.get(f"/v1/sessions/{ended}/notebook?format=html")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert {"sandbox", "default-src 'none'", "img-src data:", "style-src 'unsafe-inline'"} <= set(policy)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    for shown in (
        "<pre>42\n</pre>",
        "data:image/png;base64,",
        "<td>Bergen</td>",
        "ZeroDivisionError",
        "from the shell",
    ):
        assert shown in answer.text, shown


def test_the_script_runs_and_does_what_the_session_did(http: httpx.Client, ended: str, tmp_path: Path) -> None:
    answer = http.get(f"/v1/sessions/{ended}/notebook?format=py")
    assert answer.headers["Content-Type"] == "text/x-python; charset=utf-8"
    file = tmp_path / "script.py"
    file.write_bytes(answer.content)
    done = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("42\n")
    assert "from the shell\n" in done.stdout
    assert "ZeroDivisionError" in done.stderr


def test_views_of_the_same_record_have_the_same_bytes(http: httpx.Client, ended: str) -> None:
    for form in ("ipynb", "html", "py"):
        first, second = (http.get(f"/v1/sessions/{ended}/notebook?format={form}").content for _ in range(2))
        assert first == second
    nbformat.validate(nbformat.reads(http.get(f"/v1/sessions/{ended}/notebook").text, as_version=4))


@pytest.mark.parametrize("query", ["format=pdf", "format=", "as=html"])
def test_an_unknown_form_is_refused(http: httpx.Client, ended: str, query: str) -> None:
    assert http.get(f"/v1/sessions/{ended}/notebook?{query}").status_code == 400


@pytest.mark.parametrize("address", ["notebook?format=html", "notebook?format=py", "notebook/manifest"])
def test_nobody_else_sees_it(service: RunningService, ended: str, address: str) -> None:
    with service.client() as client:
        token = client.create_token("another-reader").token
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{service.url}/v1/sessions/{ended}/{address}", headers=headers).status_code == 404
    assert httpx.get(f"{service.url}/v1/sessions/{ended}/{address}").status_code == 401


def test_the_client_reads_each_form(service: RunningService, ended: str) -> None:
    with service.client() as client:
        assert client.notebook(ended).startswith(b"{")
        assert client.notebook(ended, "html").startswith(b"<!DOCTYPE html>")
        assert client.notebook(ended, "py").startswith(b"#!")
        assert b'"head"' in client.manifest(ended)
