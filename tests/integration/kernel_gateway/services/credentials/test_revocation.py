"""Disabling a principal and revoking a credential on a real service: whatever is open then really ends."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosed

from sandcell import Client, SandcellError, Unauthorized
from sandcell.cli.main import sandcell
from tests.integration.kernel_gateway.faces.jupyter.wire import Wire, wire
from tests.running_service import RunningService

ENDLESS = "import time\nwhile True:\n    print('.', flush=True)\n    time.sleep(0.05)"


@dataclass
class Tenant:
    """A principal with a live session in which code runs."""

    name: str
    token: str
    token_id: str
    client: Client
    session_id: str
    execution_id: str

    def address(self, rest: str = "") -> str:
        return f"{self.client.url}/v1/sessions/{self.session_id}{rest}"

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture
def tenant(service: RunningService) -> Iterator[Tenant]:
    name = f"tenant-{uuid.uuid4()}"
    with service.client() as admin:
        made = admin.create_token(name)
        token = made.token or ""
        with service.client(token) as client:
            session = client.start_session("python")
            execution = client.submit(session.id, ENDLESS)
            yield Tenant(name, token, made.id, client, session.id, execution.id)
        admin.stop_any_session(session.id)


class Stream:
    """Follows an execution in a thread; `closed` is set when the stream has ended, whatever ended it."""

    def __init__(self, tenant: Tenant, token: str | None = None) -> None:
        self.begun, self.closed = threading.Event(), threading.Event()
        self._address = tenant.address(f"/executions/{tenant.execution_id}/events")
        self._headers = {"Authorization": f"Bearer {token or tenant.token}"}
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()
        assert self.begun.wait(120)

    def _follow(self) -> None:
        try:
            with httpx.stream("GET", self._address, headers=self._headers, timeout=120) as answer:
                for _ in answer.iter_bytes():
                    self.begun.set()
        except httpx.TransportError:
            pass
        self.closed.set()

    def require_end(self) -> None:
        assert self.closed.wait(120), "the stream goes on"
        self._thread.join(120)


def require_closed(socket: Wire) -> int:
    """The code with which a socket was closed; what came before the goodbye is thrown away."""
    try:
        while True:
            socket.receive()
    except ConnectionClosed as closed:
        received = closed.rcvd
    assert received is not None
    return int(received.code)


def test_disabling_ends_everything_at_once(service: RunningService, tenant: Tenant) -> None:
    attach = tenant.client.create_attach_token(tenant.session_id, name="Ada").token or ""
    with ExitStack() as open_now, service.client() as admin:
        key = admin.create_key(tenant.name)
        sockets = [
            open_now.enter_context(wire(service.url, tenant.session_id, token)) for token in (tenant.token, attach)
        ]
        stream = Stream(tenant)
        waits: list[Exception | None] = []
        waiting = threading.Thread(target=lambda: waits.append(_error(tenant)))
        waiting.start()
        done = admin.disable_principal(tenant.name)
        assert (done.sessions, done.handed_to) == ([tenant.session_id], None)
        assert done.calls >= 3
        stream.require_end()
        assert [require_closed(each) for each in sockets] == [1008, 1008]
        waiting.join(120)
        assert isinstance(waits[0], SandcellError)
        with pytest.raises(Unauthorized):
            tenant.client.list_sessions()
        kernels = f"{service.url}/api/kernels"
        assert httpx.get(kernels, params={"token": attach}).status_code == 401
        ended = admin.stop_any_session(tenant.session_id)
        assert ended.ended is not None
        assert (ended.principal, ended.ended.reason) == (tenant.name, "disabled")
        assert "admin" in ended.ended.detail
        records = admin.list_audit(principal=tenant.name, error_code="revoked").items
        assert {each.event for each in records} >= {"FollowExecution"}
        admin.enable_principal(tenant.name)
        assert [each.id for each in tenant.client.list_sessions().items] == [tenant.session_id]
        assert key.id in {each.id for each in admin.list_keys(limit=1000).items}


def _error(tenant: Tenant) -> Exception | None:
    try:
        tenant.client.wait(tenant.session_id, tenant.execution_id)
    except Exception as error:
        return error
    return None


def test_sessions_go_over_to_another_principal(service: RunningService, tenant: Tenant) -> None:
    with service.client() as admin:
        heir_name = f"heir-{uuid.uuid4()}"
        heir_token = admin.create_token(heir_name).token
        tenant.client.interrupt(tenant.session_id)
        tenant.client.run(tenant.session_id, "kept = 41")
        done = admin.disable_principal(tenant.name, sessions="hand_over", to=heir_name)
        assert (done.sessions, done.handed_to) == ([tenant.session_id], heir_name)
        with service.client(heir_token) as heir:
            assert heir.run(tenant.session_id, "kept + 1").text == "42"
            assert heir.get_workspace(heir.get_session(tenant.session_id).workspace_id).session_id == tenant.session_id
        admin.enable_principal(tenant.name)
        with pytest.raises(SandcellError, match="no such session"):
            tenant.client.get_session(tenant.session_id)
        assert admin.get_any_session(tenant.session_id).principal == heir_name


def test_what_makes_no_sense_is_refused(service: RunningService, tenant: Tenant) -> None:
    with service.client() as admin:
        attempts: tuple[tuple[Callable[[], object], str], ...] = (
            (lambda: admin.disable_principal("admin"), "themselves"),
            (lambda: admin.disable_principal("nobody-of-this-name"), "no such principal"),
            (lambda: admin.disable_principal(tenant.name, sessions="hand_over"), "`to`"),
            (lambda: admin.disable_principal(tenant.name, to="admin"), "`to`"),
            (lambda: admin.disable_principal(tenant.name, sessions="hand_over", to=tenant.name), "another"),
        )
        for attempt, why in attempts:
            with pytest.raises(SandcellError, match=why):
                attempt()
        assert tenant.client.get_session(tenant.session_id).status == "READY"


def test_a_revoked_token_ends_what_came_with_it_and_nothing_else(service: RunningService, tenant: Tenant) -> None:
    with service.client() as admin:
        other = admin.create_token(tenant.name)
        streams = [Stream(tenant), Stream(tenant, other.token)]
        admin.revoke_token(other.id)
        streams[1].require_end()
        assert not streams[0].closed.is_set()
        rotated = admin.rotate_token(tenant.token_id)
        streams[0].require_end()
        with service.client(rotated.token) as client:
            assert client.get_session(tenant.session_id).status == "READY"


def test_a_stream_ends_when_its_token_expires(service: RunningService, tenant: Tenant) -> None:
    with service.client() as admin:
        short = admin.create_token(tenant.name, ttl_seconds=10)
    Stream(tenant, short.token).require_end()


def test_administrators_look_into_sessions_and_it_is_on_record(
    service: RunningService, tenant: Tenant, tmp_path: Path
) -> None:
    place = ["--url", service.url, "--token", service.token]

    def run(*words: str) -> str:
        done = CliRunner(env={"XDG_STATE_HOME": str(tmp_path)}).invoke(sandcell, [*words, *place])
        assert done.exit_code == 0, done.output
        return done.output

    command = tenant.client.command(tenant.session_id, "echo of a tenant").execution_id
    assert command is not None
    assert tenant.session_id in run("admin", "ls", "--principal", tenant.name)
    assert tenant.name in run("admin", "show", tenant.session_id)
    shown = run("admin", "executions", tenant.session_id)
    assert tenant.execution_id in shown
    assert command in shown
    assert "nbformat" in run("admin", "notebook", tenant.session_id)
    assert tenant.name in run("principal", "ls")
    assert "7 live" in run("principal", "quota", tenant.name, "--sessions", "7")
    assert "stopped" in run("admin", "stop", tenant.session_id)
    with service.client() as admin:
        code = admin.list_any_executions(tenant.session_id).items
        found = admin.list_any_executions(tenant.session_id, commands=True, newest_first=True, outcomes=False).items
        assert [each.id for each in code] == [tenant.execution_id]
        assert [(each.id, each.kind, each.stdout) for each in found[:1]] == [(command, "command", "")]
        assert [each.id for each in found[1:]] == [tenant.execution_id]
        records = admin.list_audit(session_id=tenant.session_id, principal="admin").items
        names = {"GetAnySession", "ListAnyExecutions", "GetAnyNotebook", "StopAnySession"}
        assert names <= {each.event for each in records}
    refused = httpx.get(f"{service.url}/v1/admin/sessions/{tenant.session_id}", headers=tenant.bearer)
    assert refused.status_code == 403
