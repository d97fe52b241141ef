"""What one execution role covers: a bucket, a prefix that ends at a slash, and whether it may be written. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kernel_gateway.egress.s3 import keys
from kernel_gateway.egress.s3.refusal import Refused
from kernels.environment import ExecutionRole

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")


class RoleUnusable(Exception):
    """An execution role that cannot be served; the message says what to change."""


class SigningFailed(Exception):
    """A request that could not be signed now; the message is for the service's log."""


class Scope(msgspec.Struct, frozen=True):
    """The part of an S3 store that a sandbox reaches. `prefix` is never empty and ends with a slash."""

    bucket: str
    prefix: str
    write: bool
    region: str

    @classmethod
    def of(cls, role: ExecutionRole) -> Scope:
        """The scope of a role; raises `RoleUnusable`."""
        if not _BUCKET.fullmatch(role.bucket) or ".." in role.bucket:
            raise RoleUnusable(f"the execution role's bucket {role.bucket!r} is not a bucket's name")
        try:
            prefix = keys.check(role.prefix.strip("/") + "/")
        except Refused as error:
            sentence = f"the execution role needs a prefix such as team/data; {role.prefix!r} is not one: {error}"
            raise RoleUnusable(sentence) from None
        return cls(role.bucket, prefix, role.write, role.region)

    def holds(self, key: str) -> bool:
        """Whether a decoded, checked key lies inside."""
        return key.startswith(self.prefix)

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"
