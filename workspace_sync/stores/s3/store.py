"""Objects in an S3 bucket, at Amazon or at any endpoint that speaks its protocol.

Up to 5 MiB an object is one request, beyond it goes in parts (`upload`); it is read as it comes (`download`), copied
inside the store by one request, or by s3transfer where it is too large for that. Memory is bounded: a body for each
caller, and the parts that module states. Credentials come from botocore's usual places, never from a URL.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import socket
import threading
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import quote

import boto3
import botocore.session
from botocore.config import Config
from botocore.handlers import add_expect_header
from botocore.loaders import JSONFileLoader, Loader, create_loader

from workspace_sync.errors import ObjectNotFound, StoreError, StoreRefused, StoreUnavailable
from workspace_sync.store import Ahead, ExactReader, FileSource, Item, StoredObject, Written, check_key
from workspace_sync.stores.s3.check import Probe
from workspace_sync.stores.s3.credentials import renew_from_files
from workspace_sync.stores.s3.download import ByteRange, ObjectReader, ahead
from workspace_sync.stores.s3.errors import ABSENT, Translated, etag_of, explain_code, require_s3_answers
from workspace_sync.stores.s3.listing import parse_listings, request_page
from workspace_sync.stores.s3.requests import Requests, read_body
from workspace_sync.stores.s3.upload import PART_BYTES, Uploads

# What botocore knows of its services, read without the prose: a third of what a client of S3 takes of memory.


def strip_documentation(session: Any) -> None:
    """Let this botocore session read its models so; before its first client is made."""
    session.register_component("data_loader", _make_loader(session.get_config_variable("data_path")))


@cache
def _make_loader(data_path: str | None) -> Loader:
    """One for all sessions of the process, which keeps what it has read: to read it takes a tenth of a second.

    botocore takes buckets out of the paths in these models when a client is used, in the same way for each client.
    """
    loader = create_loader(data_path)
    loader.file_loader = _Models()
    return loader


class _Models(JSONFileLoader):
    """Plain dicts, too, where botocore's own are twice as large."""

    def load_file(self, file_path: str) -> dict[str, Any] | None:
        """The model at this path, to which `.json` or `.json.gz` is added; None when there is none."""
        for suffix, unpacked in ((".json", bytes), (".json.gz", gzip.decompress)):
            try:
                content = Path(file_path + suffix).read_bytes()
            except OSError:  # not there, or where this process may not look
                continue
            return json.loads(unpacked(content), object_pairs_hook=_drop_documentation)  # type: ignore[no-any-return]
        return None


def _drop_documentation(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: "" if name == "documentation" and isinstance(value, str) else value for name, value in pairs}


