"""Images in the outputs of an execution, for faces that hand them on as files. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

EXTENSIONS: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/svg+xml": "svg",
}
"""Of the images that there are; of a display that has several the first one counts."""


def find_image(data: Mapping[str, Any]) -> tuple[str, bytes] | None:
    """Type and bytes of the image of a display."""
    for media_type in EXTENSIONS:
        content = _decode_image(media_type, data.get(media_type))
        if content:
            return media_type, content
    return None


def _decode_image(media_type: str, value: object) -> bytes | None:
    """An image's bytes: SVG comes as text, the others in base64; None for what is neither."""
    if not isinstance(value, str):
        return None
    if media_type == "image/svg+xml":
        return value.encode()
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
