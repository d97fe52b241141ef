"""Large objects: taken up where they were cut off, checked, read as they come, in bounded memory."""

from __future__ import annotations

import io
import os
import subprocess
import threading
import time
from pathlib import Path

import boto3
import pytest

from tests.doubles.faulty_s3 import Damaged, FaultyS3, Refusal, Reset, Stall, Torn
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.workspace_sync.s3_writing import on_its_own, peak_growth
from workspace_sync.errors import StoreUnavailable
from workspace_sync.stores.s3 import upload as s3_store_upload
from workspace_sync.stores.s3.store import S3Store
from workspace_sync.stores.s3.upload import PART_BYTES

PARTS = 3
SIZE = (PARTS - 1) * PART_BYTES + 1000
SECONDS = 120.0

PUT = 'store.put("large", open(file, "rb", buffering=0), size)'
PUT_AND_GOT = f"""{PUT}
with store.get("large") as stream:
    while stream.read(1 << 20):
        pass
"""


@pytest.fixture
def store(behind_faulty: S3Store) -> S3Store:
    return behind_faulty


@pytest.fixture(scope="module")
def content() -> bytes:
    return os.urandom(SIZE)


def put_at_last(store: S3Store, key: str, data: bytes) -> None:
    """As a mirror does; a server that cannot replace a part of an upload loses it first."""
    try:
        store.put(key, io.BytesIO(data), len(data))
    except StoreUnavailable:
        store.put(key, io.BytesIO(data), len(data))


def uploads(faulty: FaultyS3, prefix: str) -> list[float]:
    """The ages, in seconds, of uploads that are not complete."""
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=faulty.endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY[0],
        aws_secret_access_key=ACCESS_KEY[1],
    )
    try:
        found = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())
        mine = [each for each in found if each["Key"].startswith(prefix)]
        return [time.time() - each["Initiated"].timestamp() for each in mine]
    finally:
        client.close()


