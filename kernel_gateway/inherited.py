"""What passes from the process that starts as root to the service: values and numbers of descriptors."""

from __future__ import annotations

import msgspec


class Inherited(msgspec.Struct, frozen=True):
    """What the service is handed: its settings, the environments file's text, and the numbers of descriptors."""

    settings: dict[str, str | int | float | bool]
    environments: str
    sockets: list[int]
    token_path: str
    token_descriptor: int
    token_error: str
