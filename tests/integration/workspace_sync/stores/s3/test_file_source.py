"""A file of our own, as a manifest, that goes to S3 by one request: read as it is sent, and again when it has to be."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from tests.doubles.faulty_s3 import Damaged, FaultyS3, Reset
from tests.integration.workspace_sync.s3_writing import peak_growth
from workspace_sync.errors import ObjectNotFound, StoreRefused, StoreUnavailable
from workspace_sync.store import FileSource, ObjectStore, Written
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3 import store as s3_store
from workspace_sync.stores.s3.store import S3Store
from workspace_sync.stores.s3.upload import PART_BYTES

SIZE = 2 * PART_BYTES + 1000


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "file"
    path.write_bytes(os.urandom(SIZE))
    return path


@pytest.fixture
def store(behind_faulty: S3Store) -> S3Store:
    return behind_faulty


def put(store: ObjectStore, path: Path, size: int = SIZE) -> Written:
    with tempfile.SpooledTemporaryFile(1000) as file:
        file.write(path.read_bytes())
        return store.put("object", cast("BinaryIO", FileSource(cast("BinaryIO", file), size)), size)


def holds(store: ObjectStore, path: Path) -> bool:
    with store.get("object") as stream:
        return stream.read() == path.read_bytes()


def sent(faulty: FaultyS3) -> list[str]:
    return [each for each in faulty.operations() if each in ("PutObject", "CreateMultipartUpload", "UploadPart")]


def test_it_goes_by_one_request(faulty: FaultyS3, store: S3Store, content: Path) -> None:
    written = put(store, content)
    assert sent(faulty) == ["PutObject"]
    assert holds(store, content)
    assert store.stat("object").etag == written.etag


def test_a_larger_one_goes_in_parts(
    faulty: FaultyS3, store: S3Store, content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_store, "IN_ONE_BYTES", SIZE - 1)
    put(store, content)
    assert sent(faulty).count("UploadPart") == 3
    assert holds(store, content)


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_what_breaks_off_is_sent_again_from_its_start(
    faulty: FaultyS3, store: S3Store, content: Path, times: int
) -> None:
    faulty.fail(Reset(), "PutObject", times=times)
    put(store, content)
    assert sent(faulty) == ["PutObject"] * (times + 1)
    assert holds(store, content)


def test_what_arrives_damaged_is_not_taken_for_written(faulty: FaultyS3, store: S3Store, content: Path) -> None:
    faulty.fail(Damaged(), "PutObject", times=1)
    with pytest.raises(StoreUnavailable, match="damaged"):
        put(store, content)
    put(store, content)
    assert holds(store, content)


@pytest.mark.parametrize("wrong", [-1, 1], ids=["longer", "shorter"])
def test_a_file_of_another_size_is_not_written(store: S3Store, content: Path, wrong: int, tmp_path: Path) -> None:
    for each in (store, LocalStore(str(tmp_path / "store"))):
        with pytest.raises(StoreRefused, match="announced size"):
            put(each, content, SIZE + wrong)
        with pytest.raises(ObjectNotFound):
            each.stat("object")


def test_it_is_never_whole_in_memory(store: S3Store, faulty: FaultyS3, tmp_path: Path) -> None:
    size, path = 40_000_000, tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(size)
    program = 'store.put("object", FileSource(open(file, "rb"), size), size)'
    assert peak_growth(program, faulty.endpoint, "measured", path, size) < 8_000_000
