"""The service is killed right after it said that files are durable, while they wait, and while a session ends.

The store is a real S3 server, read past the service; it is away for as long as a test says.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.doubles.faulty_proxy import FaultyProxy
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService
from workspace_sync.errors import ObjectNotFound
from workspace_sync.stores.s3.store import S3Store

DEADLINE_SECONDS = 120


class House:
    """One service that is killed and started again, and its store."""

    def __init__(self, service: RunningService, proxy: FaultyProxy, bucket: S3Store) -> None:
        self.service = service
        self._proxy = proxy
        self._bucket = bucket
        self._callers = contextlib.ExitStack()
        self.rest = self._caller()

    def kill(self) -> None:
        self.service.kill()

    def start(self) -> None:
        self.service.start()
        self.rest = self._caller()

    def again(self, session: LiveSession) -> LiveSession:
        """The same session, through the service that runs now."""
        return LiveSession(self.rest, self.rest.get(session.path))

    def store_is_away(self, *, away: bool) -> None:
        self._proxy.fault = "refuse" if away else "none"
        self._proxy.drop()

    def stored(self, session: LiveSession, path: str) -> str | None:
        """A file's content in the store, None when it is not there."""
        try:
            with self._bucket.get(f"workspaces/sessions/{session.workspace_id}/workspace/{path}") as stream:
                return stream.read().decode()
        except ObjectNotFound:
            return None

    def manifest(self, session: LiveSession) -> Any:
        with self._bucket.get(f"workspaces/sessions/{session.workspace_id}/manifest.json") as stream:
            return msgspec.json.decode(stream.read())

    def spooled(self, session: LiveSession) -> bool:
        return (self.service.data_dir / "state" / "spool" / session.workspace_id).is_dir()

    def close(self) -> None:
        self._callers.close()
        self.service.stop()

    def _caller(self) -> Rest:
        return self._callers.enter_context(Rest(self.service))


