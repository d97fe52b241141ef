"""One large object sent in parts: several at a time, so many in memory, and none again that the server has already.

An upload that was cut off stays with the server, also when the process died. The next one of the same key takes it up:
a part that already has the same hash is not sent again. An upload that is not taken up within a day is aborted.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from botocore.exceptions import ClientError

from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import ExactReader, Written
from workspace_sync.stores.s3.errors import ABSENT, etag_of, read_code
from workspace_sync.stores.s3.requests import Requests, fill

PART_BYTES = 5 << 20
"""A part, the smallest that S3 takes, and what is still sent as one piece."""
PARTS_IN_MEMORY = 3
"""Parts held in memory, of all large uploads of a store together."""
PART_THREADS = 3
MOST_PARTS = 10_000
LEFTOVER_SECONDS = 86_400
"""Age at which an upload that was cut off counts as given up."""
WAIT_SECONDS = 900.0
"""Longer than a request with all its attempts takes."""
_LISTED = 1000
_GONE = frozenset({"NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall", "NotImplemented"})
"""What says that an upload cannot be completed as it is; the last, that a part it has cannot be another one."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part the server has: its ETag and size."""

    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class _Upload:
    """One upload under way, and the parts it had when it was taken up."""

    key: str
    id: str
    had: dict[int, _Part]


