"""What `check` says of a bucket that cannot be used: exactly which permission is missing, or what else is wrong."""

from __future__ import annotations

import io
import os
import socket
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.doubles.faulty_s3 import FaultyS3, Refusal
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.doubles.server_process import free_port
from workspace_sync.errors import PermissionMissing, StoreRefused, StoreUnavailable, StoreUnusable
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

Opener = Callable[..., S3Store]
REQUIRED = ("s3:ListBucket", "s3:PutObject", "s3:GetObject", "s3:DeleteObject")


@pytest.mark.parametrize(
    "denied",
    [
        *[(each,) for each in REQUIRED],
        ("s3:PutObject", "s3:DeleteObject"),
        ("s3:ListBucket", "s3:GetObject"),
        ("s3:GetObject", "s3:DeleteObject"),
        ("s3:ListBucket", "s3:PutObject", "s3:DeleteObject"),
    ],
    ids=lambda denied: "+".join(each.removeprefix("s3:") for each in denied),
)
def test_every_missing_permission_is_named_and_no_other(
    faulty: FaultyS3, open_s3: Opener, denied: tuple[str, ...]
) -> None:
    faulty.deny(*denied)
    with pytest.raises(PermissionMissing) as caught:
        open_s3(faulty.endpoint).check()
    assert set(caught.value.permissions) == set(denied)
    for each in REQUIRED:
        assert (each in str(caught.value)) == (each in denied)
    assert BUCKET in str(caught.value)


def test_a_permission_on_the_key_that_encrypts_is_named(faulty: FaultyS3, open_s3: Opener) -> None:
    said = "User: arn:aws:iam::1:user/hush is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:x"
    faulty.fail(Refusal(403, "AccessDenied", said), "PutObject")
    with pytest.raises(PermissionMissing) as caught:
        open_s3(faulty.endpoint).check()
    assert caught.value.permissions == ("kms:GenerateDataKey",)
    assert "hush" not in str(caught.value)


def test_nothing_is_left_by_a_check(faulty: FaultyS3, open_s3: Opener) -> None:
    store = open_s3(faulty.endpoint)
    assert store.check() == ()
    assert list(store.list("workspaces/")) == []


def test_a_store_that_may_not_delete_keeps_one_probe_however_often_it_is_checked(
    faulty: FaultyS3, open_s3: Opener
) -> None:
    store = open_s3(faulty.endpoint)
    faulty.deny("s3:DeleteObject")
    for _ in range(2):
        with pytest.raises(PermissionMissing):
            store.check()
    assert [each.key for each in store.list("workspaces/")] == ["workspaces/.probe/kept"]


@pytest.mark.parametrize(
    ("denied", "said"),
    [
        ("s3:AbortMultipartUpload", "stay until a lifecycle rule removes them"),
        ("s3:ListMultipartUploadParts", "begin again"),
        ("s3:ListBucketMultipartUploads", "begin again"),
    ],
)
def test_what_is_only_useful_is_advised_and_large_files_are_written_without_it(
    faulty: FaultyS3, open_s3: Opener, denied: str, said: str
) -> None:
    store = open_s3(faulty.endpoint)
    faulty.deny(denied)
    (advice,) = store.check()
    assert denied in advice
    assert said in advice
    data = os.urandom(1 << 20) * 18
    store.put("w/large", io.BytesIO(data), len(data))
    assert store.stat("w/large").size == len(data)


REFUSALS = [
    (Refusal(404, "NoSuchBucket"), "there is no such bucket. Create it"),
    (Refusal(403, "InvalidAccessKeyId"), "Correct AWS_ACCESS_KEY_ID"),
    (Refusal(403, "SignatureDoesNotMatch"), "Correct AWS_SECRET_ACCESS_KEY"),
    (Refusal(400, "ExpiredToken"), "the credentials have expired. Renew them"),
    (Refusal(403, "RequestTimeTooSkewed"), "clock"),
    (Refusal(301, "PermanentRedirect", headers=(("x-amz-bucket-region", "eu-west-3"),)), "region=eu-west-3"),
    (Refusal(400, "AuthorizationHeaderMalformed"), "another region"),
]


