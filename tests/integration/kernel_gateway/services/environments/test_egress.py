"""A session's way out: open before the first code, closed with the sandbox, counted over all of them, on record."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import SandboxUnavailable
from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage import principals
from kernel_gateway.storage.audit import AuditFilter
from sandcell.models.audit import AuditRecord
from sandcell.models.principals import DisablePrincipal
from sandcell.models.sessions import Session
from tests.doubles.loopback_site import ADDRESS, loopback_site
from tests.integration.kernel_gateway.services.conftest import Gateway, House

STRANGER = Principal("11111111-1111-1111-1111-111111111111", "stranger", admin=False)
ASK = """
import urllib.request, urllib.error
def ask(url):
    try:
        return urllib.request.urlopen(url, timeout=120).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return type(error).__name__
"""


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    with loopback_site() as port:
        yield port


@pytest.fixture
def declare(house: House) -> Callable[[str], Path]:
    """Writes the environments file of the house."""

    def write(content: str) -> Path:
        path = Path(house.settings.data_dir) / "environments.toml"
        path.write_text(content)
        return path

    return write


def allowing(port: int) -> str:
    return f'[web]\nimage = "python"\nnetwork = "ALLOWLIST"\nallow = ["{ADDRESS}:{port}"]\n'


def private(port: int) -> dict[str, Any]:
    return {"egress_private": f"{ADDRESS}:{port}"}


def listening(house: House) -> list[str]:
    """The names of the sockets that sandboxes call on to get out."""
    return sorted(path.name for path in Path(house.settings.run_dir).glob("**/egress/*"))


async def ask(gateway: Gateway, session: Session, url: str) -> str:
    return await gateway.text(session, f"{ASK}\nask({url!r})")


async def egress_records(gateway: Gateway, session: Session, whose: Principal | None = None) -> list[AuditRecord]:
    """What was decided, oldest first, without what is said at the end of a connection."""
    wanted = AuditFilter(kind="egress", session_id=session.id)
    page = await gateway.services.audit.list(whose or gateway.me, wanted)
    return [each for each in reversed(page.items) if not each.detail["ended"]]


def test_what_is_allowed_is_reached_and_everything_is_on_record(
    house: House, declare: Callable[[str], Path], site: int
) -> None:
    declare(allowing(site))

    async def test() -> None:
        async with house.gateway(**private(site)) as gateway:
            session = await gateway.start(environment="web")
            assert session.runtime == "runc"
            assert (session.network.mode, session.network.role) == ("ALLOWLIST", None)
            assert [(each.host, each.port) for each in session.network.allow] == [(ADDRESS, site)]
            assert session.network.limits.requests == house.settings.egress_requests
            assert session.network.used.requests == 0

            assert listening(house) == ["http.sock"]
            assert await ask(gateway, session, f"http://{ADDRESS}:{site}/a") == "'you asked for /a'"
            refusal = await ask(gateway, session, "http://203.0.113.7/")
            assert refusal.startswith("'403")
            allowed, refused = await egress_records(gateway, session)
            assert (allowed.event, allowed.allowed, allowed.principal) == ("http", True, "admin")
            assert allowed.target == f"http://{ADDRESS}:{site}/a"
            assert (allowed.detail["method"], allowed.detail["address"]) == ("GET", ADDRESS)
            assert (refused.allowed, refused.reason.split(":")[0]) == (False, "not_declared")
            assert await egress_records(gateway, session, STRANGER) == []

            shown = await gateway.show(session)
            assert (shown.network.used.requests, shown.network.used.refused) == (2, 1)
            assert shown.network.used.received_bytes > len("you asked for /a")
            ended = await gateway.services.sessions.stop(gateway.me, session.id)
            assert ended.network.mode == "ALLOWLIST"
            assert ended.network.used.requests == 2
            assert ended.network.used.connections_open == 0
            assert (await gateway.show(session)).network == ended.network

    asyncio.run(test())


def test_what_a_session_that_was_handed_over_asks_for_is_on_its_new_owners_record(
    house: House, declare: Callable[[str], Path], site: int
) -> None:
    declare(allowing(site))

    async def test() -> None:
        async with house.gateway(**private(site)) as gateway:
            session = await gateway.start(environment="web")
            await ask(gateway, session, f"http://{ADDRESS}:{site}/mine")
            services, root = gateway.services, Principal("0", "root", admin=True)
            await services.database.run(lambda c: principals.add(c, STRANGER, 0))
            body = DisablePrincipal(sessions="hand_over", to=STRANGER.name)
            await services.principals.disable(root, gateway.me.name, body)
            gateway.me = STRANGER
            assert await ask(gateway, session, f"http://{ADDRESS}:{site}/theirs") == "'you asked for /theirs'"
            found = await egress_records(gateway, session, root)
            assert [(each.target.rpartition("/")[2], each.principal) for each in found] == [
                ("mine", "admin"),
                ("theirs", "stranger"),
            ]

    asyncio.run(test())


def test_an_environment_without_a_network_listens_for_nothing(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            session = await gateway.start()
            assert session.network.mode == "SANDBOX"
            assert listening(house) == []
            assert "SANDBOX" in await ask(gateway, session, "http://203.0.113.7/")
            assert await egress_records(gateway, session) == []

    asyncio.run(test())


def test_tunnels_are_cut_when_the_session_ends(house: House, declare: Callable[[str], Path]) -> None:
    async def test() -> None:
        async with echoing() as (port, closed):
            declare(allowing(port))
            async with house.gateway(**private(port)) as gateway:
                session = await gateway.start(environment="web")
                assert await gateway.text(session, tunnel(port)) == "b'hello'"
                assert (await gateway.show(session)).network.used.connections_open == 1
                await gateway.services.sessions.stop(gateway.me, session.id)
                async with asyncio.timeout(120):
                    await closed.wait()
                records = await gateway.services.audit.list(gateway.me, AuditFilter(session_id=session.id))
                assert [(each.event, each.detail["ended"]) for each in records.items] == [
                    ("connect", True),
                    ("connect", False),
                ]
                assert records.items[0].detail["sent_bytes"] >= len("hello")

    asyncio.run(test())


def tunnel(port: int) -> str:
    """Code that opens a tunnel, leaves it open, and shows what comes back through it."""
    return f"""
