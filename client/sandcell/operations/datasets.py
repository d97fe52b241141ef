"""The client's operations on datasets; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from sandcell.models.datasets import Dataset, DatasetFormat, Encoding
from sandcell.models.model import Page
from sandcell.steps import START_SECONDS, Ask, Operation, decode, exchange, omit_none, quote


def register_dataset(
    workspace_id: str,
    name: str,
    path: str,
    *,
    format: DatasetFormat | None = None,  # noqa: A002 - the word of the interface
    encoding: Encoding | None = None,
) -> Operation[Dataset]:
    """Give a file of a workspace a name, and have it looked at: schema, rows, statistics, a sample.

    What is registered already and has not changed is answered at once, so it may be sent twice.
    """
    body = omit_none(name=name, path=path, format=format, encoding=encoding)
    ask = Ask("POST", _all(workspace_id), json=body, timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask, repeatable=True)), Dataset)


def list_datasets(workspace_id: str, *, limit: int = 100, cursor: str | None = None) -> Operation[Page[Dataset]]:
    """One page of a workspace's datasets without their profiles, oldest first."""
    ask = Ask("GET", _all(workspace_id), omit_none(limit=limit, cursor=cursor))
    return decode((yield from exchange(ask)), Page[Dataset])


def get_dataset(workspace_id: str, name: str) -> Operation[Dataset]:
    """Show a dataset with its profile, and whether its file has changed since."""
    return decode((yield from exchange(Ask("GET", _one(workspace_id, name)))), Dataset)


def copy_dataset(
    workspace_id: str,
    name: str,
    to: str,
    *,
    new_name: str | None = None,
    to_path: str | None = None,
    overwrite: bool | None = None,
) -> Operation[Dataset]:
    """Give another workspace of yours the dataset and its file. The file keeps its path, below `to_path`."""
    body = omit_none(to=to, name=new_name, to_path=to_path, overwrite=overwrite)
    ask = Ask("POST", f"{_one(workspace_id, name)}/copy", json=body, timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask)), Dataset)


def remove_dataset(workspace_id: str, name: str) -> Operation[None]:
    """Forget a dataset; its file stays. Never sent twice."""
    yield from exchange(Ask("DELETE", _one(workspace_id, name)), repeatable=False)


def _all(workspace_id: str) -> str:
    return f"/v1/workspaces/{quote(workspace_id)}/datasets"


def _one(workspace_id: str, name: str) -> str:
    return f"{_all(workspace_id)}/{quote(name)}"
