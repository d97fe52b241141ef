"""Ids that are drawn many at a time are UUIDs like any other."""

from __future__ import annotations

import uuid

from kernels.random_ids import new_hex, new_id


def test_ids_are_random_uuids() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert len(set(ids)) == len(ids)
    for each in ids:
        read = uuid.UUID(each)
        assert (str(read), read.version, read.variant) == (each, 4, uuid.RFC_4122)


def test_ids_without_hyphens() -> None:
    drawn = new_hex()
    assert (uuid.UUID(drawn).hex, uuid.UUID(drawn).version) == (drawn, 4)