import socket
tunnel = socket.create_connection(("127.0.0.1", 3128))
tunnel.sendall(b"CONNECT {ADDRESS}:{port} HTTP/1.1\\r\\nHost: {ADDRESS}:{port}\\r\\n\\r\\n")
assert b" 200 " in tunnel.recv(4096)
tunnel.sendall(b"hello")
tunnel.recv(100)
"""


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A server that sends back what it gets; the event is set when a connection has ended."""
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        closed.set()
        writer.close()

    server = await asyncio.start_server(serve, ADDRESS, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], closed


@pytest.mark.sample("doors")
def test_a_new_sandbox_has_a_way_out_and_no_new_allowance(
    house: House, declare: Callable[[str], Path], site: int
) -> None:
    declare(allowing(site))

    async def test() -> None:
        async with house.gateway(**private(site), egress_requests=3) as gateway:
            session = await gateway.start(environment="web")
            url = f"http://{ADDRESS}:{site}/"
            assert "you asked" in await ask(gateway, session, url)
            kill_sandbox(gateway, session)
            await gateway.until(lambda: no_kernel(gateway, session))
            assert "you asked" in await ask(gateway, session, url)
            assert (await gateway.show(session)).generation == 2
            assert (await gateway.show(session)).network.used.requests == 2
            assert "you asked" in await ask(gateway, session, url)
            refusal = await ask(gateway, session, url)
            assert "you asked" not in refusal
            [*_, last] = await egress_records(gateway, session)
            assert (last.allowed, last.reason.split(":")[0]) == (False, "requests")

    asyncio.run(test())


def kill_sandbox(gateway: Gateway, session: Session) -> None:
    """Its first process ends; the next execution gets a new sandbox."""
    bundle = Path(gateway.services.settings.data_dir, "sandboxes", session.id, "bundle")
    os.kill(int((bundle / "pid").read_text()), signal.SIGKILL)


async def no_kernel(gateway: Gateway, session: Session) -> bool:
    live = gateway.services.registry.find(gateway.me, session.id)
    return live is not None and live.sandbox.kernel is None


