"""The XML that S3 operations take and give: read with bounds, and rewritten from what was understood. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element, ParseError, SubElement, TreeBuilder, XMLParser, tostring

from kernel_gateway.egress.s3 import keys
from kernel_gateway.egress.s3.refusal import Refused
from kernel_gateway.egress.s3.scope import Scope

MOST_REQUEST_BYTES: Final = 2_000_000
DECLARATION: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n'
_MOST_DELETED: Final = 1000
_MOST_PARTS: Final = 10_000
_SLICE: Final = 64 * 1024
"""As much as is parsed before other threads have their turn."""
_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_PART: Final = frozenset(
    {"PartNumber", "ETag", "ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME", "ChecksumSHA1", "ChecksumSHA256"}
)


class BadDocument(Exception):
    """Not XML as S3 writes it."""


class _Builder(TreeBuilder):
    """Builds a tree of what needs no document type: entities cannot be declared without one."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise BadDocument("a document type is not taken")


def parse(document: bytes) -> Element:
    """The root element, its names and those below it without their namespace; raises `BadDocument`."""
    parser = XMLParser(target=_Builder(), encoding="utf-8")  # noqa: S314 - no document type, so no entities; bounded
    try:
        for start in range(0, len(document), _SLICE):
            parser.feed(document[start : start + _SLICE])
        root = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise BadDocument(f"not well-formed: {error}") from None
    if not isinstance(root, Element):
        raise BadDocument("it has no root")
    for element in root.iter():
        element.tag = local_name(element)
    return root


def local_name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def write(root: Element) -> bytes:
    """A document in S3's namespace, without a declaration."""
    root.set("xmlns", _NAMESPACE)
    return bytes(tostring(root, encoding="unicode").encode())


def make_document(name: str, **texts: str) -> Element:
    """A root with plain text children."""
    root = Element(name)
    for child, text in texts.items():
        SubElement(root, child).text = text
    return root


def make_error(code: str, message: str) -> bytes:
    """The document of a refused or failed request."""
    return DECLARATION + bytes(tostring(make_document("Error", Code=code, Message=message)))


def make_location(region: str) -> bytes:
    """The answer to GetBucketLocation; the first of AWS's regions has no name in it."""
    root = Element("LocationConstraint")
    root.text = None if region == "us-east-1" else region
    return DECLARATION + write(root)


def read_deletion(body: bytes, scope: Scope) -> bytes:
    """The body of DeleteObjects, when every key of it lies inside the prefix; raises `Refused`."""
    written = Element("Delete")
    root = _parse_request(body, "Delete", most_tags=5 * _MOST_DELETED)
    for child in root:
        if child.tag == "Quiet":
            SubElement(written, "Quiet").text = "true" if (child.text or "").strip() == "true" else "false"
        elif child.tag == "Object" and [grandchild.tag for grandchild in child] == ["Key"]:
            SubElement(SubElement(written, "Object"), "Key").text = _require_inside(child[0], scope)
        else:
            raise Refused("document", "DeleteObjects takes objects with a key each (no versions), and Quiet")
    if not 1 <= len(written.findall("Object")) <= _MOST_DELETED:
        raise Refused("document", f"DeleteObjects takes 1 to {_MOST_DELETED} keys")
    return write(written)


def read_completion(body: bytes) -> bytes:
    """The body of CompleteMultipartUpload: parts with number, tag and checksums; raises `Refused`."""
    written = Element("CompleteMultipartUpload")
    root = _parse_request(body, "CompleteMultipartUpload", most_tags=2 * (len(_PART) + 2) * _MOST_PARTS)
    if len(root) > _MOST_PARTS:
        raise Refused("document", f"an upload has at most {_MOST_PARTS} parts")
    for part in root:
        if part.tag != "Part" or not _PART.issuperset(str(field.tag) for field in part):
            raise Refused("document", "CompleteMultipartUpload takes parts with PartNumber, ETag and checksums")
        _copy_texts(part, SubElement(written, "Part"))
    return write(written)


def _parse_request(body: bytes, name: str, *, most_tags: int) -> Element:
    """The root of a body; in the encodings that are taken every tag has the byte that is counted."""
    if body.count(b"<") > most_tags:
        raise Refused("document", f"{name} has at most {most_tags} tags here: send it in parts")
    try:
        root = parse(body)
    except BadDocument as error:
        raise Refused("document", f"the body is not XML: {error}") from None
    if root.tag != name:
        raise Refused("document", f"the body is not a {name} document")
    return root


def _require_inside(element: Element, scope: Scope) -> str:
    key = keys.check(element.text or "", "key")
    if len(element) or not scope.holds(key):
        raise Refused("key", f"the execution role reaches {scope.uri}, and a key to delete is outside")
    return key


def _copy_texts(fields: Iterable[Element], target: Element) -> None:
    for field in fields:
        SubElement(target, str(field.tag)).text = (field.text or "").strip()