@pytest.mark.parametrize(("refusal", "said"), REFUSALS, ids=[refusal.code for refusal, _ in REFUSALS])
def test_a_refusal_says_what_to_correct(faulty: FaultyS3, open_s3: Opener, refusal: Refusal, said: str) -> None:
    faulty.fail(refusal)
    with pytest.raises(StoreUnusable) as caught:
        open_s3(faulty.endpoint).check()
    assert said in str(caught.value)
    assert refusal.message not in str(caught.value), "what a server writes is not repeated"
    assert ACCESS_KEY[1] not in str(caught.value)


PAGE = b"<html><body>Please log in</body></html>"


@pytest.mark.parametrize("status", [200, 403, 404, 502])
def test_a_page_in_place_of_an_answer_is_no_empty_store(faulty: FaultyS3, open_s3: Opener, status: int) -> None:
    store = open_s3(faulty.endpoint)
    store.put("w/kept", io.BytesIO(b"1"), 1)
    faulty.fail(Refusal(status, "", body=PAGE, headers=(("Content-Type", "text/html"),)))
    with pytest.raises((StoreRefused, StoreUnavailable)):
        store.check()
    with pytest.raises((StoreRefused, StoreUnavailable)):
        list(store.list("w/"))
    with pytest.raises((StoreRefused, StoreUnavailable)):
        store.put("w/new", io.BytesIO(b"2"), 1)
    with pytest.raises((StoreRefused, StoreUnavailable)):
        store.delete(["w/kept"])
    faulty.heal()
    assert [each.key for each in store.list("w/")] == ["w/kept"]


def test_an_endpoint_where_nobody_is(open_s3: Opener) -> None:
    with pytest.raises(StoreUnavailable, match="nothing answers there"):
        open_s3(f"http://127.0.0.1:{free_port()}").check()


def test_an_endpoint_that_never_answers(open_s3: Opener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StoreUnavailable, match="takes too long"):
        open_s3(f"http://127.0.0.1:{silent.getsockname()[1]}").check()


def test_an_endpoint_that_speaks_no_tls(faulty: FaultyS3, open_s3: Opener) -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        open_s3(faulty.endpoint.replace("http://", "https://")).check()


def test_no_credentials_at_all(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    store = S3Store(BUCKET, uuid.uuid4().hex, endpoint_url=moto_endpoint)
    try:
        with pytest.raises(StoreUnusable, match="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
            store.check()
    finally:
        store.close()


def test_wrong_credentials_and_a_missing_bucket_of_real_servers(
    rclone_endpoint: str, moto_endpoint: str, open_s3: Opener
) -> None:
    with pytest.raises(StoreUnusable, match="no such bucket"):
        open_s3(moto_endpoint, bucket="never-made").check()
    with pytest.raises(StoreUnusable, match="no such bucket"):
        open_s3(rclone_endpoint, bucket="never-made").check()
    with pytest.raises(StoreRefused) as caught:
        open_s3(rclone_endpoint, access_key=("AKIAWRONG00000000000", "wrong-secret-wrong-secret-wrong")).check()
    assert "wrong-secret" not in str(caught.value)


def test_a_local_store_in_a_place_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreRefused, match="directory is writable"):
        LocalStore(str(tmp_path / "file")).check()


def test_credentials_that_are_renewed_in_their_file_hold_without_a_restart(
    rclone_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"

    def write(key_id: str, secret: str) -> None:
        file.write_text(f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = {secret}\n")

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setattr("workspace_sync.stores.s3.credentials.RENEW_SECONDS", 0)
    write(ACCESS_KEY[0], "an-older-secret-that-holds-no-more")
    store = S3Store(BUCKET, uuid.uuid4().hex, endpoint_url=rclone_endpoint)
    try:
        with pytest.raises(StoreRefused):
            store.put("w/file", io.BytesIO(b"1"), 1)
        write(*ACCESS_KEY)
        store.put("w/file", io.BytesIO(b"1"), 1)
        file.unlink()  # as while it is replaced
        assert [each.key for each in store.list("w/")] == ["w/file"]
    finally:
        store.close()


def test_checks_of_a_local_store_do_not_meet(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    store = LocalStore(str(tmp_path))
    assert list(executor.map(lambda _: store.check(), range(200))) == [()] * 200
    assert [each.name for each in tmp_path.iterdir()] == [".incoming"]


def test_an_answer_without_a_word_says_what_it_may_be(faulty: FaultyS3, open_s3: Opener) -> None:
    faulty.fail(Refusal(400, "ExpiredToken"), "HeadObject")
    with pytest.raises(StoreUnusable, match="credentials that have expired"):
        open_s3(faulty.endpoint).stat("w/file")