class Uploads:
    """All large uploads of one store. Keys are the bucket's; errors are botocore's and the source's."""

    def __init__(self, requests: Requests, client: Any, bucket: str, where: str) -> None:
        self._requests = requests
        self._client = client
        self._bucket = bucket
        self._where = where
        self._executor = ThreadPoolExecutor(PART_THREADS, thread_name_prefix="s3 parts")
        self._room = threading.Semaphore(PARTS_IN_MEMORY)
        self._under_way: set[str] = set()
        self._guard = threading.Lock()

    def put(self, key: str, source: ExactReader, size: int) -> Written:
        """Send the object; it is written whole, once every part is there."""
        upload = self._take_up(key) or self._begin(key)
        try:
            return self._complete(upload, self._send_all(upload, source, size), size)
        except ClientError as error:
            if read_code(error) not in _GONE:
                raise
            with contextlib.suppress(ClientError):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload.id)
            raise StoreUnavailable(f"{self._where}: a large upload was lost on the way; it begins again") from error
        finally:
            self._let_go(upload.id)

    def abort_leftovers(self, prefix: str) -> None:
        """Abort what was cut off long ago and was not taken up."""
        for upload in self._list_uploads(prefix):
            if time.time() - upload["Initiated"].timestamp() > LEFTOVER_SECONDS:
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"])

    def close(self) -> None:
        """Begin no further part."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _take_up(self, key: str) -> _Upload | None:
        """The newest upload of this key that was cut off, and the parts it has; None when it cannot be known."""
        try:
            found = [each for each in self._list_uploads(key) if each["Key"] == key]
            for upload in sorted(found, key=lambda each: each["Initiated"], reverse=True):
                upload_id = str(upload["UploadId"])
                with self._guard:
                    if upload_id in self._under_way:
                        continue
                    self._under_way.add(upload_id)
                try:
                    return _Upload(key, upload_id, self._list_parts(key, upload_id))
                except BaseException:
                    self._let_go(upload_id)
                    raise
        except ClientError:  # not allowed, not known to this server, or just gone
            return None
        return None

    def _let_go(self, upload_id: str) -> None:
        with self._guard:
            self._under_way.discard(upload_id)

    def _begin(self, key: str) -> _Upload:
        told = self._client.create_multipart_upload(Bucket=self._bucket, Key=key)
        upload_id = str(told["UploadId"])
        with self._guard:
            self._under_way.add(upload_id)
        return _Upload(key, upload_id, {})

    def _list_uploads(self, prefix: str) -> Iterator[Any]:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self._bucket, Prefix=prefix, PaginationConfig={"MaxItems": _LISTED}
        )
        for page in pages:
            yield from page.get("Uploads", ())

    def _list_parts(self, key: str, upload_id: str) -> dict[int, _Part]:
        pages = self._client.get_paginator("list_parts").paginate(Bucket=self._bucket, Key=key, UploadId=upload_id)
        return {
            part["PartNumber"]: _Part(etag_of(part), part["Size"]) for page in pages for part in page.get("Parts", ())
        }

    def _send_all(self, upload: _Upload, source: ExactReader, size: int) -> list[dict[str, Any]]:
        """Every part, read in order here and sent by the threads; what completes the upload."""
        sending: list[Future[dict[str, Any]]] = []
        part_bytes = max(PART_BYTES, -(-size // MOST_PARTS))

        try:
            for number, left in enumerate(range(size, 0, -part_bytes), 1):
                self._wait_for_room()
                try:
                    _raise_failure(sending)
                    body = mmap.mmap(-1, min(left, part_bytes))  # from a heap it would not go back to the system
                    with memoryview(body) as view:
                        fill(view, source)
                    part = self._executor.submit(self._send, upload, number, body)
                except BaseException:
                    self._room.release()
                    raise
                part.add_done_callback(lambda _: self._room.release())  # also of one that is cancelled
                sending.append(part)
            wait(sending, WAIT_SECONDS, FIRST_EXCEPTION)
            _raise_failure(sending)
            if not all(each.done() for each in sending):
                raise StoreUnavailable(f"{self._where}: parts of large files take too long to be sent")
            return [each.result() for each in sending]
        finally:
            for each in sending:
                each.cancel()
            wait(sending, WAIT_SECONDS)

    def _wait_for_room(self) -> None:
        """For one more part in memory; each gives its room back when it ends, however it does."""
        if not self._room.acquire(timeout=WAIT_SECONDS):
            raise StoreUnavailable(f"{self._where}: parts of large files take too long to be sent")

    def _send(self, upload: _Upload, number: int, body: mmap.mmap) -> dict[str, Any]:
        with body:  # its memory goes before another part takes its room
            file, had = cast("BinaryIO", body), upload.had.get(number)
            if had is not None and had.size == len(body) and had.etag == self._requests.tag_of(file):
                return {"PartNumber": number, "ETag": f'"{had.etag}"'}
            part = {"UploadId": upload.id, "PartNumber": number}
            sent = self._requests.send(self._client.upload_part, file, Key=upload.key, **part)
            return {"PartNumber": number, "ETag": f'"{sent.etag}"'}

    def _complete(self, upload: _Upload, parts: list[dict[str, Any]], size: int) -> Written:
        """Make the object of its parts, and look at it once: not every server tells here the ETag that stays."""
        try:
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=upload.key, UploadId=upload.id, MultipartUpload={"Parts": parts}
            )
        except ClientError as error:
            # Of a request that was sent again the first answer may have been lost: then the object is there.
            made = self._find(upload.key) if read_code(error) == "NoSuchUpload" else None
            if made is None or etag_of(made) != _compose_etag(parts):
                raise
        else:
            made = self._find(upload.key)
        if made is None or made["ContentLength"] != size:
            raise StoreUnavailable(f"{self._where}: what was sent arrived damaged; it is sent again")
        return Written(etag_of(made), made.get("VersionId", ""))

    def _find(self, key: str) -> Any:
        """What the server says of the object; None when there is none."""
        try:
            return self._client.head_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if read_code(error) in ABSENT:
                return None
            raise


def _raise_failure(parts: Sequence[Future[Any]]) -> None:
    for each in parts:
        if each.done() and not each.cancelled():
            each.result()


def _compose_etag(parts: list[dict[str, Any]]) -> str:
    """The ETag of an object in parts whose ETags are MD5s."""
    try:
        joined = b"".join(bytes.fromhex(etag_of(part)) for part in parts)
    except ValueError:
        return ""
    return f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(parts)}"
