"""A bucket of the host's, of which the environment `role` has one prefix; what of it no attempt may see or change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.escape.position import Scene

PREFIX = "team/a/"
SECRET = "secret-of-the-bucket"
OBJECTS = {"secret.txt": SECRET, "team/other.txt": SECRET, "team/ab/secret.txt": SECRET, f"{PREFIX}mine": "mine"}
ENVIRONMENTS = """
[role]
image = "python"
role = {{bucket = "{bucket}", prefix = "{prefix}", access = "read-write", endpoint_url = "{endpoint}"}}
"""


@dataclass(frozen=True)
class Bucket:
    """The server behind the role, and what a service is started with so that it has the environment."""

    endpoint: str
    environments_file: Path

    @property
    def variables(self) -> dict[str, str]:
        """The real keys, as the service gets them."""
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}

    def known(self) -> dict[str, Any]:
        """What an attacker knows."""
        return {"bucket": BUCKET, "endpoint": self.endpoint, "port": int(self.endpoint.rsplit(":", 1)[1])}


@contextmanager
def bucket(directory: Path) -> Iterator[Bucket]:
    """A bucket on a server that asks for keys."""
    directory.mkdir()
    with s3_server("rclone", directory) as endpoint:
        with closing(_owner(endpoint)) as owner:
            for key, text in OBJECTS.items():
                owner.put_object(Bucket=BUCKET, Key=key, Body=text.encode())
        file = directory / "environments.toml"
        file.write_text(ENVIRONMENTS.format(bucket=BUCKET, prefix=PREFIX, endpoint=endpoint))
        yield Bucket(endpoint, file)


def unharmed(scene: Scene) -> None:
    """Every object is as it was and there is no other; nothing of what lies outside, and no key, came in."""
    with closing(_owner(scene.position.known["role"]["endpoint"])) as owner:
        listed = owner.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        assert {one["Key"] for one in listed} == OBJECTS.keys()
        for key, text in OBJECTS.items():
            assert owner.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode() == text
        assert [one["Name"] for one in owner.list_buckets()["Buckets"]] == [BUCKET]
    for secret in (SECRET, *ACCESS_KEY):
        assert secret not in scene.told.stdout + scene.told.stderr + scene.told.outcome


def _owner(endpoint: str) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY[0],
        aws_secret_access_key=ACCESS_KEY[1],
    )
