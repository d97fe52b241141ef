"""From a URL to a store: `file:///absolute/directory` or `s3://bucket/prefix?endpoint_url=...&region=...`."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from workspace_sync.errors import BadStoreUrl
from workspace_sync.local_store import LocalStore
from workspace_sync.store import ObjectStore

PREFIX_BYTES = 200
"""Longest prefix inside a bucket; keys below it must fit S3's 1,024 bytes."""


def open_store(url: str) -> ObjectStore:
    """The store a URL names; nothing is contacted yet (see `ObjectStore.check`). Raises `BadStoreUrl`."""
    scheme = url.partition(":")[0]
    if scheme == "file":
        return LocalStore(local_directory(url))
    if scheme == "s3":
        return _s3(url)
    raise BadStoreUrl("a store is file:///absolute/directory or s3://bucket/prefix?endpoint_url=...&region=...")


def local_directory(url: str) -> str:
    """The directory of a local store's URL. Raises `BadStoreUrl`."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or parts.query or parts.fragment or not path.strip("/") or "\0" in path:
        raise BadStoreUrl("a local store is file:///absolute/directory: three slashes, nothing after the directory")
    return path


def _s3(url: str) -> ObjectStore:
    from workspace_sync.s3_store import S3Store  # noqa: PLC0415 - boto3 takes long to import, a local store needs none

    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    unknown = sorted(set(query) - {"endpoint_url", "region"})
    if unknown:
        raise BadStoreUrl(f"an S3 store knows endpoint_url and region, not {', '.join(unknown)}")
    if "@" in parts.netloc or not parts.netloc:
        raise BadStoreUrl("an S3 store is s3://bucket/prefix, without credentials: those come from AWS_ACCESS_KEY_ID")
    prefix = unquote(parts.path).strip("/")
    if len(prefix.encode()) > PREFIX_BYTES:
        raise BadStoreUrl(f"an S3 store's prefix has at most {PREFIX_BYTES} bytes")
    endpoint = query.get("endpoint_url", [""])[0] or None
    if endpoint is not None:
        _check_endpoint(endpoint)
    return S3Store(parts.netloc, prefix, endpoint_url=endpoint, region=query.get("region", [""])[0] or None)


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadStoreUrl("endpoint_url has to be http://host:port or https://host:port")
    if "@" in parts.netloc or parts.query:
        raise BadStoreUrl("endpoint_url must not hold credentials: those come from AWS_ACCESS_KEY_ID")
