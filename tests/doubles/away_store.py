"""A store that is away for as long as a test says: in between it is the real one behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from workspace_sync import ObjectStore, StoredObject, Written
from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import Ahead, Item, one_by_one


class AwayStore:
    """`away` says whether it answers.

    `before_put` and `before_get` are called with each name before it is written or read; they may take long, or raise.
    """

    description = "a store that goes away"

    def __init__(self, behind: ObjectStore) -> None:
        self.away = False
        self.before_put: Callable[[str], None] = lambda _: None
        self.before_get: Callable[[str], None] = lambda _: None
        self._behind = behind

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        self.before_put(key)
        return self._here().put(key, source, size)

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        self.before_get(key)
        return self._here().get(key, offset, size)

    def get_ahead(self, wanted: Iterable[tuple[Item, str]]) -> contextlib.AbstractContextManager[Ahead[Item]]:
        return one_by_one(self.get, wanted)

    def stat(self, key: str) -> StoredObject:
        return self._here().stat(key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return self._here().list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        self._here().delete(keys)

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        self.before_put(target)
        return self._here().copy(source, target, etag=etag)

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        return self._here().presign(key, seconds, filename)

    def check(self) -> tuple[str, ...]:
        return self._here().check()

    def close(self) -> None:
        self._behind.close()

    def _here(self) -> ObjectStore:
        if self.away:
            raise StoreUnavailable("the store does not answer")
        return self._behind
