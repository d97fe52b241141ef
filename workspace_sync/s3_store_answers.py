"""Whether what came back is an S3 server's answer at all.

A proxy's page with status 200 would otherwise pass for an empty listing, or for a file that was written. Such an answer
counts as none.
"""

from __future__ import annotations

from typing import Any

from botocore.parsers import ResponseParserError

_MARKS = {
    "ListObjectsV2": b"ListBucketResult",
    "DeleteObjects": b"DeleteResult",
    "CopyObject": b"ETag",
    "CreateMultipartUpload": b"UploadId",
    "UploadPartCopy": b"ETag",
    "CompleteMultipartUpload": b"ETag",
}
"""What is in each answer in XML, whatever the server."""
_TAGGED = frozenset({"PutObject", "GetObject", "HeadObject", "UploadPart"})
"""Operations whose answer names the object's ETag."""


def require_s3_answers(client: Any) -> None:
    """From now on this client raises `ResponseParserError` for a success that no S3 server would put so."""
    client.meta.events.register("before-parse.s3", _look)


def etag_of(answer: Any) -> str:
    """The ETag in botocore's words for an answer, without its quotes; empty when none is told."""
    return str(answer.get("ETag", "")).strip('"')


def _look(operation_model: Any, response_dict: Any, **_: Any) -> None:
    if response_dict["status_code"] >= 300:
        return
    name = operation_model.name
    if name in _TAGGED:
        tags = [value for header, value in response_dict["headers"].items() if header.lower() == "etag"]
        if not any(tag.strip('"') for tag in tags):  # rclone so acknowledges a file that it did not keep
            if operation_model.has_streaming_output:
                response_dict["body"].close()
            raise ResponseParserError(f"an answer to {name} without an ETag")
    elif name in _MARKS:
        body = response_dict["body"]
        if _MARKS[name] not in body and b"<Error" not in body:
            raise ResponseParserError(f"an answer to {name} that is none")
