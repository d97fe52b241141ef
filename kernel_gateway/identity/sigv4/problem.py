"""Why a signed request is refused: AWS's code for it, which clients know, and a sentence that says what to do."""

from __future__ import annotations

from typing import Final

MISSING: Final = "MissingAuthenticationTokenException"
INCOMPLETE: Final = "IncompleteSignatureException"
UNRECOGNIZED: Final = "UnrecognizedClientException"
INVALID: Final = "InvalidSignatureException"


class SignatureProblem(Exception):
    """A request whose caller is not proven; `status` is 400 for a signature in the wrong form, else 403."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = 400 if code == INCOMPLETE else 403
