"""Checks of the family archives: what is packed stays packed, what is deep or wide is bounded."""

from __future__ import annotations

import gzip
import io
import zipfile

from tests.escape.outside import MEGABYTE, durable, routes, service_bytes
from tests.escape.position import Scene

HERE = "archives"
MOST_BYTES = 800 * MEGABYTE


def stays_a_file(scene: Scene, name: str) -> None:
    """The routes hand out, and the store keeps, just the bytes there are."""
    store = durable(scene)
    kept = store.objects[f"workspace/{HERE}/{name}"].read_bytes()
    assert not [path for path in store.entries if b"cron" in path or b"zeros" in path]
    with routes(scene) as asked:
        answer = asked.file("GET", f"{HERE}/{name}", headers={"Accept-Encoding": "gzip, deflate, br"})
        assert "content-encoding" not in answer.headers
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.content == kept
    assert service_bytes(scene) < MOST_BYTES


def uploads_are_taken_as_they_are(scene: Scene) -> None:
    """An encoding that a body claims is not undone: neither by the service nor by the guest."""
    bomb = gzip.compress(bytes(50_000_000), 9)
    with routes(scene) as asked:
        answer = asked.file("PUT", f"{HERE}/claimed", content=bomb, headers={"Content-Encoding": "gzip"})
        if answer.status_code == 200:
            assert answer.json()["size"] == len(bomb)
            assert asked.file("GET", f"{HERE}/claimed").content == bomb
        else:
            assert answer.status_code == 415, answer.text
        answer = asked.ask(
            "POST",
            "executions",
            content=gzip.compress(b'{"code": "' + b" " * 50_000_000 + b'"}', 9),
            headers={"Content-Encoding": "gzip", "Content-Type": "application/json"},
        )
        assert 400 <= answer.status_code < 500, answer.text
    assert service_bytes(scene) < MOST_BYTES


def a_deep_tree_is_bounded(scene: Scene) -> None:
    """It is mirrored, listed as deep as listings go, and removed."""
    store = durable(scene)
    bottom = f"{HERE}/{'d/' * 400}bottom".encode()
    assert store.entries[bottom].kind == "file"
    scene.neighbour.unharmed()
    with routes(scene) as asked:
        listed = asked.listing(HERE, recursive=True)
        assert listed.status_code == 200
        assert len(listed.json()["items"]) < 200
        assert asked.file("GET", bottom).content == b"x"
        assert asked.file("DELETE", f"{HERE}/d", params={"recursive": "true"}).status_code == 204
    assert not [path for path in durable(scene).entries if path.startswith(f"{HERE}/d".encode())]


def a_wide_tree_comes_in_pages(scene: Scene) -> None:
    with routes(scene) as asked:
        listed = asked.listing(f"{HERE}/wide")
        assert listed.status_code == 200
        assert len(listed.json()["items"]) <= 1000
        assert listed.json()["next_cursor"]
        assert asked.file("DELETE", f"{HERE}/wide", params={"recursive": "true"}).status_code == 204
    assert not [path for path in durable(scene).entries if path.startswith(f"{HERE}/wide/".encode())]


def an_archive_holds_what_there_is(scene: Scene) -> None:
    """Bombs stay packed, names stay below, links and what is too large are listed; a live session has no such route."""
    kept = durable(scene).objects[f"workspace/{HERE}/all/bomb.zip"].read_bytes()
    with routes(scene) as asked:
        assert asked.ask("GET", "archive").status_code == 404
        workspace_id = scene.session.info.workspace_id
        answer = asked.ask("GET", f"/v1/workspaces/{workspace_id}/archive", params={"path": f"{HERE}/all"})
        assert answer.status_code == 200, answer.text
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    assert archive.read(f"{HERE}/all/bomb.zip") == kept
    names = {name.removeprefix(f"{HERE}/all/") for name in archive.namelist()}
    assert names == {"", "..%5C..%5Cevil", "C%3A%5Cx", "NU%4C", "a%0Ab", "%FF", "bomb.zip", "SKIPPED.txt"}
    told = archive.read("SKIPPED.txt").decode()
    assert f"{HERE}/all/link\ta link to /etc/passwd\n" in told
    assert f"{HERE}/all/huge\thas 26,000,000 bytes" in told
    assert "root:" not in told
    assert service_bytes(scene) < MOST_BYTES
