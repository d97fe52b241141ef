"""Datasets of a real service: registered with and without a live session, shown, changed, refused, and gone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandcell import Client, Conflict, InvalidRequest, NotFound, SandcellError, Session
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.running_service import RunningService

MAKE = """
import os, numpy as np, pandas as pd
table = pd.DataFrame({"id": np.arange(20_000), "word": np.where(np.arange(20_000) % 3 == 0, "a,b", "c")})
os.makedirs("data")
table.to_csv("data/table.csv", index=False, sep=";")
table.to_parquet("data/table.parquet")
os.symlink("table.csv", "data/link.csv")
open("ragged.csv", "w").write("a,b\\n1,2\\n3,4,secret-of-the-file\\n")
"""


@pytest.fixture(scope="module")
def session(client: Client) -> Iterator[Session]:
    with client.session() as made:
        assert made.run(MAKE).error is None
        yield made


@pytest.fixture(scope="module")
def workspace_id(session: Session) -> str:
    return session.info.workspace_id


def test_a_file_of_a_live_session_is_described_as_it_is_now(
    client: Client, session: Session, workspace_id: str
) -> None:
    made = client.register_dataset(workspace_id, "table", "data/table.csv")
    assert (made.format, made.rows, made.rows_exact, made.column_count, made.stale) == ("csv", 20_000, True, 2, False)
    assert made.location == "/workspace/data/table.csv"
    assert made.profile is not None
    assert made.profile.columns[1].top == "c"
    assert session.run(f"len({made.load}), list({made.load}.columns)").text == "(20000, ['id', 'word'])"
    again = client.register_dataset(workspace_id, "table", "data/table.csv")
    assert again == made, "what has not changed is not looked at again"

    assert session.run("table.head(5).to_csv('data/table.csv', index=False)").error is None
    refreshed = client.register_dataset(workspace_id, "table", "data/table.csv")
    assert (refreshed.id, refreshed.created_at, refreshed.rows) == (made.id, made.created_at, 5)
    assert refreshed.sha256 != made.sha256
    assert client.get_dataset(workspace_id, "table") == refreshed


def test_parquet_by_its_handle(client: Client, session: Session, workspace_id: str) -> None:
    made = client.register_dataset(workspace_id, "columns.v1", "data/table.parquet")
    assert (made.format, made.rows) == ("parquet", 20_000)
    assert session.run(f"len({made.load})").text == "20000"
    listed = client.list_datasets(workspace_id).items
    assert [(each.name, each.profile, each.stale) for each in listed if each.name == "columns.v1"] == [
        ("columns.v1", None, None)
    ]


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("nowhere.csv", (NotFound, "not_found"), "no file 'nowhere.csv': write or upload it first"),
        ("data", (Conflict, "conflict"), "is a directory, not a file: register one file in it"),
        ("data/link.csv", (Conflict, "conflict"), "is a link, not a file: register the file that it leads to"),
        ("../etc/passwd", (InvalidRequest, "invalid_path"), "leads out"),
        ("ragged.csv", (InvalidRequest, "unreadable_file"), "row 3 has 3 values"),
    ],
)
def test_what_is_no_table_is_refused_with_what_to_do(
    client: Client, workspace_id: str, path: str, error: tuple[type[SandcellError], str], message: str
) -> None:
    kind, code = error
    with pytest.raises(kind, match=message) as refused:
        client.register_dataset(workspace_id, "refused", path)
    assert refused.value.code == code
    assert "secret-of-the-file" not in str(refused.value)
    with pytest.raises(NotFound):
        client.get_dataset(workspace_id, "refused")


@pytest.mark.parametrize("name", ["", "with space", "-dash", "a/b", "x" * 129, "line\n"])
def test_names_are_plain(client: Client, workspace_id: str, name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        client.register_dataset(workspace_id, name, "data/table.parquet")
    assert refused.value.details["field"] == "name"


def test_another_principals_workspace_is_not_found(service: RunningService, client: Client, workspace_id: str) -> None:
    token = client.create_token(f"another-{uuid.uuid4()}").token
    with service.client(token) as other:
        for call in (
            lambda: other.register_dataset(workspace_id, "x", "data/table.csv"),
            lambda: other.list_datasets(workspace_id),
            lambda: other.get_dataset(workspace_id, "table"),
            lambda: other.copy_dataset(workspace_id, "table", workspace_id),
            lambda: other.remove_dataset(workspace_id, "table"),
        ):
            with pytest.raises(NotFound):
                call()


def test_the_command_line_and_the_record(client: Client, session: Session, workspace_id: str, sandcell: Shell) -> None:
    (sandcell.directory / "own.csv").write_text("a,b\n1,x\n2,y\n")
    session.upload("own.csv", sandcell.directory / "own.csv")
    added = sandcell("dataset", "add", workspace_id, "own.csv", "--format", "csv")
    assert added.returncode == 0, added.stderr
    assert "own: csv, 2 rows, 2 columns" in added.stderr
    assert "pd.read_csv('/workspace/own.csv')" in added.stderr
    assert added.stdout.splitlines()[0].split("\t") == ["a", "int64", "0", "2", "1", "1.5", "2", "1"]
    assert "own\tcsv\t2\t2\t" in sandcell("dataset", "ls", workspace_id).stdout
    shown = json.loads(sandcell("dataset", "show", workspace_id, "own", "--json").stdout)
    assert shown["profile"]["sample"] == [[1, "x"], [2, "y"]]
    assert shown["profile"]["columns"][0]["50%"] == 1.5
    with pytest.raises(Conflict, match=r"is that of 'own\.csv'"):
        client.register_dataset(workspace_id, "own", "data/table.csv")
    refused = sandcell("dataset", "copy", workspace_id, "own", workspace_id)
    assert (refused.returncode, "say another one" in refused.stderr) == (7, True)
    assert sandcell("dataset", "rm", workspace_id, "own").returncode == 0
    gone = sandcell("dataset", "rm", workspace_id, "own")
    assert (gone.returncode, "sandcell dataset ls" in gone.stderr) == (7, True)
    assert [each.path for each in client.workspace_files(workspace_id) if each.path == "own.csv"] == ["own.csv"]

    record = client.list_audit(event="RegisterDataset", limit=1).items[0]
    asked = record.detail["requestParameters"]
    assert (asked["workspace_id"], asked["name"], asked["path"]) == (workspace_id, "own", "data/table.csv")


def test_a_dataset_is_stale_once_its_file_is_another_one_or_gone(client: Client, tmp_path: Path) -> None:
    with client.session() as session:
        workspace_id = session.info.workspace_id
        session.upload("t.csv", b"a\n1\n")
    client.register_dataset(workspace_id, "t", "t.csv")
    assert client.get_dataset(workspace_id, "t").stale is False
    (tmp_path / "t.csv").write_bytes(b"a\n2\n")
    client.workspace_upload(workspace_id, "t.csv", tmp_path / "t.csv")
    shown = client.get_dataset(workspace_id, "t")
    assert shown.stale is True
    assert shown.profile is not None
    assert shown.profile.sample == [[1]], "a profile is of the bytes it was made of"
    client.workspace_remove(workspace_id, "t.csv")
    assert client.get_dataset(workspace_id, "t").stale is True
    with pytest.raises(NotFound, match="upload it first"):
        client.register_dataset(workspace_id, "t", "t.csv")


def test_a_dataset_is_passed_on_by_name(client: Client) -> None:
    with client.session() as target:
        other_id = target.info.workspace_id
    with client.session() as session:
        workspace_id = session.info.workspace_id
        session.upload("in/t.csv", b"a;b\n1;x\n2;y\n")
        made = client.register_dataset(workspace_id, "t", "in/t.csv")
        passed = client.copy_dataset(workspace_id, "t", other_id)
        assert (passed.workspace_id, passed.name, passed.path, passed.stale) == (other_id, "t", "in/t.csv", False)
        assert (passed.profile, passed.sha256, passed.load) == (made.profile, made.sha256, made.load)
        assert client.workspace_download(other_id, "in/t.csv") == b"a;b\n1;x\n2;y\n"
        assert client.copy_dataset(workspace_id, "t", other_id).id == passed.id, "again it changes nothing"
        assert client.copy_dataset(workspace_id, "t", other_id, new_name="other", to_path="deep").name == "other"
        assert client.get_dataset(other_id, "other").path == "deep/in/t.csv"
        with pytest.raises(Conflict, match="remove that dataset first"):
            client.copy_dataset(workspace_id, "t", other_id, new_name="other")

        session.upload("in/t.csv", b"a;b\n3;z\n")
        with pytest.raises(Conflict, match="register it again first"):
            client.copy_dataset(workspace_id, "t", other_id)
        client.register_dataset(workspace_id, "t", "in/t.csv")
        with pytest.raises(Conflict) as refused:
            client.copy_dataset(workspace_id, "t", other_id)
        assert client.get_dataset(other_id, "t").rows == 2, "what is there stays as it was"
        assert client.copy_dataset(workspace_id, "t", other_id, overwrite=True).rows == 1
        assert refused.value.status == 409
        with pytest.raises(NotFound):
            client.copy_dataset(workspace_id, "t", str(uuid.uuid4()))
        with pytest.raises(Conflict) as live:
            client.copy_dataset(other_id, "t", workspace_id)
        assert live.value.code == "workspace_in_use"
