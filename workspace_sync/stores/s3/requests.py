"""The requests that move an object's bytes: small ones first over the wire, all others by botocore.

What is written is checked end to end: each request is signed with the SHA-256 of its body, which some servers compare,
and the ETag of the answer is compared where it is an MD5. What is read in pieces comes from one state of the object,
told by its ETag.
"""

from __future__ import annotations

import hashlib
import io
import re
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import CHUNK_BYTES, ExactReader, Written
from workspace_sync.stores.s3.download import PIECE_BYTES, ByteRange, make_empty_range, make_range
from workspace_sync.stores.s3.errors import etag_of
from workspace_sync.stores.s3.wire import Address, Answer, Key, Wire, WireBroken

REFUSALS = 3
"""After so many redirects or refusals of their form the wire is not used any more."""
BEYOND_THE_END = 416
PART = 206
_MD5 = re.compile(r"[0-9a-f]{32}")


class Requests:
    """Reads and writes of one bucket's objects; keys are the bucket's. `where` says which store."""

    def __init__(self, session: Any, client: Any, bucket: str, where: str, probe_key: Callable[[str], str]) -> None:
        self._session = session
        self._client = client
        self._bucket = bucket
        self._where = where
        self._probe_key = probe_key
        self._wire: Wire | None = None
        self._looked = False
        self._refusals = 0
        self._guard = threading.Lock()
        self._tags_are_md5: bool | None = None

    def put(self, key: str, body: io.BytesIO) -> Written:
        """Write a small object."""
        wire, answer = self._get_wire(), None
        if wire is not None:
            with body.getbuffer() as view:
                sha256 = hashlib.sha256(view).hexdigest()
                answer = self._try(lambda: wire.put(key, view, sha256))
        if answer is None:
            return self.send(self._client.put_object, body, Key=key)
        self._verify(answer.etag, answer.headers, body)
        return Written(answer.etag, answer.headers.get("x-amz-version-id", ""))

    def copy(self, source: str, target: str) -> Written | None:
        """Copy an object inside the bucket; None when botocore has to ask."""
        wire = self._get_wire()
        answer = None if wire is None else self._try(lambda: wire.copy(f"{self._bucket}/{source}", target))
        if answer is None or not answer.etag:
            return None
        return Written(answer.etag, answer.headers.get("x-amz-version-id", ""))

    def send(self, operation: Callable[..., Any], body: BinaryIO, **named: Any) -> Written:
        """Write an object or a part by this operation of botocore's client; the body is read more than once."""
        body.seek(0)  # where botocore begins to read
        told = operation(Bucket=self._bucket, Body=body, **named)
        self._verify(etag_of(told), told["ResponseMetadata"]["HTTPHeaders"], body)
        return Written(etag_of(told), told.get("VersionId", ""))

    def open(self, key: str, offset: int, size: int | None, etag: str = "") -> ByteRange:
        """Bytes of an object, fewer at its end; `etag`: of the object as it has to be still. Raises as botocore."""
        asked = f"bytes={offset}-{'' if size is None else offset + size - 1}"
        try:
            told = self._client.get_object(Bucket=self._bucket, Key=key, Range=asked)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == BEYOND_THE_END:
                return make_empty_range(offset)
            raise
        if etag and etag_of(told) != etag:
            told["Body"].close()
            raise StoreUnavailable(f"{self._where}: an object was replaced while it was read; it is read again")
        content_range = _read_range(told["ResponseMetadata"]["HTTPStatusCode"], told.get("ContentRange"))
        return make_range(told["Body"], int(told["ContentLength"]), etag_of(told), content_range, offset)

    def ask(self, key: str) -> socket.socket | None:
        """Ask for an object, for `receive` once it comes; None where that fails."""
        wire = self._get_wire()
        try:
            return None if wire is None else wire.ask(key)
        except (WireBroken, TimeoutError):
            return None

    def receive(self, key: str, connection: socket.socket) -> ByteRange:
        """What was asked for on this connection, which goes on here: the object's beginning, all of a small one."""
        wire, answer = self._wire, None
        if wire is not None:
            answer = self._try(lambda: wire.receive(connection))
        if answer is None:
            return self.open(key, 0, None)
        if answer.status == BEYOND_THE_END:  # it is empty
            return make_empty_range(0)
        content_range = _read_range(answer.status, answer.headers.get("content-range"))
        return make_range(io.BytesIO(answer.body), len(answer.body), answer.etag, content_range, 0)

    def close(self) -> None:
        """Let go of the connections."""
        if self._wire is not None:
            self._wire.close()

    def tag_of(self, body: BinaryIO) -> str | None:
        """The ETag that this server gives these bytes, when its ETags say so much."""
        return None if self._tags_are_md5 is False else _md5_of(body)

    def _try(self, exchange: Callable[[], Answer]) -> Answer | None:
        """What tells of a success, by an ETag, or None when botocore has to ask."""
        try:
            answer = exchange()
        except WireBroken:
            return None
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=self._where, error=error) from error
        if answer.status == BEYOND_THE_END or (answer.status in (200, PART) and answer.etag):
            self._refusals = 0
            return answer
        if 300 <= answer.status <= 400 and b"ExpiredToken" not in answer.body:
            self._refusals += 1
        return None

    def _get_wire(self) -> Wire | None:
        """Made at the first use: credentials may have to be fetched. None where botocore alone is to be used."""
        if not self._looked:
            with self._guard:
                if not self._looked:
                    self._wire = find_wire(self._session, self._client, self._bucket)
                    self._looked = True
        return self._wire if self._refusals < REFUSALS else None

    def _verify(self, etag: str, headers: Mapping[str, str], body: BinaryIO) -> None:
        """Raise `StoreUnavailable` (it is sent again) when other bytes arrived than were sent, as their ETag tells."""
        if self._tags_are_md5 is False or not _MD5.fullmatch(etag) or _is_encrypted(headers):
            return
        if etag != _md5_of(body) and self._probe_tags():
            raise StoreUnavailable(f"{self._where}: what was sent arrived damaged; it is sent again")

    def _probe_tags(self) -> bool:
        """Whether this server's ETags are MD5s: asked once, when the first differs."""
        if self._tags_are_md5 is None:
            data = uuid.uuid4().bytes
            key = self._probe_key(f"etag-{uuid.uuid4()}")
            told = self._client.put_object(Bucket=self._bucket, Key=key, Body=data)
            self._client.delete_object(Bucket=self._bucket, Key=key)
            self._tags_are_md5 = etag_of(told) == _md5_of(io.BytesIO(data))
        return self._tags_are_md5