CONNECT_TIMEOUT_SECONDS = 5.0
READ_TIMEOUT_SECONDS = 30.0
REQUEST_ATTEMPTS = 3
TRANSFER_THREADS = 8
COPY_BYTES = 5 * 10**9
"""Up to this size, S3's own limit, an object is copied by one request."""
QUICK_COPY_BYTES = 256 << 20
"""A larger object may take the server longer to copy than it may take to answer anything else."""
COPY_TIMEOUT_SECONDS = 600.0
DELETE_BATCH = 1000
IN_ONE_BYTES = 64 << 20
"""A file up to this size that can be read again goes by one request: there is nothing to be held for another one."""
AT_ONCE_BYTES = 64 * 1024
"""A smaller object is read as soon as it is opened, so that its connection is free again."""


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
        attempts: int = REQUEST_ATTEMPTS,
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._where = f"s3://{bucket}/{self._prefix}".rstrip("/") + (f" at {endpoint_url}" if endpoint_url else "")
        with self._errors():
            core = botocore.session.get_session()
            strip_documentation(core)
            if access_key is not None:
                core.set_credentials(*access_key)
            else:
                renew_from_files(core)
            session = boto3.session.Session(botocore_session=core)
            make = partial(_make_client, session, endpoint_url, region, attempts)
            self._client = make((connect_timeout_seconds, read_timeout_seconds))
        patience = connect_timeout_seconds, max(read_timeout_seconds, COPY_TIMEOUT_SECONDS)
        self._make_patient = partial(make, patience)
        self._patient: Any = None
        self._silence_seconds = read_timeout_seconds
        self._guard = threading.Lock()
        self._requests = Requests(core, self._client, bucket, self.description, self._key)
        self._uploads = Uploads(self._requests, self._client, bucket, self.description)

    @property
    def description(self) -> str:
        return f"the store {self._where}"

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        exact = ExactReader(source, size)
        with self._errors(key):
            if size <= PART_BYTES:
                return self._requests.put(self._key(key), read_body(exact, size))
            if isinstance(source, FileSource) and size <= IN_ONE_BYTES:
                return self._requests.send(self._client.put_object, source.begin(), Key=self._key(key))
            return self._uploads.put(self._key(key), exact, size)

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        if size == 0:
            self.stat(key)
            return io.BytesIO()
        return self._as_stream(key, self._open(key, "", offset, size), offset, size)

    @contextlib.contextmanager
    def get_ahead(self, wanted: Iterable[tuple[Item, str]]) -> Iterator[Ahead[Item]]:
        with contextlib.closing(ahead(wanted, self._ask, self._receive, self.get, self._silence_seconds)) as asked:
            yield asked

    def _ask(self, key: str) -> socket.socket | None:
        with contextlib.suppress(StoreError), self._errors(key):  # `get` tells what is wrong
            return self._requests.ask(self._key(key))
        return None

    def _receive(self, key: str, connection: socket.socket) -> BinaryIO:
        with self._errors(key):
            first = self._requests.receive(self._key(key), connection)
        return self._as_stream(key, first, 0, None)

    def _as_stream(self, key: str, first: ByteRange, offset: int, size: int | None) -> BinaryIO:
        end = first.end if size is None else min(first.end, offset + size)
        reader = ObjectReader(first, offset, end, partial(self._open, key, first.etag))
        if end - offset > AT_ONCE_BYTES:
            return cast("BinaryIO", io.BufferedReader(reader, AT_ONCE_BYTES))
        with reader:
            return io.BytesIO(reader.rest())

    def _open(self, key: str, etag: str, offset: int, size: int | None) -> ByteRange:
        with self._errors(key):
            return self._requests.open(self._key(key), offset, size, etag)

    def stat(self, key: str) -> StoredObject:
        with self._errors(key):
            answer = self._client.head_object(Bucket=self._bucket, Key=self._key(key))
        modified = answer["LastModified"].timestamp()
        return StoredObject(key, answer["ContentLength"], modified, etag_of(answer), answer.get("VersionId", ""))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        start, token = self._prefix + prefix, ""
        while True:
            with self._errors(prefix):
                page = request_page(self._client, self._bucket, start, token)
            for each in page.objects:
                if each.key.startswith(start):
                    yield StoredObject(each.key[len(self._prefix) :], each.size, each.modified, each.etag)
            if not page.token:
                return
            if page.token == token:
                raise StoreRefused(f"{self.description}: its listing comes to no end")
            token = page.token

    def delete(self, keys: Iterable[str]) -> None:
        waiting = [self._prefix + key for key in keys]  # also what other tools made and `check_key` would refuse
        for start in range(0, len(waiting), DELETE_BATCH):
            batch = waiting[start : start + DELETE_BATCH]
            with self._errors():
                answer = self._client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                )
            failed = [error for error in answer.get("Errors", ()) if error.get("Code") not in ABSENT]
            if failed:
                raise explain_code(self.description, str(failed[0].get("Code", "unknown")), 0, "DeleteObjects")

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        if size is not None and size <= QUICK_COPY_BYTES and not etag:
            with self._errors(source):
                written = self._requests.copy(self._key(source), self._key(target))
            if written is not None:
                return written
        now = self.stat(source)
        if etag and now.etag != etag:
            raise ObjectNotFound(f"{self.description}: {source!a} is not what it was")
        place = {"Bucket": self._bucket, "Key": self._key(source)}
        with self._errors(source):
            if now.size > COPY_BYTES:
                self._copy_in_parts(place, target)
                copied = self.stat(target)
                return Written(copied.etag, copied.version_id)
            client = self._client if now.size <= QUICK_COPY_BYTES else self._get_patient_client()
            told = client.copy_object(
                CopySource=place, Bucket=self._bucket, Key=self._key(target), CopySourceIfMatch=f'"{now.etag}"'
            )
        return Written(etag_of(told["CopyObjectResult"]), told.get("VersionId", ""))

    def _get_patient_client(self) -> Any:
        """Made at the first use: a client takes megabytes, and few stores copy large files."""
        with self._guard:
            if self._patient is None:
                self._patient = self._make_patient()
            return self._patient

    def _copy_in_parts(self, place: dict[str, str], target: str) -> None:
        from s3transfer.exceptions import CancelledError  # noqa: PLC0415 - few need it
        from s3transfer.manager import TransferConfig, TransferManager  # noqa: PLC0415

        with TransferManager(self._client, TransferConfig(max_request_concurrency=TRANSFER_THREADS)) as transfers:
            try:
                transfers.copy(place, self._bucket, self._key(target)).result()
            except CancelledError as error:
                raise StoreUnavailable(f"{self.description}: a copy was given up; it is made again") from error

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        disposition = f"attachment; filename*=UTF-8''{quote(filename, safe='')}"
        asked = {"Bucket": self._bucket, "Key": self._key(key), "ResponseContentDisposition": disposition}
        with self._errors(key):
            return str(self._client.generate_presigned_url("get_object", Params=asked, ExpiresIn=seconds))

    def check(self) -> tuple[str, ...]:
        advice = Probe(self._client, self._bucket, self.description, self._key).run()
        with contextlib.suppress(StoreError), self._errors():  # what may not be done is in the advice
            self._uploads.abort_leftovers(self._prefix)
        return advice

    def close(self) -> None:
        self._uploads.close()
        self._requests.close()
        self._client.close()
        if self._patient is not None:
            self._patient.close()

    def _key(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _errors(self, key: str = "") -> contextlib.AbstractContextManager[None]:
        return Translated(self.description, key)


def _make_client(
    session: Any, endpoint_url: str | None, region: str | None, attempts: int, seconds: tuple[float, float]
) -> Any:
    client = session.client(
        "s3",
        endpoint_url=endpoint_url,
        region_name=region or ("us-east-1" if endpoint_url else None),
        config=_make_config(attempts, *seconds, own_endpoint=endpoint_url is not None),
    )
    # With `Expect: 100-continue` botocore loops for ever when the connection ends inside the interim answer.
    client.meta.events.unregister("before-call.s3", add_expect_header)
    require_s3_answers(client)
    parse_listings(client)
    return client


def _make_config(attempts: int, connect_seconds: float, read_seconds: float, *, own_endpoint: bool) -> Config:
    return Config(
        connect_timeout=connect_seconds,
        read_timeout=read_seconds,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        signature_version="s3v4",  # presigned links too
        max_pool_connections=2 * TRANSFER_THREADS,
        s3={"addressing_style": "path" if own_endpoint else "auto"},
        request_checksum_calculation="when_required",  # other servers than Amazon's refuse the newer checksums
        response_checksum_validation="when_required",
    )
