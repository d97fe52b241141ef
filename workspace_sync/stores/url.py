"""From a URL to a store: `file:///absolute/directory` or `s3://bucket/prefix?endpoint_url=...&region=...`.

Everything that can be wrong with the URL itself is said here, before anything is contacted. A message never repeats
what might be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from workspace_sync.errors import BadStoreUrl
from workspace_sync.store import ObjectStore
from workspace_sync.stores.local import LocalStore

PREFIX_BYTES = 200
"""Longest prefix inside a bucket; keys below it must fit S3's 1,024 bytes."""
_FORMS = "file:///absolute/directory or s3://bucket/prefix?endpoint_url=...&region=..."
_AMAZON_BUCKET = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ANY_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_ENDPOINT = "endpoint_url has to be http://host:port or https://host:port"
_NO_CREDENTIALS = "without credentials: those come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def open_store(url: str, *, answer_seconds: float | None = None, attempts: int | None = None) -> ObjectStore:
    """The store a URL names; nothing is contacted yet (see `ObjectStore.check`).

    `answer_seconds` is how long one answer may take, and `attempts` how often it is asked for, in place of what suits
    transfers. Raises `BadStoreUrl`, and `StoreUnusable` when the files that credentials and region come from cannot be
    used.
    """
    scheme = url.partition(":")[0].lower()
    if scheme == "file":
        return LocalStore(local_directory(url))
    if scheme == "s3":
        return _s3(url, answer_seconds, attempts)
    raise BadStoreUrl(f"a store is {_FORMS}; any server that speaks S3 is s3:// with its endpoint_url")


def local_directory(url: str) -> str:
    """The directory of a local store's URL. Raises `BadStoreUrl`."""
    parts = _split(url)
    path = unquote(parts.path)
    if parts.netloc or parts.query or parts.fragment or not path.strip("/") or "\0" in path:
        raise BadStoreUrl("a local store is file:///absolute/directory: three slashes, nothing after the directory")
    return path


def _s3(url: str, answer_seconds: float | None, attempts: int | None) -> ObjectStore:
    # boto3 takes long to import, and a local store needs none of it
    from workspace_sync.stores.s3.store import READ_TIMEOUT_SECONDS, REQUEST_ATTEMPTS, S3Store  # noqa: PLC0415

    parts = _split(url)
    query = _query(parts)
    endpoint, region = query.get("endpoint_url") or None, query.get("region") or None
    if endpoint is not None:
        _check_endpoint(endpoint)
    if region is not None and not _REGION.fullmatch(region):
        raise BadStoreUrl("region has to be the name of one, such as eu-central-1")
    bucket = _bucket(parts, own_server=endpoint is not None)
    try:
        return S3Store(
            bucket,
            _prefix(parts),
            endpoint_url=endpoint,
            region=region,
            read_timeout_seconds=answer_seconds or READ_TIMEOUT_SECONDS,
            attempts=attempts or REQUEST_ATTEMPTS,
        )
    except ValueError as error:  # what botocore takes for no endpoint
        raise BadStoreUrl(f"{_ENDPOINT}, with a host's name of letters, digits, dots and hyphens") from error


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise BadStoreUrl(f"this is no URL of a store. One is {_FORMS}") from error


def _query(parts: SplitResult) -> Mapping[str, str]:
    query = parse_qs(parts.query, keep_blank_values=True)
    unknown = sorted(set(query) - {"endpoint_url", "region"})
    if unknown:
        raise BadStoreUrl(f"an S3 store knows endpoint_url and region, not {', '.join(unknown)}")
    for name, values in query.items():
        if len(values) > 1:
            raise BadStoreUrl(f"an S3 store has one {name}, not {len(values)}")
    if parts.fragment:
        raise BadStoreUrl("an S3 store's URL ends with its query: write # in a prefix as %23")
    return {name: values[0] for name, values in query.items()}


def _bucket(parts: SplitResult, *, own_server: bool) -> str:
    bucket = parts.netloc
    if "@" in bucket or not bucket:
        raise BadStoreUrl(f"an S3 store is s3://bucket/prefix, {_NO_CREDENTIALS}")
    if ":" in bucket:
        raise BadStoreUrl(
            "an S3 store's URL begins with the bucket, not with a server:"
            " s3://bucket/prefix?endpoint_url=http://host:port"
        )
    if own_server and not _ANY_BUCKET.fullmatch(bucket):
        raise BadStoreUrl("a bucket's name has 3 to 255 letters, digits, dots, hyphens and underscores")
    if not own_server and not _AMAZON_BUCKET.fullmatch(bucket):
        raise BadStoreUrl("a bucket's name has 3 to 63 small letters, digits, dots and hyphens")
    return bucket


def _prefix(parts: SplitResult) -> str:
    prefix = unquote(parts.path).strip("/")
    if len(prefix.encode()) > PREFIX_BYTES:
        raise BadStoreUrl(f"an S3 store's prefix has at most {PREFIX_BYTES} bytes")
    names = prefix.split("/") if prefix else []
    if any(name in ("", ".", "..") for name in names) or not prefix.isprintable():
        raise BadStoreUrl("an S3 store's prefix has no empty names, no . or .. and nothing unprintable")
    return prefix


def _check_endpoint(endpoint: str) -> None:
    parts = _split(endpoint)
    try:
        named = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        named = False
    if "@" in parts.netloc or parts.query:
        raise BadStoreUrl(f"endpoint_url is http://host:port or https://host:port, {_NO_CREDENTIALS}")
    if not named or parts.fragment or not endpoint.isprintable() or " " in endpoint:
        raise BadStoreUrl(_ENDPOINT)
