"""The requests that move an object's bytes: first over the wire, by botocore when that does not simply succeed.

What is written is checked end to end: by its SHA-256, which is signed, where the server compares it, else by the ETag
where that is an MD5. What is read in pieces comes from one state of the object, told by its ETag.
"""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import threading
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import FileSource, Written
from workspace_sync.stores.s3.errors import etag_of
from workspace_sync.stores.s3.payload import Body, Payload, md5_of, sha256_of
from workspace_sync.stores.s3.stretch import BEYOND_THE_END, ByteRange, StreamedBody, stretch_of
from workspace_sync.stores.s3.wire import Address, Answer, Incoming, Key, Wire, WireBroken

Told = TypeVar("Told", Answer, Incoming)

UNSIGNED = "UNSIGNED-PAYLOAD"
REFUSALS = 3
"""After so many redirects or refusals of their form the wire is not used any more."""
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
        self._sha256: bool | None = None
        self._asked_sha256 = False

    def put(self, key: str, data: Payload) -> Written:
        """Write a whole object."""
        answer = self._write(key, data, {}, sha256_of(data), self._client.put_object)
        return Written(answer.etag, answer.headers.get("x-amz-version-id", ""))

    def put_part(self, key: str, upload_id: str, number: int, data: Body) -> str:
        """Write a part of a large object, hashed in the one way that this server checks. Returns its ETag."""
        compares = self.compares_sha256()
        sha256 = UNSIGNED if compares is False else sha256_of(data)
        query = {"partNumber": str(number), "uploadId": upload_id}
        send = partial(self._client.upload_part, UploadId=upload_id, PartNumber=number)
        return self._write(key, data, query, sha256, send, verify=not compares).etag

    def _write(
        self,
        key: str,
        data: Payload,
        query: dict[str, str],
        sha256: str,
        by_botocore: Callable[..., Any],
        *,
        verify: bool = True,
    ) -> Answer:
        """The answer to a write, whose ETag has to be that of these bytes where they are told by it (`verify`)."""
        tag = _Tag(data)
        meanwhile = tag.compute if verify and self._tags_are_md5 is not False else None
        answer = self._lean(
            lambda wire: wire.exchange("PUT", key, query=query, body=data, sha256=sha256, meanwhile=meanwhile)
        )
        if answer is None:
            body = data.begun() if isinstance(data, FileSource) else bytes(data)
            told = by_botocore(Bucket=self._bucket, Key=key, Body=body)["ResponseMetadata"]
            answer = Answer(
                told["HTTPStatusCode"], {name.lower(): value for name, value in told["HTTPHeaders"].items()}
            )
        if verify:
            self._verify(answer, tag)
        return answer

    def open(self, key: str, offset: int, size: int | None, etag: str = "") -> ByteRange:
        """Bytes of an object, fewer at its end; `etag`: of the object as it has to be still. Raises as botocore."""
        asked = f"bytes={offset}-{'' if size is None else offset + size - 1}"
        incoming = self._lean(lambda wire: wire.open(key, {"range": asked}))
        stretch = self._by_botocore(key, asked, offset) if incoming is None else stretch_of(incoming, offset)
        if etag and stretch.left and stretch.etag != etag:
            stretch.close()
            raise StoreUnavailable(f"{self._where}: an object was replaced while it was read; it is read again")
        return stretch

    def ask(self, key: str) -> socket.socket | None:
        """Ask for a whole object, to be `opened` once it comes; None where that fails."""
        wire = self._found_wire()
        try:
            return None if wire is None else wire.ask(key)
        except (WireBroken, TimeoutError):
            return None

    def opened(self, key: str, connection: socket.socket) -> ByteRange:
        """What was asked for on this connection, which goes on here; as of `open`."""
        incoming = self._lean(lambda wire: wire.opened(connection), asked=connection)
        return self._by_botocore(key, "bytes=0-", 0) if incoming is None else stretch_of(incoming, 0)

    def close(self) -> None:
        """Let go of the connections."""
        if self._wire is not None:
            self._wire.close()

    def tag_of(self, data: Body) -> str | None:
        """The ETag that this server gives these bytes, when its ETags say so much."""
        return None if self._tags_are_md5 is False else _Tag(data).compute()

    def _by_botocore(self, key: str, asked: str, offset: int) -> ByteRange:
        try:
            told = self._client.get_object(Bucket=self._bucket, Key=key, Range=asked)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == BEYOND_THE_END:
                return ByteRange(None, offset, "")
            raise
        headers = {"content-range": told.get("ContentRange", ""), "etag": told["ETag"]}
        return stretch_of(StreamedBody(Answer(200, headers), int(told["ContentLength"]), told["Body"]), offset)

    def _lean(self, ask: Callable[[Wire], Told], *, asked: socket.socket | None = None) -> Told | None:
        """What tells of a success, by an ETag, or None when botocore has to ask.

        `asked` is the connection on which it comes, if it was asked for already.
        """
        wire = self._found_wire()
        if wire is None:
            if asked is not None:  # the wire was given up meanwhile; else the connection goes on with it
                asked.close()
            return None
        try:
            told = ask(wire)
        except WireBroken:
            return None
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=self._where, error=error) from error
        answer = told.answer if isinstance(told, Incoming) else told
        if answer.status == BEYOND_THE_END or (answer.status in (200, 206) and answer.etag):
            self._refusals = 0
            return told
        if isinstance(told, Incoming):
            told.close()
        if 300 <= answer.status <= 400 and b"ExpiredToken" not in answer.body:
            self._refusals += 1
            if self._refusals >= REFUSALS:
                self._wire = None
                wire.close()
        return None

    def _found_wire(self) -> Wire | None:
        """Made at the first use: credentials may have to be fetched."""
        if not self._looked:
            with self._guard:
                if not self._looked:
                    self._wire = find_wire(self._session, self._client, self._bucket)
                    self._looked = True
        return self._wire

    def compares_sha256(self) -> bool | None:
        """Whether this server compares what it gets with the SHA-256 that is signed; asked once, by a wrong one."""
        if not self._asked_sha256:
            wire = self._found_wire()
            with self._guard:
                if not self._asked_sha256:
                    key = self._probe_key(f"sha256-{uuid.uuid4()}")
                    status = 0 if wire is None else _status(wire, key, hashlib.sha256(b"other bytes").hexdigest())
                    if status == 200:
                        self._client.delete_object(Bucket=self._bucket, Key=key)
                    self._sha256 = {200: False, 400: True}.get(status)
                    self._asked_sha256 = status != 0
        return self._sha256

    def _verify(self, answer: Answer, tag: _Tag) -> None:
        """Raise `StoreUnavailable` (it is sent again) when other bytes arrived than were sent, as their ETag tells."""
        if self._tags_are_md5 is False or not _MD5.fullmatch(answer.etag) or _by_other_means(answer.headers):
            return
        if answer.etag != tag.compute() and self._probe_tags():
            raise StoreUnavailable(f"{self._where}: what was sent arrived damaged; it is sent again")

    def _probe_tags(self) -> bool:
        """Whether this server's ETags are MD5s: asked once, when the first differs."""
        if self._tags_are_md5 is None:
            data = uuid.uuid4().bytes
            key = self._probe_key(f"etag-{uuid.uuid4()}")
            told = self._client.put_object(Bucket=self._bucket, Key=key, Body=data)
            self._client.delete_object(Bucket=self._bucket, Key=key)
            self._tags_are_md5 = etag_of(told) == _Tag(data).compute()
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


def _status(wire: Wire, key: str, sha256: str) -> int:
    """How a small object is answered whose hash this is said to be; 0 when it is not known."""
    try:
        return wire.exchange("PUT", key, body=b"some bytes", sha256=sha256).status
    except (WireBroken, TimeoutError):
        return 0


class _Tag:
    """The ETag of these bytes where it is their MD5; computed once, when first asked for."""

    def __init__(self, data: Payload) -> None:
        self._data = data
        self._known = ""

    def compute(self) -> str:
        self._known = self._known or md5_of(self._data)
        return self._known


def _by_other_means(headers: dict[str, str]) -> bool:
    """Whether the server encrypts so that ETags are no MD5s."""
    return headers.get("x-amz-server-side-encryption", "AES256") != "AES256" or any(
        name.startswith("x-amz-server-side-encryption-customer") for name in headers
    )
