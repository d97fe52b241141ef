"""The documents of the console as they are sent: built files, compressed once, and what a browser may do on each.

The page itself may load scripts and styles of this service and nothing else from anywhere. What a sandbox put out as
HTML, Markdown or a description of a figure or a widget, or wrote as a PDF or in Parquet, is shown or read in a frame of
an origin of its own, in which only the frame's one script runs; nothing of it can ask anybody for anything, nor lead
the frame elsewhere, which the policy of the page around it says.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

STATIC: Final = Path(__file__).parent / "static"
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FRAMES: Final = ("output.html", "pdf.html", "prose.html", "plotly.html", "vega.html", "parquet.html", "widgets.html")
"""Documents whose one script is in them: they have no origin, from which a script could be loaded."""
_PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FRAME_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src '{script}'; style-src 'unsafe-inline'; img-src data:; "
    "media-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_EVERYWHERE: Final = {
    "Vary": "Accept-Encoding",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-DNS-Prefetch-Control": "off",
}
FOREVER: Final = "public, max-age=31536000, immutable"
"""How long a browser keeps a file whose name changes with its content."""


class Document(msgspec.Struct, frozen=True):
    """One file: its bytes, the same compressed, and its headers."""

    content: bytes
    compressed: bytes
    headers: Mapping[str, str]


@cache
def read_document(name: str) -> Document:
    """A file of the built console by its path, which is one of `list_names`."""
    content = (STATIC / name).read_bytes()
    headers = {**_EVERYWHERE, "Content-Type": _MEDIA_TYPES[Path(name).suffix]}
    if name == "index.html":
        headers |= {
            "Content-Security-Policy": _PAGE_POLICY,
            "X-Frame-Options": "DENY",
            "Vary": "Accept, Accept-Encoding",
        }
    elif name in FRAMES:
        headers |= {
            "Cache-Control": "private, max-age=3600",
            "Content-Security-Policy": _FRAME_POLICY.format(script=_hash_script(content)),
        }
    else:
        # Opened by itself a picture is a document too.
        headers |= {"Cache-Control": FOREVER, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return Document(content, gzip.compress(content, mtime=0), headers)


@cache
def list_names() -> frozenset[str]:
    """The paths of what is served, below `static`."""
    return frozenset(
        str(path.relative_to(STATIC)) for path in STATIC.glob("**/*") if path.is_file() and path.suffix in _MEDIA_TYPES
    )


def _hash_script(content: bytes) -> str:
    """The one script of a document, as a policy names it."""
    (script,) = _SCRIPT.findall(content.decode())
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
