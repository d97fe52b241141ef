"""Which URLs name a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from workspace_sync import open_store
from workspace_sync.errors import BadStoreUrl


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x", "file://relative/x", "file:///", "file:///a?b=c", "s3:///prefix", "s3://bucket?color=red",
     "s3://bucket?endpoint_url=ftp://x", "s3://b/" + "p" * 201],
)  # fmt: skip
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(BadStoreUrl):
        open_store(url)


@pytest.mark.parametrize("url", ["s3://key:hush@bucket", "s3://bucket?endpoint_url=http://key:hush@host"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadStoreUrl) as caught:
        open_store(url)
    assert "hush" not in str(caught.value)


def test_both_kinds_open(tmp_path: Path) -> None:
    assert open_store(f"file://{tmp_path}").description == f"the local store {tmp_path}"
    store = open_store("s3://bucket/some/prefix?endpoint_url=http://127.0.0.1:1&region=eu-west-1")
    assert store.description == "the store s3://bucket/some/prefix at http://127.0.0.1:1"
    store.close()
