"""Objects in an S3 bucket, at Amazon or at any endpoint that speaks its protocol.

The only module that knows boto3. Uploads go through one s3transfer manager per store: bounded threads, bounded memory,
multipart from 8 MiB on, aborted whole when a part fails. Credentials come from boto3's usual places, never from a URL.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO
from urllib.parse import quote

import boto3.session
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.handlers import add_expect_header
from botocore.response import StreamingBody
from s3transfer.manager import TransferConfig, TransferManager

from workspace_sync.errors import ObjectNotFound, StoreRefused
from workspace_sync.s3_store_answers import require_s3_answers
from workspace_sync.s3_store_check import Probe
from workspace_sync.s3_store_errors import refused, translated
from workspace_sync.store import ExactReader, StoredObject, Written, check_key

CONNECT_TIMEOUT_SECONDS = 5.0
READ_TIMEOUT_SECONDS = 30.0
REQUEST_ATTEMPTS = 3
PART_BYTES = 8 * 1024 * 1024
TRANSFER_THREADS = 8
PARTS_IN_MEMORY = 6
DELETE_BATCH = 1000
_BEYOND_THE_END = 416

_ABSENT = frozenset({"NoSuchKey", "404", "NotFound"})


class S3Store:
    """An `ObjectStore` beneath `prefix` of one bucket.

    `access_key` is (id, secret); without it boto3 finds credentials in the environment, its files or the instance.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        access_key: tuple[str, str] | None = None,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._where = f"s3://{bucket}/{self._prefix}".rstrip("/") + (f" at {endpoint_url}" if endpoint_url else "")
        config = Config(
            connect_timeout=connect_timeout_seconds,
            read_timeout=read_timeout_seconds,
            retries={"total_max_attempts": REQUEST_ATTEMPTS, "mode": "standard"},
            signature_version="s3v4",  # presigned links too
            max_pool_connections=2 * TRANSFER_THREADS,
            s3={"addressing_style": "path" if endpoint_url else "auto"},
            request_checksum_calculation="when_required",  # other servers than Amazon's refuse the newer checksums
            response_checksum_validation="when_required",
        )
        key_id, secret = access_key or (None, None)
        with self._errors():
            self._client: Any = boto3.session.Session().client(
                "s3",
                endpoint_url=endpoint_url,
                region_name=region or ("us-east-1" if endpoint_url else None),
                aws_access_key_id=key_id,
                aws_secret_access_key=secret,
                config=config,
            )
        # With `Expect: 100-continue` botocore loops for ever when the connection ends inside the interim answer.
        self._client.meta.events.unregister("before-call.s3", add_expect_header)
        require_s3_answers(self._client)
        self._transfers = TransferManager(self._client, _transfer_config())

    @property
    def description(self) -> str:
        return f"the store {self._where}"

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        with self._errors(key):
            exact: Any = ExactReader(source, size)  # not seekable: read once, in order, so memory stays bounded
            self._transfers.upload(exact, self._bucket, self._key(key)).result()
        return self._written(key)

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        if size == 0:
            self.stat(key)
            return io.BytesIO()
        wanted = {} if not offset and size is None else {"Range": _range(offset, size)}
        try:
            with self._errors(key):
                answer = self._client.get_object(Bucket=self._bucket, Key=self._key(key), **wanted)
        except StoreRefused as error:
            if wanted and isinstance(error.__cause__, ClientError) and _status(error.__cause__) == _BEYOND_THE_END:
                return io.BytesIO()
            raise
        return io.BufferedReader(_Download(answer["Body"], self, key), 1 << 16)

    def stat(self, key: str) -> StoredObject:
        with self._errors(key):
            answer = self._client.head_object(Bucket=self._bucket, Key=self._key(key))
        modified = answer["LastModified"].timestamp()
        return StoredObject(key, answer["ContentLength"], modified, _etag(answer), answer.get("VersionId", ""))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        start = self._prefix + prefix
        with self._errors(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=start)
            for page in pages:
                for item in page.get("Contents", ()):
                    if item["Key"].startswith(start):
                        key = item["Key"][len(self._prefix) :]
                        yield StoredObject(key, item["Size"], item["LastModified"].timestamp(), _etag(item))

    def delete(self, keys: Iterable[str]) -> None:
        waiting = [self._prefix + key for key in keys]  # also what other tools made and `check_key` would refuse
        for start in range(0, len(waiting), DELETE_BATCH):
            batch = waiting[start : start + DELETE_BATCH]
            with self._errors():
                answer = self._client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                )
            failed = [error for error in answer.get("Errors", ()) if error.get("Code") not in _ABSENT]
            if failed:
                raise refused(self.description, str(failed[0].get("Code", "unknown")), 0, "DeleteObjects")

    def copy(self, source: str, target: str, *, etag: str = "") -> Written:
        if etag and self.stat(source).etag != etag:
            raise ObjectNotFound(f"{self.description}: {source!a} is not what it was")
        with self._errors(source):
            self._transfers.copy(
                {"Bucket": self._bucket, "Key": self._key(source)}, self._bucket, self._key(target)
            ).result()
        return self._written(target)

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        disposition = f"attachment; filename*=UTF-8''{quote(filename, safe='')}"
        asked = {"Bucket": self._bucket, "Key": self._key(key), "ResponseContentDisposition": disposition}
        with self._errors(key):
            return str(self._client.generate_presigned_url("get_object", Params=asked, ExpiresIn=seconds))

    def check(self) -> tuple[str, ...]:
        return Probe(self._client, self._bucket, self.description, self._key).run()

    def close(self) -> None:
        self._transfers.shutdown(cancel=True)
        self._client.close()

    def _written(self, key: str) -> Written:
        now = self.stat(key)
        return Written(now.etag, now.version_id)

    def _key(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _errors(self, key: str = "") -> contextlib.AbstractContextManager[None]:
        return translated(self.description, key)


class _Download(io.RawIOBase):
    """A body under way, its errors told in our words."""

    def __init__(self, body: StreamingBody, store: S3Store, key: str) -> None:
        super().__init__()
        self._body = body
        self._store = store
        self._object_key = key

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._store._errors(self._object_key):
            piece = self._body.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _etag(answer: Any) -> str:
    return str(answer.get("ETag", "")).strip('"')


def _range(offset: int, size: int | None) -> str:
    return f"bytes={offset}-" if size is None else f"bytes={offset}-{offset + size - 1}"


def _transfer_config() -> TransferConfig:
    return TransferConfig(
        multipart_threshold=PART_BYTES,
        multipart_chunksize=PART_BYTES,
        max_request_concurrency=TRANSFER_THREADS,
        max_submission_concurrency=TRANSFER_THREADS // 2,
        max_in_memory_upload_chunks=PARTS_IN_MEMORY,
    )
