"""A store that counts for Prometheus what it takes and what fails, and is otherwise the store behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Literal

from kernel_gateway import metrics
from workspace_sync import ObjectStore, StoredObject, Written
from workspace_sync.errors import ObjectNotFound, StoreError
from workspace_sync.store import Ahead, Item

Operation = Literal["put", "get", "list", "delete", "copy", "stat", "presign", "check"]


class CountedStore:
    """Safe to use from several threads, as the store is. What a stream raises once it is open is not counted.

    `require` is called before anything is listed or changed; raises StoreError when that may not be.
    """

    def __init__(self, behind: ObjectStore, require: Callable[[], None] | None = None) -> None:
        self._behind = behind
        self._require = require or (lambda: None)

    @property
    def description(self) -> str:
        return self._behind.description

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        with _counted("put"):
            self._require()
            written = self._behind.put(key, source, size)
        metrics.count_written(size)
        return written

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        with _counted("get"):
            return self._behind.get(key, offset, size)

    @contextlib.contextmanager
    def get_ahead(self, wanted: Iterable[tuple[Item, str]]) -> Iterator[Ahead[Item]]:
        with _counted("get"), self._behind.get_ahead(wanted) as ahead:
            yield ahead

    def stat(self, key: str) -> StoredObject:
        with _counted("stat"):
            return self._behind.stat(key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with _counted("list"):
            self._require()
            yield from self._behind.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        with _counted("delete"):
            self._require()
            self._behind.delete(keys)

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        with _counted("copy"):
            self._require()
            return self._behind.copy(source, target, etag=etag, size=size)

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        with _counted("presign"):
            return self._behind.presign(key, seconds, filename)

    def check(self) -> tuple[str, ...]:
        with _counted("check"):
            return self._behind.check()

    def close(self) -> None:
        self._behind.close()


@contextlib.contextmanager
def _counted(operation: Operation) -> Iterator[None]:
    try:
        yield
    except ObjectNotFound:  # an answer
        raise
    except StoreError:
        metrics.count_store_error(operation)
        raise
