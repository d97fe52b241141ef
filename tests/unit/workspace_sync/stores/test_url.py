"""Which URLs name a store, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from workspace_sync import open_store
from workspace_sync.errors import BadStoreUrl, StoreUnusable

WRONG = [
    ("", "a store is file:///"),
    ("ftp://x", "a store is file:///"),
    ("https://s3.amazonaws.com/bucket", "any server that speaks S3 is s3://"),
    ("bucket/prefix", "a store is file:///"),
    ("file://relative/x", "three slashes"),
    ("file:///", "three slashes"),
    ("file:///a?b=c", "three slashes"),
    ("s3:///prefix", "s3://bucket/prefix"),
    ("s3:bucket", "s3://bucket/prefix"),
    ("s3://[::1", "no URL of a store"),
    ("s3://127.0.0.1:9000/bucket", "begins with the bucket, not with a server"),
    ("s3://arn:aws:s3:eu-west-1:1:accesspoint/name", "begins with the bucket"),
    ("s3://Bucket", "3 to 63 small letters"),
    ("s3://a..b", "3 to 63 small letters"),
    ("s3://ab?endpoint_url=http://host", "3 to 255 letters"),
    ("s3://buc ket?endpoint_url=http://host", "3 to 255 letters"),
    ("s3://bucket?color=red", "not color"),
    ("s3://bucket?access_key=1&secret=hush", "not access_key, secret"),
    ("s3://bucket?region=a-1&region=b-1", "has one region, not 2"),
    ("s3://bucket?region=eu west", "region has to be the name of one"),
    ("s3://bucket/a#b", "write # in a prefix as %23"),
    ("s3://bucket?endpoint_url=ftp://x", "endpoint_url has to be"),
    ("s3://bucket?endpoint_url=127.0.0.1:9000", "endpoint_url has to be"),
    ("s3://bucket?endpoint_url=http://host:abc", "endpoint_url has to be"),
    ("s3://bucket?endpoint_url=http://host:99999", "endpoint_url has to be"),
    ("s3://bucket?endpoint_url=http://[::1", "no URL of a store"),
    ("s3://bucket?endpoint_url=http://ho st", "endpoint_url has to be"),
    ("s3://bucket?endpoint_url=http://ho_st:9000", "letters, digits, dots and hyphens"),
    ("s3://bucket?endpoint_url=http://a..b", "letters, digits, dots and hyphens"),
    ("s3://bucket?endpoint_url=http://" + "h" * 300, "letters, digits, dots and hyphens"),
    ("s3://bucket/" + "p" * 201, "at most 200 bytes"),
    ("s3://bucket/a/../b", "no . or .."),
    ("s3://bucket/a//b", "no empty names"),
    ("s3://bucket/a%0Ab", "nothing unprintable"),
]


@pytest.mark.parametrize(("url", "said"), WRONG)
def test_a_url_that_names_no_store_is_refused_with_what_is_wrong(url: str, said: str) -> None:
    with pytest.raises(BadStoreUrl) as caught:
        open_store(url)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://key:hush@bucket", "s3://bucket?endpoint_url=http://key:hush@host"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadStoreUrl, match="AWS_ACCESS_KEY_ID") as caught:
        open_store(url)
    assert "hush" not in str(caught.value)


def test_both_kinds_open(tmp_path: Path) -> None:
    assert open_store(f"FILE://{tmp_path}").description == f"the local store {tmp_path}"
    store = open_store("s3://bucket/some/prefix?endpoint_url=http://127.0.0.1:1&region=eu-west-1")
    assert store.description == "the store s3://bucket/some/prefix at http://127.0.0.1:1"
    store.close()


def test_a_profile_that_is_nowhere_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "never-made")
    with pytest.raises(StoreUnusable, match="Check AWS_PROFILE"):
        open_store("s3://bucket?endpoint_url=http://127.0.0.1:1")
