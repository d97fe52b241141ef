"""Two services on one store, each with a data directory of its own: never do both write there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import msgspec
import pytest

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService
from workspace_sync.stores.claimed import KEY, Claim


class SharedPrefix:
    """One prefix of an S3 server, and what lies there."""

    def __init__(self, endpoint: str, make_service: Callable[..., RunningService]) -> None:
        self._prefix = uuid.uuid4().hex
        self._url = f"s3://{BUCKET}/{self._prefix}?endpoint_url={endpoint}&region=us-east-1"
        self._make_service = make_service
        key_id, secret = ACCESS_KEY
        self._variables = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": secret}
        self._client: Any = boto3.session.Session().client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=key_id, aws_secret_access_key=secret
        )

    def service(self) -> RunningService:
        return self._make_service(
            extra_environment=self._variables, store=self._url, flush_deadline_seconds=2, sweep_interval_seconds=1
        )

    def take_over(self) -> None:
        """As another service does once this one has said nothing for long."""
        self._client.put_object(
            Bucket=BUCKET, Key=f"{self._prefix}/{KEY}", Body=msgspec.json.encode(Claim("elsewhere:/data", "its life"))
        )

    def names(self, session: LiveSession) -> set[str]:
        """The files of its workspace, as they lie there."""
        under = f"{self._prefix}/workspaces/sessions/{session.workspace_id}/workspace/"
        listed = self._client.list_objects_v2(Bucket=BUCKET, Prefix=under).get("Contents", ())
        return {each["Key"].removeprefix(under) for each in listed}

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def shared(moto_endpoint: str, make_service: Callable[..., RunningService]) -> Iterator[SharedPrefix]:
    prefix = SharedPrefix(moto_endpoint, make_service)
    yield prefix
    prefix.close()


@pytest.mark.sample("kills")
def test_the_second_does_not_start_and_what_was_taken_over_writes_no_more(shared: SharedPrefix) -> None:
    first = shared.service()
    with pytest.raises(AssertionError, match=r"in use by another service.*give this one a prefix or directory"):
        shared.service()
    with Rest(first) as rest:
        session = rest.session(sync="before_return")
        assert session.run("open('before', 'w').write('1')")["sync"]["durable"] is True
        shared.take_over()
        eventually(lambda: "store_not_claimed" in "".join(first.output))
        answer = session.run("open('after', 'w').write('1')")["sync"]
        assert answer["durable"] is False
        assert "taken it over from this one" in answer["error"]
        refused = rest.http.post("/v1/sessions", json={})
        assert refused.status_code == 503, refused.text
        assert "taken it over" in refused.json()["error"]["message"]
        assert "waits on this host" in session.stop()["ended"]["detail"]
        assert shared.names(session) == {"before"}
    assert first.stop() == 0


@pytest.mark.sample("kills")
def test_a_service_that_was_stopped_lets_the_next_have_its_store_at_once(shared: SharedPrefix) -> None:
    assert shared.service().stop() == 0
    with Rest(shared.service()) as rest:
        session = rest.session(sync="before_return")
        assert session.run("open('f', 'w').write('1')")["sync"]["durable"] is True
