"""What a bucket lets us do, found out by doing it with an object of its own below the prefix.

Required: listing, writing, reading, deleting. What is missing is said all at once, by the names that policies use.
Without the rest the store works less well; that is said as advice.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from typing import Any

from workspace_sync.errors import ObjectNotFound, PermissionMissing, StoreError, StoreRefused, StoreUnavailable
from workspace_sync.stores.s3.errors import Translated, explain_code, explain_missing

CONTENT = b"written by sandcell to see whether it may; it can be removed"
_NO_UPLOAD = "sandcell-asks-whether-it-may"
_ADVICE = {
    "s3:AbortMultipartUpload": "parts of large uploads that fail stay until a lifecycle rule removes them",
    "s3:ListMultipartUploadParts": "large uploads that were cut off begin again",
    "s3:ListBucketMultipartUploads": "large uploads that were cut off begin again",
}


class Probe:
    """The probes of one bucket, for `run` once. `key` makes a key of the bucket from one of the store's."""

    def __init__(self, client: Any, bucket: str, where: str, key: Callable[[str], str]) -> None:
        self._client = client
        self._bucket = bucket
        self._where = where
        self._key = key
        self._missing: list[str] = []

    def run(self) -> tuple[str, ...]:
        """Advice, a sentence each. Raises `PermissionMissing` with all that is required and missing, `StoreError`."""
        self._is_allowed(self._list)
        deletes = self._is_allowed(lambda: self._delete(f"never-written-{uuid.uuid4()}"))
        # One that cannot be removed again has always the same name.
        name = str(uuid.uuid4()) if deletes else "kept"
        wrote = self._is_allowed(lambda: self._write(name))
        self._is_allowed(lambda: self._read(name, wrote=wrote))
        if wrote and deletes:
            self._is_allowed(lambda: self._delete(name))
        if self._missing:
            raise explain_missing(self._where, self._missing)
        return self._advice()

    def _is_allowed(self, ask: Callable[[], object]) -> bool:
        try:
            ask()
        except PermissionMissing as error:
            self._missing += [each for each in error.permissions if each not in self._missing]
            return False
        return True

    def _list(self) -> None:
        try:
            with Translated(self._where):
                self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._key("workspaces") + "/", MaxKeys=1)
        except ObjectNotFound as error:
            raise StoreRefused(
                f"{self._where}: there is no such bucket, or what answers there is no S3 server. Check the bucket's"
                " name and endpoint_url"
            ) from error

    def _write(self, name: str) -> None:
        with Translated(self._where):
            self._client.put_object(Bucket=self._bucket, Key=self._probe(name), Body=CONTENT)

    def _read(self, name: str, *, wrote: bool) -> None:
        """Without our object an absent one is asked for: a caller that may read and list learns that it is absent."""
        try:
            with Translated(self._where):
                answer = self._client.get_object(Bucket=self._bucket, Key=self._probe(name))
                with contextlib.closing(answer["Body"]) as body:
                    content = body.read(len(CONTENT) + 1)
        except ObjectNotFound as error:
            if wrote:
                raise StoreUnavailable(f"{self._where}: what was just written is not there yet") from error
        except PermissionMissing:
            if wrote or "s3:ListBucket" not in self._missing:
                raise
        else:
            if wrote and content != CONTENT:
                raise StoreRefused(f"{self._where}: it gives back other bytes than were written. Check what answers")

    def _delete(self, name: str) -> None:
        with Translated(self._where):
            answer = self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": self._probe(name)}], "Quiet": True}
            )
        for error in answer.get("Errors", ()):
            raise explain_code(self._where, str(error.get("Code", "unknown")), 0, "DeleteObjects")

    def _advice(self) -> tuple[str, ...]:
        upload = {"Bucket": self._bucket, "Key": self._probe("kept"), "UploadId": _NO_UPLOAD}
        asked: tuple[Callable[[], object], ...] = (
            lambda: self._client.abort_multipart_upload(**upload),
            lambda: self._client.list_parts(**upload),
            lambda: self._client.list_multipart_uploads(
                Bucket=self._bucket, Prefix=self._key("workspaces") + "/", MaxUploads=1
            ),
        )
        found = []
        for ask in asked:
            try:
                with Translated(self._where):
                    ask()
            except PermissionMissing as error:
                found += [f"without {each}, {_ADVICE[each]}" for each in error.permissions if each in _ADVICE]
            except StoreError:
                continue  # there is no such upload: it looked, so it lets us
        return tuple(found)

    def _probe(self, name: str) -> str:
        return self._key(f"workspaces/.probe/{name}")
