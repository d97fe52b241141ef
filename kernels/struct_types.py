"""Types of messages, made ready before threads read any.

msgspec looks at a type's fields when the first text is decoded as one. While it looks at the types of those, it has put
up what it has so far: a second thread that decodes the same type meanwhile reads fields that are not there yet, and the
process ends with SIGSEGV (msgspec 0.22).
"""

from __future__ import annotations

from contextlib import suppress

import msgspec


def prepare_struct_types() -> None:
    """Have msgspec look at all that are defined by now. Called once, while there is one thread."""
    kinds = [msgspec.Struct]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        with suppress(TypeError, NameError):  # one that nothing is decoded as: it cannot be
            msgspec.json.Decoder(kind)
