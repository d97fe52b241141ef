"""What a role is for: boto3 and the AWS command line read, write, list, copy and delete below the prefix."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from tests.doubles.role_side import RoleSide
from tests.doubles.s3_servers import BUCKET
from tests.integration.kernel_gateway.egress.s3.conftest import CommandLine

ODD_NAMES = ("plain.txt", "with space+plus.txt", "grüße/日本.txt", "a=b/c:d@e,f;g&h.txt", "100%.txt", "tilde~_-.()!'*")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_object_written_is_the_object_read(side: RoleSide, owner: Any, outside: object, name: str) -> None:
    s3, key = side.client(), f"team/a/{name}"
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"hello", ContentType="text/x-test", Metadata={"colour": "blue"})
    assert owner.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"hello"
    found = s3.get_object(Bucket=BUCKET, Key=key)
    assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (
        b"hello",
        "text/x-test",
        {"colour": "blue"},
    )
    assert s3.head_object(Bucket=BUCKET, Key=key)["ContentLength"] == 5
    part = side.client(
        response_checksum_validation="when_required"
    )  # one server sends the whole's checksum with a part
    assert part.get_object(Bucket=BUCKET, Key=key, Range="bytes=1-3")["Body"].read() == b"ell"
    s3.delete_object(Bucket=BUCKET, Key=key)
    with pytest.raises(ClientError, match=r"NoSuchKey|404"):
        s3.get_object(Bucket=BUCKET, Key=key)


def test_a_large_file_goes_and_comes_in_parts(side: RoleSide, outside: object, tmp_path: Path) -> None:
    s3, body = side.client(), os.urandom(21_000_000)
    config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=4)
    s3.upload_fileobj(io.BytesIO(body), BUCKET, "team/a/large.bin", Config=config)
    s3.download_file(BUCKET, "team/a/large.bin", str(tmp_path / "large"), Config=config)
    assert hashlib.sha256((tmp_path / "large").read_bytes()).digest() == hashlib.sha256(body).digest()
    reasons = [one.reason for one in side.decisions if not one.ended]
    assert reasons.count("role: UploadPart") == 5
    assert sum(one.sent_bytes for one in side.decisions) >= len(body)
    assert sum(one.received_bytes for one in side.decisions) >= len(body)
    s3.delete_object(Bucket=BUCKET, Key="team/a/large.bin")


def test_an_upload_may_be_looked_at_and_given_up(side: RoleSide, outside: object) -> None:
    s3, key = side.client(), {"Bucket": BUCKET, "Key": "team/a/given-up"}
    upload = s3.create_multipart_upload(**key)["UploadId"]
    s3.upload_part(**key, UploadId=upload, PartNumber=1, Body=b"x" * 100)
    assert [part["Size"] for part in s3.list_parts(**key, UploadId=upload)["Parts"]] == [100]
    uploads = s3.list_multipart_uploads(Bucket=BUCKET, Prefix="team/a/").get("Uploads", [])
    assert {one["Key"] for one in uploads} <= {"team/a/given-up"}
    s3.abort_multipart_upload(**key, UploadId=upload)
    with pytest.raises(ClientError):
        s3.list_parts(**key, UploadId=upload)


def test_listings_show_what_is_inside(side: RoleSide, owner: Any, outside: object) -> None:
    for name in ("1.txt", "2.txt", "sub/3.txt"):
        owner.put_object(Bucket=BUCKET, Key=f"team/a/{name}", Body=b"x")
    s3 = side.client()
    for call in (s3.list_objects_v2, s3.list_objects):
        everything = call(Bucket=BUCKET, Prefix="team/a/")
        assert [one["Key"] for one in everything["Contents"]] == ["team/a/1.txt", "team/a/2.txt", "team/a/sub/3.txt"]
        assert "Owner" not in everything["Contents"][0]
        level = call(Bucket=BUCKET, Prefix="team/a/", Delimiter="/")
        assert [one["Prefix"] for one in level["CommonPrefixes"]] == ["team/a/sub/"]
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix="team/a/", PaginationConfig={"PageSize": 1}
    )
    assert [one["Key"] for page in pages for one in page.get("Contents", [])] == [
        one["Key"] for one in everything["Contents"]
    ]
    deleted = s3.delete_objects(
        Bucket=BUCKET, Delete={"Objects": [{"Key": one["Key"]} for one in everything["Contents"]]}
    )
    assert len(deleted["Deleted"]) == 3
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix="team/a/")


def test_copies_inside(side: RoleSide, outside: object) -> None:
    s3 = side.client()
    s3.put_object(Bucket=BUCKET, Key="team/a/from here+.txt", Body=b"copied")
    s3.copy_object(Bucket=BUCKET, Key="team/a/to", CopySource={"Bucket": BUCKET, "Key": "team/a/from here+.txt"})
    s3.copy_object(Bucket=BUCKET, Key="team/a/to2", CopySource=f"/{BUCKET}/team/a/to")
    assert s3.get_object(Bucket=BUCKET, Key="team/a/to2")["Body"].read() == b"copied"
    s3.delete_objects(
        Bucket=BUCKET, Delete={"Objects": [{"Key": f"team/a/{n}"} for n in ("from here+.txt", "to", "to2")]}
    )


def test_the_bucket_itself_answers_as_the_role_says(side: RoleSide) -> None:
    s3 = side.client()
    assert s3.head_bucket(Bucket=BUCKET)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert s3.get_bucket_location(Bucket=BUCKET)["LocationConstraint"] is None


def test_preconditions_and_missing_objects_are_told_as_s3_tells_them(side: RoleSide) -> None:
    s3 = side.client()
    with pytest.raises(ClientError, match="NoSuchKey"):
        s3.get_object(Bucket=BUCKET, Key="team/a/none")
    with pytest.raises(ClientError, match="404"):
        s3.head_object(Bucket=BUCKET, Key="team/a/none")
    s3.put_object(Bucket=BUCKET, Key="team/a/there", Body=b"x")
    same = s3.head_object(Bucket=BUCKET, Key="team/a/there")["ETag"]
    unchecked = side.client(response_checksum_validation="when_required")
    with pytest.raises(ClientError, match="304"):
        unchecked.get_object(Bucket=BUCKET, Key="team/a/there", IfNoneMatch=same)
    with pytest.raises(ClientError, match=r"InvalidRange|416"):
        s3.get_object(Bucket=BUCKET, Key="team/a/there", Range="bytes=50-60")
    s3.delete_object(Bucket=BUCKET, Key="team/a/there")


def test_the_command_line_lists_copies_synchronises_moves_and_removes(
    aws: CommandLine, outside: object, tmp_path: Path
) -> None:
    here, there = tmp_path / "tree", f"s3://{BUCKET}/team/a/tree"
    (here / "sub").mkdir(parents=True)
    (here / "one.txt").write_text("one")
    (here / "sub" / "two.txt").write_bytes(os.urandom(9_000_000))
    aws("s3", "sync", str(here), there)
    assert "sub/two.txt" in aws("s3", "ls", "--recursive", f"{there}/")
    assert "PRE sub/" in aws("s3", "ls", f"{there}/")
    aws("s3", "cp", f"{there}/one.txt", f"{there}/copy.txt")
    aws("s3", "mv", f"{there}/copy.txt", f"{there}/moved.txt")
    assert aws("s3", "cp", f"{there}/moved.txt", "-") == "one"
    aws("s3", "sync", there, str(tmp_path / "back"))
    assert (tmp_path / "back" / "sub" / "two.txt").read_bytes() == (here / "sub" / "two.txt").read_bytes()
    aws("s3", "rm", "--recursive", f"{there}/")
    aws("s3", "ls", f"{there}/", ok=False)


def test_a_role_that_reads_reads(make_side: Callable[..., RoleSide], owner: Any, outside: object) -> None:
    owner.put_object(Bucket=BUCKET, Key="team/a/x", Body=b"read me")
    s3 = make_side(write=False).client()
    assert s3.get_object(Bucket=BUCKET, Key="team/a/x")["Body"].read() == b"read me"
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix="team/a/")["KeyCount"] == 1
    owner.delete_object(Bucket=BUCKET, Key="team/a/x")