def find_wire(session: Any, client: Any, bucket: str) -> Wire | None:
    """The wire to a bucket where botocore would send its requests; None where only botocore knows the way."""
    credentials = session.get_credentials()
    if credentials is None or bucket.endswith("--x-s3"):
        return None
    url = urlsplit(client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}))
    scope = parse_qs(url.query).get("X-Amz-Credential", [""])[0].split("/")
    if len(scope) != 5 or scope[3] != "s3" or get_environ_proxies(f"{url.scheme}://{url.netloc}"):
        return None
    tls = None
    if url.scheme == "https":
        bundle = session.get_config_variable("ca_bundle")
        try:
            tls = ssl.create_default_context(cafile=get_cert_path(bundle or True))
        except OSError:  # botocore says what is wrong with it
            return None
    port = url.port or (443 if tls else 80)
    address = Address(url.hostname or "", port, url.netloc, tls, url.path.removesuffix("k"), scope[2])

    def key() -> Key:
        frozen = credentials.get_frozen_credentials()
        return Key(frozen.access_key, frozen.secret_key, frozen.token)

    config = client.meta.config
    return Wire(address, key, config.connect_timeout, config.read_timeout)


def read_body(source: ExactReader, size: int) -> io.BytesIO:
    """The next bytes of a source, as a file in memory."""
    body = io.BytesIO()
    if size:  # room for all of it at once: as it grows it would be copied
        body.seek(size - 1)
        body.write(b"\0")
        body.seek(0)
    with body.getbuffer() as view:
        fill(view, source)
    return body


def fill(view: memoryview, source: ExactReader) -> None:
    """Take the next bytes of a source, piece by piece, since each may end in an error."""
    for start in range(0, max(len(view), 1), CHUNK_BYTES):
        source.readinto(view[start : start + CHUNK_BYTES])


def _read_range(status: int, content_range: str | None) -> str | None:
    """Which bytes came, '' when a part does not say it; None for the whole object. rclone gives parts as 200."""
    return content_range or ("" if status == PART else None)


def _md5_of(body: BinaryIO) -> str:
    """The ETag of an object or a part where it is that."""
    digest = hashlib.md5(usedforsecurity=False)
    body.seek(0)
    while piece := body.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _is_encrypted(headers: Mapping[str, str]) -> bool:
    """Whether the server encrypts so that ETags are no MD5s."""
    return headers.get("x-amz-server-side-encryption", "AES256") != "AES256" or any(
        name.startswith("x-amz-server-side-encryption-customer") for name in headers
    )