@pytest.mark.sample("doors")
def test_a_restart_of_the_service_opens_the_way_again_and_goes_on_counting(
    house: House, declare: Callable[[str], Path], site: int
) -> None:
    declare(allowing(site))
    url = f"http://{ADDRESS}:{site}/"

    async def before() -> Session:
        async with house.gateway(**private(site), keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start(environment="web")
            await gateway.run(session, "x = 41")
            assert "you asked" in await ask(gateway, session, url)
            return session

    async def after(session: Session) -> None:
        async with house.gateway(**private(site)) as gateway:
            assert await gateway.text(session, "x + 1") == "42"
            assert (await gateway.show(session)).network.used.requests == 1
            assert "you asked" in await ask(gateway, session, url)
            assert (await gateway.show(session)).network.used.requests == 2
            assert [each.allowed for each in await egress_records(gateway, session)] == [True, True]

    asyncio.run(after(asyncio.run(before())))


@pytest.mark.sample("doors")
def test_the_policy_after_a_restart_is_that_of_the_file_then(
    house: House, declare: Callable[[str], Path], site: int
) -> None:
    declare(allowing(site) + '[plain]\nimage = "python"\n')
    url = f"http://{ADDRESS}:{site}/"

    async def before() -> tuple[Session, Session, Session]:
        async with house.gateway(**private(site), keep_sessions_on_shutdown=True) as gateway:
            names = ("web", "plain", "web")
            started = [await gateway.start(environment=name) for name in names]
            assert "you asked" in await ask(gateway, started[2], url)
            return started[0], started[1], started[2]

    async def narrower(web: Session, plain: Session) -> None:
        other = '[web]\nimage = "python"\nnetwork = "ALLOWLIST"\nallow = ["example.org:443"]\n'
        declare(other + '[plain]\nimage = "python"\nnetwork = "PUBLIC"\n')
        async with house.gateway(**private(site), keep_sessions_on_shutdown=True) as gateway:
            assert "403" in await ask(gateway, web, url)
            shown = await gateway.show(plain)
            assert shown.network.mode == "SANDBOX", "its guest was told so when it started"
            assert "SANDBOX" in await ask(gateway, plain, "http://203.0.113.7/")

    async def gone(again: Session) -> None:
        declare("")
        async with house.gateway(**private(site)) as gateway:
            assert await gateway.text(again, "6 * 7") == "42"
            assert (await gateway.show(again)).network.mode == "SANDBOX"
            assert "you asked" not in await ask(gateway, again, url)

    async def run() -> None:
        web, plain, again = await before()
        await narrower(web, plain)
        await gone(again)

    asyncio.run(run())


@pytest.mark.sample("doors")
def test_a_way_out_that_cannot_be_opened_again_costs_no_sandbox_and_is_opened_later(
    house: House, declare: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare('[etl]\nimage = "python"\nrole = {bucket = "warehouse", prefix = "a/", profile = "etl"}\n')
    keys = "[etl]\naws_access_key_id = a\naws_secret_access_key = s\n"
    credentials = tmp_path / "credentials"
    credentials.write_text(keys)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))

    async def before() -> Session:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start(environment="etl")
            assert listening(house) == ["s3.sock"]
            await gateway.run(session, "x = 41")
            return session

    async def after(session: Session) -> None:
        async with house.gateway() as gateway:
            assert await gateway.text(session, "x + 1") == "42"
            assert await gateway.text(session, CALLS_S3) == "503", "the guest finds nobody to call"
            credentials.write_text(keys)
            await gateway.services.upkeep.sweep()
            await gateway.until(lambda: answers(gateway, session))
            assert await gateway.text(session, "x + 1") == "42"

    session = asyncio.run(before())
    credentials.write_text("")
    asyncio.run(after(session))


CALLS_S3 = """
import socket
s3 = socket.create_connection(("127.0.0.1", 3129))
s3.sendall(b"GET /other-bucket HTTP/1.1\\r\\nHost: 127.0.0.1:3129\\r\\n\\r\\n")
int(s3.recv(100).split(b" ")[1])
"""


async def answers(gateway: Gateway, session: Session) -> bool:
    return await gateway.text(session, CALLS_S3) == "403"


def test_a_shutdown_writes_what_waits_and_the_sweep_removes_what_is_old(house: House) -> None:
    async def reasons(gateway: Gateway) -> list[str]:
        found = await gateway.services.audit.list(gateway.me, AuditFilter(kind="api"))
        return [each.reason for each in found.items]

    async def test() -> None:
        async with house.gateway() as gateway:
            gateway.services.audit.record("api", "Test", allowed=True, reason="first")
        async with house.gateway(audit_retention_days=2) as gateway:
            assert await reasons(gateway) == ["first"]
            gateway.clock.advance(3 * 86_400)
            gateway.services.audit.record("api", "Test", allowed=True, reason="second")
            await gateway.services.upkeep.sweep()
            assert await reasons(gateway) == ["second"]

    asyncio.run(test())


def test_a_role_that_cannot_be_served_fails_the_start(house: House, declare: Callable[[str], Path]) -> None:
    declare('[etl]\nimage = "python"\nrole = {bucket = "warehouse", prefix = "a/", profile = "no-such-profile"}\n')

    async def test() -> None:
        async with house.gateway() as gateway:
            with pytest.raises(SandboxUnavailable, match=r"way out could not be opened: .*no-such-profile"):
                await gateway.start(environment="etl")
            page = await gateway.services.sessions.list(gateway.me)
            assert [each.ended.reason if each.ended else None for each in page.items] == ["start_failed"]
            assert page.items[0].network.role is not None
            assert page.items[0].network.role.prefix == "a/"
            assert await gateway.services.runtime.list() == ()

    asyncio.run(test())
