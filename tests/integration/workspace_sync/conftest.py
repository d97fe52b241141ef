"""Stores to test against: the local one and two real S3 servers, started once for the whole run (moto: see `tests`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.doubles.faulty_proxy import FaultyProxy
from tests.doubles.faulty_s3 import FaultyS3
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.integration.workspace_sync.hostile_trees import Canary
from workspace_sync import ObjectStore
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

CEPH = pytest.param("ceph", marks=pytest.mark.long)
"""Its packages are large, and it takes twenty seconds to start."""


@pytest.fixture(scope="session")
def rclone_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server("rclone", tmp_path_factory.mktemp("rclone")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def ceph_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server("ceph", tmp_path_factory.mktemp("ceph")) as endpoint:
        yield endpoint


@pytest.fixture(params=["local", "rclone", "moto", CEPH])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """An empty store of each kind."""
    if request.param == "local":
        yield LocalStore(str(tmp_path / "store"))
        return
    endpoint = request.getfixturevalue(f"{request.param}_endpoint")
    s3 = S3Store(BUCKET, uuid.uuid4().hex, endpoint_url=endpoint, access_key=ACCESS_KEY)
    yield s3
    s3.close()


@pytest.fixture
def proxy(rclone_endpoint: str) -> Iterator[FaultyProxy]:
    """An S3 server that can have an outage."""
    faulty = FaultyProxy(rclone_endpoint)
    yield faulty
    faulty.close()


@pytest.fixture(scope="module", params=["rclone", "moto", CEPH])
def proxy_of_each(request: pytest.FixtureRequest) -> Iterator[FaultyS3]:
    with FaultyS3(request.getfixturevalue(f"{request.param}_endpoint")) as proxy:
        yield proxy


@pytest.fixture
def server_kind(request: pytest.FixtureRequest) -> str:
    """Of the server that `faulty` is before."""
    return str(request.node.callspec.params["proxy_of_each"])


@pytest.fixture
def faulty(proxy_of_each: FaultyS3) -> Iterator[FaultyS3]:
    """Each S3 server behind a proxy that can make it fail; every test begins with it in good health."""
    yield proxy_of_each
    proxy_of_each.heal()


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def behind_faulty(faulty: FaultyS3, prefix: str) -> Iterator[S3Store]:
    """An empty store on the server that `faulty` is before."""
    faulty.requests.clear()
    s3 = S3Store(BUCKET, prefix, endpoint_url=faulty.endpoint, access_key=ACCESS_KEY)
    yield s3
    faulty.heal()  # first: what stalls would be waited for
    s3.close()


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path / "outside")


@pytest.fixture
def open_s3() -> Iterator[Callable[..., S3Store]]:
    """Opens S3 stores with short timeouts, and closes them."""
    opened: list[S3Store] = []

    def make(endpoint: str, bucket: str = BUCKET, access_key: tuple[str, str] = ACCESS_KEY) -> S3Store:
        s3 = S3Store(
            bucket,
            uuid.uuid4().hex,
            endpoint_url=endpoint,
            access_key=access_key,
            connect_timeout_seconds=1.0,
            read_timeout_seconds=1.0,
        )
        opened.append(s3)
        return s3

    yield make
    for s3 in opened:
        s3.close()


@pytest.fixture(scope="session")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool
