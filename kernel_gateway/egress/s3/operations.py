"""The closed set of S3 operations of an execution role: each has its method, query parameters and copy source. Pure.

Names and parameters are those of the S3 API reference.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final, Literal

import msgspec

Body = Literal["none", "bytes", "document"]
Answer = Literal["object", "listing", "document", "slow", "local"]
"""`object`: passed on as it is; `document`: XML; `slow`: XML that S3 takes its time for; `local`: S3 is not asked."""

_CHECKSUMS: Final = frozenset(f"x-amz-checksum-{name}" for name in ("crc32", "crc32c", "crc64nvme", "sha1", "sha256"))
_CONDITIONS: Final = frozenset({"if-match", "if-none-match"})
_READING: Final = _CONDITIONS | {"range", "if-modified-since", "if-unmodified-since", "x-amz-checksum-mode"}
_CONTENT: Final = frozenset(
    {
        "cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires",
        "x-amz-meta-*",
    }
)  # fmt: skip
_UPLOADING: Final = _CHECKSUMS | {"content-md5", "x-amz-sdk-checksum-algorithm"}
_CHOICE: Final = frozenset({"x-amz-checksum-algorithm", "x-amz-checksum-type"})
_SOURCE: Final = frozenset(
    {"x-amz-copy-source"}
    | {f"x-amz-copy-source-if-{name}" for name in ("match", "none-match", "modified-since", "unmodified-since")}
)
_LISTING: Final = frozenset({"prefix", "delimiter", "encoding-type"})


class Operation(msgspec.Struct, frozen=True):
    """One operation: how a request for it looks, what it may carry, and what its answer is.

    `required` and `optional` are query parameters; `headers` are forwarded (`x-amz-meta-*`: all of that form).
    """

    name: str
    method: str
    on: Literal["bucket", "key"]
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()
    write: bool = False
    body: Body = "none"
    answer: Answer = "document"

    @property
    def copies(self) -> bool:
        return "x-amz-copy-source" in self.headers

    @property
    def moves(self) -> bool:
        """Whether it moves an object's bytes between the sandbox and S3."""
        return self.body == "bytes" or self.name == "GetObject"

    def matches(self, method: str, on: str, parameters: AbstractSet[str], *, copies: bool) -> bool:
        """Whether a request of this shape asks for this operation."""
        return (method, on, copies) == (
            self.method,
            self.on,
            self.copies,
        ) and self.required <= parameters <= self.required | self.optional


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


OPERATIONS: Final = (
    Operation("GetObject", "GET", "key", optional=_names("partNumber"), headers=_READING, answer="object"),
    Operation("HeadObject", "HEAD", "key", optional=_names("partNumber"), headers=_READING, answer="object"),
    Operation(
        "ListObjectsV2", "GET", "bucket", _names("list-type"),
        _LISTING | {"continuation-token", "max-keys", "start-after"}, answer="listing",
    ),
    Operation("ListObjects", "GET", "bucket", _names(), _LISTING | {"marker", "max-keys"}, answer="listing"),
    Operation("HeadBucket", "HEAD", "bucket", answer="local"),
    Operation("GetBucketLocation", "GET", "bucket", _names("location"), answer="local"),
    Operation(
        "PutObject", "PUT", "key", headers=_CONTENT | _UPLOADING | _CONDITIONS, write=True, body="bytes",
        answer="object",
    ),
    Operation(
        "CopyObject", "PUT", "key",
        headers=_SOURCE | _CONTENT | _CONDITIONS | {"x-amz-checksum-algorithm", "x-amz-metadata-directive"}, write=True,
        answer="slow",
    ),
    Operation("DeleteObject", "DELETE", "key", headers=_names("if-match"), write=True),
    Operation("DeleteObjects", "POST", "bucket", _names("delete"), write=True, body="document"),
    Operation(
        "CreateMultipartUpload", "POST", "key", _names("uploads"), headers=_CONTENT | _CHOICE, write=True
    ),
    Operation(
        "UploadPart", "PUT", "key", _names("partNumber", "uploadId"), headers=_UPLOADING, write=True, body="bytes",
        answer="object",
    ),
    Operation(
        "UploadPartCopy", "PUT", "key", _names("partNumber", "uploadId"), headers=_SOURCE | {"x-amz-copy-source-range"},
        write=True, answer="slow",
    ),
    Operation(
        "CompleteMultipartUpload", "POST", "key", _names("uploadId"),
        headers=_CHECKSUMS | _CONDITIONS | {"x-amz-checksum-type", "x-amz-mp-object-size"}, write=True, body="document",
        answer="slow",
    ),
    Operation("AbortMultipartUpload", "DELETE", "key", _names("uploadId"), write=True),
    Operation(
        "ListParts", "GET", "key", _names("uploadId"), _names("max-parts", "part-number-marker", "encoding-type"),
        write=True,
    ),
    Operation(
        "ListMultipartUploads", "GET", "bucket", _names("uploads"),
        _LISTING | {"key-marker", "max-uploads", "upload-id-marker"}, write=True, answer="listing",
    ),
)  # fmt: skip