def test_what_a_killed_process_had_sent_is_not_sent_again(
    faulty: FaultyS3, store: S3Store, prefix: str, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(content)
    enough, taken = threading.Event(), []

    def count(request: object) -> None:
        if getattr(request, "operation", "") == "UploadPart":
            taken.append(request)
            if len(taken) == PARTS - 1:
                enough.set()

    faulty.done = count
    faulty.fail(Stall(), "UploadPart", skip=PARTS - 1)
    child = subprocess.Popen(on_its_own(PUT, faulty.endpoint, prefix, tmp_path / "large", SIZE))
    try:
        assert enough.wait(SECONDS)
    finally:
        child.kill()
        child.wait(SECONDS)
    faulty.done = lambda _: None
    faulty.heal()
    assert len(uploads(faulty, prefix)) == 1
    faulty.requests.clear()
    store.put("large", io.BytesIO(content), SIZE)
    assert faulty.operations().count("UploadPart") <= 1
    assert "CreateMultipartUpload" not in faulty.operations()
    with store.get("large") as stream:
        assert stream.read() == content
    assert uploads(faulty, prefix) == []


def test_an_upload_taken_up_by_other_content_sends_what_differs(
    faulty: FaultyS3, store: S3Store, content: bytes
) -> None:
    faulty.fail(Refusal(500, "InternalError"), "CompleteMultipartUpload")
    with pytest.raises(StoreUnavailable):
        store.put("large", io.BytesIO(content), SIZE)
    faulty.heal()
    faulty.requests.clear()
    other = content[:PART_BYTES] + bytes(1000) + content[PART_BYTES + 1000 :]
    put_at_last(store, "large", other)
    replaced = "AbortMultipartUpload" not in faulty.operations()
    assert not replaced or faulty.operations().count("UploadPart") == 1
    with store.get("large") as stream:
        assert stream.read() == other


def test_an_upload_whose_parts_cannot_be_listed_at_first_is_taken_up_later(
    faulty: FaultyS3, store: S3Store, content: bytes
) -> None:
    faulty.fail(Refusal(500, "InternalError"), "CompleteMultipartUpload")
    with pytest.raises(StoreUnavailable):
        store.put("large", io.BytesIO(content), SIZE)
    faulty.heal()
    faulty.fail(Reset(), "ListParts")
    with pytest.raises(StoreUnavailable):
        store.put("large", io.BytesIO(content), SIZE)
    faulty.heal()
    faulty.requests.clear()
    store.put("large", io.BytesIO(content), SIZE)
    assert "UploadPart" not in faulty.operations()


def test_a_completed_upload_whose_answer_is_lost_is_not_sent_again(
    faulty: FaultyS3, server_kind: str, store: S3Store, content: bytes
) -> None:
    faulty.fail(Reset(after=True), "CompleteMultipartUpload", times=1)
    faulty.fail(Refusal(404, "NoSuchUpload"), "CompleteMultipartUpload")
    if server_kind == "rclone":  # its ETags do not tell which parts an object was made of
        with pytest.raises(StoreUnavailable, match="begins again"):
            store.put("large", io.BytesIO(content), SIZE)
        return
    written = store.put("large", io.BytesIO(content), SIZE)
    assert faulty.operations().count("UploadPart") == PARTS
    assert written.etag == store.stat("large").etag


def test_an_upload_that_nobody_takes_up_is_aborted_by_a_check(
    faulty: FaultyS3, store: S3Store, prefix: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.fail(Refusal(403, "AccessDenied"), "CompleteMultipartUpload")
    with pytest.raises(Exception, match="s3:PutObject"):
        store.put("large", io.BytesIO(content), SIZE)
    faulty.heal()
    [age] = uploads(faulty, prefix)
    store.check()
    assert len(uploads(faulty, prefix)) == (age < s3_store_upload.LEFTOVER_SECONDS)  # one server begins all in 2010
    monkeypatch.setattr(s3_store_upload, "LEFTOVER_SECONDS", -86_400)
    store.check()
    assert uploads(faulty, prefix) == []


@pytest.mark.parametrize("size", [1000, SIZE], ids=["small", "parts"])
def test_what_arrives_damaged_is_not_taken_for_written(
    faulty: FaultyS3, server_kind: str, store: S3Store, content: bytes, size: int
) -> None:
    data = content[:size]
    name = "PutObject" if size == 1000 else "UploadPart"
    faulty.fail(Damaged(), name, times=1)
    if server_kind == "ceph" and size == 1000:
        store.put("damaged", io.BytesIO(data), size)
        assert faulty.operations().count(name) == 2, "the server compares, and what it refused was sent again"
    else:
        with pytest.raises(StoreUnavailable, match="damaged"):
            store.put("damaged", io.BytesIO(data), size)
        put_at_last(store, "damaged", data)
    with store.get("damaged") as stream:
        assert stream.read() == data


def test_an_object_in_parts_is_known_by_the_etag_it_has(faulty: FaultyS3, store: S3Store, content: bytes) -> None:
    for key in ("first", "second"):
        faulty.requests.clear()
        written = store.put(key, io.BytesIO(content), SIZE)
        assert faulty.operations().count("HeadObject") == 1
        assert written.etag == store.stat(key).etag
        assert [each.etag for each in store.list(key)] == [written.etag]
        store.copy(key, "renamed", etag=written.etag)
        with store.get("renamed") as stream:
            assert stream.read() == content


def test_an_object_that_is_not_there_once_its_parts_are_is_sent_again(
    faulty: FaultyS3, store: S3Store, content: bytes
) -> None:
    faulty.fail(Refusal(404, "NoSuchKey"), "HeadObject", times=1)
    with pytest.raises(StoreUnavailable, match="sent again"):
        store.put("large", io.BytesIO(content), SIZE)
    store.put("large", io.BytesIO(content), SIZE)
    with store.get("large") as stream:
        assert stream.read() == content


def test_a_range_is_read_from_where_it_begins(faulty: FaultyS3, store: S3Store, content: bytes) -> None:
    store.put("large", io.BytesIO(content), SIZE)
    faulty.requests.clear()
    with store.get("large", 6_000_000, 10) as stream:
        assert stream.read() == content[6_000_000:6_000_010]
    asked = [each.headers.get("range") for each in faulty.requests if each.operation == "GetObject"]
    assert asked == ["bytes=6000000-6000009"]


def test_readers_that_stand_still_keep_no_other_from_reading(store: S3Store, content: bytes) -> None:
    store.put("large", io.BytesIO(content), SIZE)
    still = [store.get("large") for _ in range(3)]
    try:
        with store.get("large") as stream:
            assert stream.read() == content
        for each in still:
            assert each.read() == content
    finally:
        for each in still:
            each.close()


def test_an_object_that_breaks_off_goes_on_where_it_broke(faulty: FaultyS3, store: S3Store, content: bytes) -> None:
    store.put("large", io.BytesIO(content), SIZE)
    faulty.requests.clear()
    faulty.fail(Torn(PART_BYTES // 2), "GetObject", times=3)
    with store.get("large") as stream:
        assert stream.read() == content
    asked = [each.headers.get("range", "") for each in faulty.requests if each.operation == "GetObject"]
    starts = [int(each.removeprefix("bytes=").partition("-")[0]) for each in asked]
    assert len(starts) == 4, "the beginning, the rest, and twice what was left of that"
    assert sorted(set(starts)) == starts, "it goes on, and does not begin again"


def test_an_object_replaced_while_it_is_read_is_not_torn(faulty: FaultyS3, store: S3Store, content: bytes) -> None:
    store.put("large", io.BytesIO(content), SIZE)
    faulty.fail(Torn(PART_BYTES), "GetObject", times=1)
    with store.get("large") as stream:
        assert stream.read(1000) == content[:1000]
        store.put("large", io.BytesIO(content[::-1]), SIZE)
        with pytest.raises(StoreUnavailable, match="replaced"):
            stream.read()


def test_memory_is_bounded_both_ways(moto_endpoint: str, prefix: str, tmp_path: Path) -> None:
    size = 112 << 20
    with (tmp_path / "large").open("wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
    most = (s3_store_upload.PARTS_IN_MEMORY + 2) * PART_BYTES
    assert peak_growth(PUT_AND_GOT, moto_endpoint, prefix, tmp_path / "large", size) < most
