"""What a sandbox gets of S3's answers: listed headers, documents without who owns what, errors in other words. Pure.

S3's errors may quote access keys, role names and addresses of the host's; a sandbox gets their code, and their message
only where it speaks of objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

import msgspec

from kernel_gateway.egress.s3 import documents
from kernel_gateway.egress.s3.documents import BadDocument
from kernel_gateway.egress.s3.scope import Scope

MOST_DOCUMENT_BYTES: Final = 8_000_000
MOST_ERROR_BYTES: Final = 64 * 1024

_PASSED: Final = frozenset(
    {
        "accept-ranges", "cache-control", "content-disposition", "content-encoding", "content-language",
        "content-length", "content-range", "content-type", "date", "etag", "expires", "last-modified",
        "x-amz-copy-source-version-id", "x-amz-delete-marker", "x-amz-id-2", "x-amz-missing-meta",
        "x-amz-mp-parts-count", "x-amz-request-id", "x-amz-storage-class", "x-amz-version-id",
    }
)  # fmt: skip
_PASSED_FORMS: Final = ("x-amz-meta-", "x-amz-checksum-")
_FRAMING: Final = frozenset({"content-length", "content-type", "content-encoding"})
_LEFT_OUT: Final = frozenset({"Owner", "Initiator", "Location"})
_LISTED: Final = {"Contents": "Key", "Upload": "Key", "CommonPrefixes": "Prefix"}
_OF_OBJECTS: Final = frozenset(
    {
        "BadDigest", "EntityTooLarge", "EntityTooSmall", "IncompleteBody", "InternalError", "InvalidArgument",
        "InvalidDigest", "InvalidPart", "InvalidPartNumber", "InvalidPartOrder", "InvalidRange", "InvalidRequest",
        "KeyTooLongError", "MalformedXML", "MetadataTooLarge", "NoSuchKey", "NoSuchUpload", "NotImplemented",
        "PreconditionFailed", "RequestTimeout", "SlowDown", "XAmzContentSHA256Mismatch",
    }
)  # fmt: skip
_OF_THE_ROLE: Final = frozenset(
    {
        "AccessDenied", "AccountProblem", "AllAccessDisabled", "AuthorizationHeaderMalformed", "ExpiredToken",
        "InvalidAccessKeyId", "InvalidToken", "NoSuchBucket", "NotSignedUp", "RequestTimeTooSkewed",
        "SignatureDoesNotMatch", "TokenRefreshRequired",
    }
)  # fmt: skip
_CODE: Final = re.compile(r"[A-Za-z0-9]{1,64}")
_GENERIC: Final = {404: "NoSuchKey", 412: "PreconditionFailed", 416: "InvalidRange", 503: "SlowDown"}


class Trouble(msgspec.Struct, frozen=True):
    """An error as a sandbox sees it."""

    status: int
    code: str
    message: str

    @property
    def document(self) -> bytes:
        return documents.make_error(self.code, self.message)


def select_headers(given: Iterable[tuple[bytes, bytes]], *, framed: bool) -> list[tuple[str, str]]:
    """The headers that are passed on; `framed` keeps those that describe the body."""
    found = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in given)
    return [
        (name, value)
        for name, value in found
        if (name in _PASSED or name.startswith(_PASSED_FORMS)) and (framed or name not in _FRAMING)
    ]


def describe_trouble(status: int, body: bytes) -> Trouble:
    """What to say of an answer of S3 that is an error or a redirection."""
    if status < 400:
        return Trouble(
            403, "AccessDenied", "Execution role: region: S3 has the bucket in another region than the role says"
        )
    code, message = _read_error(body)
    return _describe_code(status, code or _GENERIC.get(status, ""), message)


def clean(body: bytes, scope: Scope, *, listing: bool) -> bytes:
    """A document without owners and addresses; a listing without what is not inside the prefix. No declaration.

    Raises `BadDocument`.
    """
    root = documents.parse(body)
    if root.tag == "Error":
        told = _describe_code(500, root.findtext("Code", ""), root.findtext("Message", ""))
        return documents.make_error(told.code, told.message).removeprefix(documents.DECLARATION)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _LEFT_OUT:
                parent.remove(child)
    if root.tag == "DeleteResult":
        _tell_errors(root)
    if listing:
        _keep_inside(root, scope)
    return documents.write(root)


def _keep_inside(root: Element, scope: Scope) -> None:
    encoded = root.findtext("EncodingType") == "url"
    for child in list(root):
        field = _LISTED.get(str(child.tag))
        if field is None:
            continue
        key = child.findtext(field, "")
        if not scope.holds(unquote_plus(key) if encoded else key):
            root.remove(child)


def _tell_errors(root: Element) -> None:
    for one in root.findall("Error"):
        told = _describe_code(403, one.findtext("Code", ""), one.findtext("Message", ""))
        for name, text in (("Code", told.code), ("Message", told.message)):
            field = one.find(name)
            if field is not None:
                field.text = text


def _describe_code(status: int, code: str, message: str) -> Trouble:
    if code in _OF_OBJECTS:
        return Trouble(status, code, message[:500] or code)
    if code in _OF_THE_ROLE or not _CODE.fullmatch(code):
        why = code if _CODE.fullmatch(code) else f"status {status}"
        denied = status < 500
        sentence = f"Execution role: upstream: S3 refused what the host asked for the role ({why})"
        return Trouble(403 if denied else status, "AccessDenied" if denied else "InternalError", sentence)
    return Trouble(status, code, f"S3 answered {code}")


def _read_error(body: bytes) -> tuple[str, str]:
    try:
        root = documents.parse(body)
    except BadDocument:
        return "", ""
    return (root.findtext("Code", ""), root.findtext("Message", "")) if root.tag == "Error" else ("", "")
