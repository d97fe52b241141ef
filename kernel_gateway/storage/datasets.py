"""Queries on datasets. Whose they are is their workspace's to say."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from kernel_gateway.storage.columns import micros, page, seconds, to_json
from kernel_gateway.storage.tables import datasets
from sandcell.models.datasets import DatasetProfile


@dataclass(frozen=True)
class DatasetRow:
    """A dataset as it is stored; `sha256` and `size_bytes` are of the bytes that `profile` tells of."""

    id: str
    workspace_id: str
    name: str
    path: str
    sha256: str
    size_bytes: int
    profile: DatasetProfile
    created: float
    updated: float


def add(connection: Connection, row: DatasetRow) -> None:
    connection.execute(
        insert(datasets).values(
            id=row.id, workspace_id=row.workspace_id, name=row.name, created=micros(row.created), **_encode_content(row)
        )
    )


def replace(connection: Connection, row: DatasetRow) -> bool:
    """What is known of the file becomes what the row says; False when there is no such dataset any more."""
    changed = connection.execute(update(datasets).where(datasets.c.id == row.id).values(**_encode_content(row)))
    return bool(changed.rowcount)


def _encode_content(row: DatasetRow) -> dict[str, Any]:
    return {
        "path": row.path,
        "format": row.profile.format,
        "sha256": row.sha256,
        "size_bytes": row.size_bytes,
        "profile": to_json(row.profile),
        "updated": micros(row.updated),
    }


def count(connection: Connection, workspace_id: str) -> int:
    """How many a workspace has."""
    query = select(func.count()).select_from(datasets).where(datasets.c.workspace_id == workspace_id)
    return int(connection.execute(query).scalar_one())


def find(connection: Connection, workspace_id: str, name: str) -> DatasetRow | None:
    query = select(datasets).where(datasets.c.workspace_id == workspace_id, datasets.c.name == name)
    row = connection.execute(query).first()
    return _read_dataset(row) if row else None


def list_of(
    connection: Connection, workspace_id: str, limit: int, cursor: str | None
) -> tuple[list[DatasetRow], str | None]:
    """One page of a workspace's datasets, oldest first, their profiles without columns and sample.

    One profile is in memory at a time: a page of whole ones could have a gigabyte.
    """
    query = select(datasets.c.number, datasets.c.id).where(datasets.c.workspace_id == workspace_id)
    rows, following = page(connection, query, datasets, limit, cursor, newest_first=False)
    return [_outline(connection, row.id) for row in rows], following


def _outline(connection: Connection, dataset_id: str) -> DatasetRow:
    row = _read_dataset(connection.execute(select(datasets).where(datasets.c.id == dataset_id)).one())
    return dataclasses.replace(row, profile=msgspec.structs.replace(row.profile, columns=[], sample=[]))


def remove(connection: Connection, workspace_id: str, name: str) -> bool:
    """Forget a dataset; says whether there was one."""
    gone = connection.execute(delete(datasets).where(datasets.c.workspace_id == workspace_id, datasets.c.name == name))
    return bool(gone.rowcount)


def _read_dataset(row: Row[Any]) -> DatasetRow:
    return DatasetRow(
        id=row.id,
        workspace_id=row.workspace_id,
        name=row.name,
        path=row.path,
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        profile=msgspec.json.decode(row.profile, type=DatasetProfile),
        created=seconds(row.created),
        updated=seconds(row.updated),
    )
