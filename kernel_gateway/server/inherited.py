"""What passes from the process that starts as root to the service: values and numbers of descriptors."""

from __future__ import annotations

import msgspec


class Inherited(msgspec.Struct, frozen=True):
    """What the service is handed: its settings, the environments file's text, and the numbers of descriptors.

    `variables` are those of the process that started it, as `NAME=value`. `token_path` is where the launcher saves the
    first token, `token_saved` whether an earlier start did. `command` is what the person who starts the service types
    for `sandcell`.
    """

    settings: dict[str, str | int | float | bool]
    environments: str
    sockets: list[int]
    variables: list[bytes]
    token_path: str
    token_saved: bool
    command: str