@pytest.fixture(scope="module")
def house(make_service: Callable[..., RunningService], moto_endpoint: str) -> Iterator[House]:
    proxy = FaultyProxy(moto_endpoint)
    (key, secret), prefix = ACCESS_KEY, uuid.uuid4().hex
    service = make_service(
        extra_environment={"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret},
        store=f"s3://{BUCKET}/{prefix}?endpoint_url={proxy.endpoint}&region=us-east-1",
        flush_deadline_seconds=2,
        sweep_interval_seconds=0.5,
    )
    bucket = S3Store(BUCKET, prefix, endpoint_url=moto_endpoint, access_key=ACCESS_KEY)
    house = House(service, proxy, bucket)
    yield house
    house.store_is_away(away=False)
    house.close()
    bucket.close()
    proxy.close()


def run_durably(session: LiveSession, code: str) -> Any:
    """Run code until its answer says that it is durable: a busy host may need longer than the deadline at first."""
    give_up = time.monotonic() + DEADLINE_SECONDS
    while True:
        answer = session.run(f"{code}; open('attempt', 'w').write('{time.monotonic()}')")
        if answer["sync"]["durable"]:
            return answer
        assert time.monotonic() < give_up, answer["sync"]


def test_what_an_answer_calls_durable_survives_a_kill_and_what_waits_is_stored_by_the_next_start(house: House) -> None:
    session = house.rest.session(sync="before_return")
    answer = run_durably(session, "open('kept', 'w').write('kept')")
    house.kill()
    assert answer["sync"] == {"mode": "before_return", "durable": True, "error": None}
    assert house.stored(session, "kept") == "kept"
    named = house.manifest(session)["execution"]
    assert named["id"] == answer["id"]

    house.start()
    session = house.again(session)
    assert session.outcome(answer["id"])["sync"]["durable"] is True
    assert session.show()["sync"]["durable"] == {"execution_id": answer["id"], "number": named["number"]}
    house.store_is_away(away=True)
    late = session.run("open('late', 'w').write('late')")
    assert (late["status"], late["sync"]["durable"]) == ("ok", False)
    assert late["sync"]["error"]
    later = session.run("open('later', 'w').write('later')", sync="async")
    waiting = session.show()["sync"]
    assert (waiting["pending"], waiting["durable"]["number"]) == (True, named["number"])
    house.kill()

    house.store_is_away(away=False)
    house.start()
    session = house.again(session)
    eventually(lambda: bool(session.outcome(later["id"])["sync"]["durable"]))
    assert session.outcome(late["id"])["sync"]["durable"] is True
    assert (house.stored(session, "late"), house.stored(session, "later")) == ("late", "later")
    assert house.manifest(session)["execution"] == {"id": later["id"], "number": named["number"] + 2}
    session.stop()


@pytest.mark.sample("kills")
@pytest.mark.parametrize("moment", ["while_it_waits_for_the_store", "once_the_spool_has_it"])
def test_the_end_of_a_session_that_is_cut_off_loses_no_file(house: House, moment: str) -> None:
    session = house.rest.session()
    last = session.run("open('kept', 'w').write('kept'); open('gone', 'w').close()", sync="before_return")
    house.store_is_away(away=True)
    last = session.run("open('late', 'w').write('late'); import os; os.remove('gone')")

    def stop() -> None:
        with contextlib.suppress(httpx.HTTPError):
            house.rest.http.delete(session.path)

    stopping = threading.Thread(target=stop)
    stopping.start()
    if moment == "once_the_spool_has_it":
        eventually(lambda: house.spooled(session))
    else:
        eventually(lambda: session.rest.http.post(f"{session.path}/interrupt").status_code == 409)
    house.kill()
    stopping.join(DEADLINE_SECONDS)
    house.store_is_away(away=False)
    house.start()
    session = house.again(session)
    session.stop()
    eventually(lambda: house.stored(session, "late") == "late")
    eventually(lambda: not house.spooled(session))
    assert (house.stored(session, "kept"), house.stored(session, "gone")) == ("kept", None)
    eventually(lambda: not session.show()["sync"]["pending"])
    assert session.show()["sync"]["durable"] == {"execution_id": last["id"], "number": 2}


@pytest.mark.sample("kills")
def test_a_session_that_ended_without_its_store_says_when_the_store_has_its_files(house: House) -> None:
    session = house.rest.session()
    house.store_is_away(away=True)
    last = session.run("open('late', 'w').write('late')")
    ended = session.stop()
    assert "waits on this host" in ended["ended"]["detail"]
    assert (ended["sync"]["pending"], ended["sync"]["durable"]) == (True, None)
    assert session.outcome(last["id"])["sync"]["durable"] is False
    house.store_is_away(away=False)
    eventually(lambda: not session.show()["sync"]["pending"])
    assert session.outcome(last["id"])["sync"] == {"mode": "async", "durable": True, "error": None}
    assert house.stored(session, "late") == "late"


@pytest.mark.sample("kills")
def test_an_upload_in_parts_goes_on_after_a_kill(house: House) -> None:
    session = house.rest.session(sync="before_return")
    begun = house.rest.http.post(f"{session.path}/uploads", params={"path": "data/ten", "size_bytes": 10})
    one = f"{session.path}/uploads/{begun.json()['id']}"
    house.rest.http.patch(one, content=b"01234", headers={"Upload-Offset": "0"}).raise_for_status()
    house.kill()
    house.start()
    assert house.rest.get(one)["offset_bytes"] == 5
    house.rest.http.patch(one, content=b"56789", headers={"Upload-Offset": "5"}).raise_for_status()
    entry = house.rest.post(f"{one}/complete")
    house.kill()
    house.start()
    assert house.rest.post(f"{one}/complete") == entry
    session = house.again(session)
    run_durably(session, "assert open('data/ten').read() == '0123456789'")
    assert house.stored(session, "data/ten") == "0123456789"
    session.stop()
