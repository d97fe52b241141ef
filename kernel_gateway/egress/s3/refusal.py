"""Why a request of a sandbox is not forwarded. Pure."""

from __future__ import annotations

from typing import Final

WORDS: Final = {
    "authorization": "signed or authorised with anything but the sandbox's placeholder keys",
    "bucket": "another bucket, or none",
    "copy-source": "a copy from outside the prefix, or a source that is not `bucket/key`",
    "document": "a request body that is not what the operation takes",
    "header": "a header that the operation does not take here",
    "host": "a host name with a bucket in it, or a foreign one",
    "key": "a key outside the prefix, or one that two readers could read differently",
    "operation": "an operation that the role does not have",
    "payload": "a body without a length, or in signed chunks",
    "prefix": "a listing that is not inside the prefix",
    "presigned": "a presigned request",
    "query": "a query parameter that is malformed, or there twice",
    "read-only": "a write with a role that reads",
    "session-token": "a session token",
    "target": "a request line that is not a plain path",
    "version": "a version of an object",
}
"""Every word a refusal starts with, and what it stands for; docs/reference/execution-roles.md lists them."""


class Refused(Exception):
    """A request that the role does not allow. `word` is one of `WORDS`; the message is a sentence for the caller."""

    def __init__(self, word: str, sentence: str) -> None:
        super().__init__(sentence)
        self.word = word

    @property
    def reason(self) -> str:
        return f"{self.word}: {self}"
