"""A store's client knows what botocore's models say, without what they say for people."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import UnknownServiceError

from workspace_sync.stores.s3.store import S3Store, _make_loader, strip_documentation

NAMES = [
    ("s3", "service-2"), ("s3", "endpoint-rule-set-1"), ("s3", "paginators-1"), ("sts", "service-2"),
]  # fmt: skip


def lean() -> Any:
    session = botocore.session.get_session()
    strip_documentation(session)
    return session


def silenced(value: Any) -> Any:
    """A model in which every text for people is empty."""
    if isinstance(value, list):
        return [silenced(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: "" if name == "documentation" and isinstance(each, str) else silenced(each)
        for name, each in value.items()
    }


def test_only_the_prose_is_left_out() -> None:
    _make_loader.cache_clear()  # botocore takes the bucket out of paths in the models of a client that has been used
    ours, theirs = lean().get_component("data_loader"), botocore.session.get_session().get_component("data_loader")
    for service, kind in NAMES:
        assert ours.load_service_model(service, kind) == silenced(theirs.load_service_model(service, kind))
    assert ours.load_data("partitions") == theirs.load_data("partitions")
    assert "Amazon" not in str(ours.load_service_model("s3", "service-2")["operations"])


def test_a_model_that_is_not_there_is_told_as_ever() -> None:
    loader = lean().get_component("data_loader")
    assert loader.load_data_with_path("endpoints")[0]
    with pytest.raises(UnknownServiceError, match="s3"):
        loader.load_service_model("s3", "no-such-model-1")


def test_they_are_read_once_for_all_stores_and_making_a_client_changes_none() -> None:
    loader = lean().get_component("data_loader")
    assert lean().get_component("data_loader") is loader
    before = copy.deepcopy([loader.load_service_model(service, kind) for service, kind in NAMES])
    S3Store("bucket", endpoint_url="http://127.0.0.1:1", access_key=("id", "secret")).close()
    assert [loader.load_service_model(service, kind) for service, kind in NAMES] == before


def test_models_that_a_user_keeps_elsewhere_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lean()  # what it has read is of the usual places
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    assert str(tmp_path) in lean().get_component("data_loader").search_paths
