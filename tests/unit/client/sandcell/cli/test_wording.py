"""Tables on a terminal say how long ago and how much."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sandcell.cli.wording import describe_network, describe_sync, format_megabytes, format_value
from sandcell.models.network import EndpointInfo, Network, RoleInfo
from sandcell.models.sync import Restoring, Sync

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2030-01-01T12:00:00.000000Z", "0 s ago"),
        ("2030-01-01T11:59:30.100000Z", "30 s ago"),
        ("2030-01-01T12:01:59.000000Z", "in 119 s"),
        ("2030-01-01T12:15:00.000000Z", "in 15 min"),
        ("2030-01-01T19:59:57.000000Z", "in 8 h"),
        ("2029-12-20T12:00:00.000000Z", "12 d ago"),
        ("2030-01-01T11:00:00Z", "60 min ago"),
        ("2030-01-01", "2030-01-01"),
        ("a name", "a name"),
        (3, "3"),
        (None, ""),
    ],
)
def test_a_time_is_told_by_its_distance_and_nothing_else_is_touched(value: object, shown: str) -> None:
    assert format_value(value, NOW) == shown


def test_memory_is_told_as_the_settings_count_it() -> None:
    assert format_megabytes(2048 * 2**20) == "2,048 MB"


def test_a_network_is_told_on_one_line() -> None:
    allow = [EndpointInfo("*.example.org", 443), EndpointInfo("fd00::1", 80, ["GET", "HEAD"], "/v1/")]
    role = RoleInfo("warehouse", "etl/", "read", "", "us-east-1")
    assert describe_network(Network()) == "SANDBOX"
    assert describe_network(Network("SANDBOX", role=role)) == "SANDBOX; s3://warehouse/etl/ (read)"
    assert describe_network(Network("ALLOWLIST", allow)) == "ALLOWLIST; *.example.org:443, [fd00::1]:80 (GET HEAD /v1/)"


@pytest.mark.parametrize(
    ("sync", "shown"),
    [
        (Sync(), "nothing yet"),
        (Sync(last_flush_at="2030-01-01T12:00:00.000000Z"), "2030-01-01T12:00:00.000000Z"),
        (Sync(pending=True, pending_files=1_200, pending_bytes=5 << 20), "waiting: 1,200 files, 5 MB"),
        (Sync(pending=True, error="the store is away"), "waiting (the store is away)"),
        (Sync(error="not mirrored: a socket"), "not mirrored: a socket"),
        (Sync(restoring=Restoring(3, 2 << 20)), "restoring: 3 files, 2 MB to come"),
        (Sync(restoring=Restoring(3, 2 << 20, "away")), "restoring: 3 files, 2 MB to come (away)"),
    ],
)
def test_how_far_files_are_stored_is_one_line(sync: Sync, shown: str) -> None:
    assert describe_sync(sync) == shown
