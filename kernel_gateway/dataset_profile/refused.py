"""A file that cannot be described, and what to do about it. The message never carries content of the file."""

from __future__ import annotations


class Refused(Exception):
    """`reason` is a stable word, the message a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
