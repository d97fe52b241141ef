"""A store's client knows what botocore's models say, without what they say for people."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest
from botocore.exceptions import UnknownServiceError

from workspace_sync.stores.s3.store import strip_documentation

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
