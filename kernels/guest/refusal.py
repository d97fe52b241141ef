"""What the guest says no with: a stable word, a sentence and an HTTP status.

One table maps what the operating system says to it.
"""

from __future__ import annotations

import errno


class Refusal(Exception):
    """A request that is not carried out; becomes `{"code", "message"}` with `status`."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def of_one(index: int, failure: OSError | Refusal) -> dict[str, str | int]:
    """What is said of one among many files, by its place."""
    refusal = refusal_of(failure) if isinstance(failure, OSError) else failure
    return {"index": index, "status": refusal.status, "code": refusal.code, "message": str(refusal)}


_BY_NUMBER: dict[int, tuple[int, str]] = {
    errno.ENOENT: (404, "not_found"),
    errno.EACCES: (403, "permission_denied"),
    errno.EPERM: (403, "permission_denied"),
    errno.EISDIR: (409, "is_a_directory"),
    errno.ENOTDIR: (409, "not_a_directory"),
    errno.ENOTEMPTY: (409, "directory_not_empty"),
    errno.EEXIST: (409, "exists"),
    errno.ELOOP: (409, "is_a_link"),
    errno.ENXIO: (409, "not_a_file"),
    errno.EBUSY: (409, "busy"),
    errno.ETXTBSY: (409, "busy"),
    errno.ENAMETOOLONG: (400, "invalid_path"),
    errno.EINVAL: (400, "invalid_path"),
    errno.ENOSPC: (507, "no_space"),
    errno.EDQUOT: (507, "no_space"),
    errno.EFBIG: (413, "too_large"),
    errno.EAGAIN: (503, "no_processes"),
    errno.ENOMEM: (503, "no_memory"),
    errno.EMFILE: (503, "busy"),
    errno.ENFILE: (503, "busy"),
    errno.ETIMEDOUT: (503, "busy"),
}


def refusal_of(error: OSError) -> Refusal:
    """The refusal that an operating system error means; one not in the table is ours (500)."""
    status, code = _BY_NUMBER.get(error.errno or 0, (500, "failed"))
    return Refusal(status, code, error.strerror or str(error))
