"""An identity provider that is away, answers without end or is another one; attempts that were not begun here."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import NotFound, ProviderUnavailable, Unauthorized
from kernel_gateway.identity.openid import ATTEMPT_SECONDS, read_metadata
from kernel_gateway.services.credentials.openid_provider import MOST_ANSWER_BYTES, OpenIdProvider
from kernel_gateway.settings import Settings
from tests.doubles.turned_clock import TurnedClock

ORIGIN = "https://console.example"


def make_provider(directory: Path, issuer: str) -> tuple[OpenIdProvider, TurnedClock]:
    clock = TurnedClock()
    settings = Settings(data_dir=str(directory), oidc_issuer=issuer, oidc_client_id="c", oidc_roles="user sub=*")
    return OpenIdProvider(settings, clock), clock


@contextlib.asynccontextmanager
async def answering(content: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server's address, which answers everything with this, and the requests that it had."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        with contextlib.suppress(ConnectionError):
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def publish(issuer: str, **changed: Any) -> bytes:
    named = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    return json.dumps({"issuer": issuer, **{each: f"{issuer}/{each}" for each in named}, **changed}).encode()


def test_one_that_does_not_answer_as_it_should_is_unavailable(tmp_path: Path) -> None:
    async def check() -> None:
        for content in (b"", b"{}", publish("https://another.example"), b"x" * (MOST_ANSWER_BYTES + 1)):
            async with answering(content) as (issuer, _):
                with pytest.raises(ProviderUnavailable):
                    await make_provider(tmp_path, issuer)[0].begin(ORIGIN)
        with pytest.raises(ProviderUnavailable):  # nobody is there any more
            await make_provider(tmp_path, issuer)[0].begin(ORIGIN)

    asyncio.run(check())


def test_nothing_is_asked_for_an_attempt_that_was_not_begun_here(tmp_path: Path) -> None:
    async def check() -> None:
        async with answering(b"") as (issuer, asked):
            provider, clock = make_provider(tmp_path, issuer)
            provider._remembered = (clock.now() + 1e6, read_metadata(publish(issuer), issuer))
            begun = await provider.begin(ORIGIN)
            state = begun.url.split("state=")[1].split("&")[0]
            sealed = base64.urlsafe_b64decode(begun.kept)
            changed = base64.urlsafe_b64encode(sealed[:-1] + bytes([sealed[-1] ^ 1])).decode()
            other, _ = make_provider(tmp_path, issuer)  # as after a restart
            for asking, kept, given in (
                (provider, "", state),
                (provider, "é", state),
                (provider, changed, state),
                (provider, begun.kept, state[:-1]),
                (provider, begun.kept, "é"),
                (other, begun.kept, state),
            ):
                with pytest.raises(Unauthorized, match="did not begin"):
                    await asking.finish(kept, given, "code")
            clock.advance(ATTEMPT_SECONDS)
            with pytest.raises(Unauthorized, match="did not begin"):
                await provider.finish(begun.kept, state, "code")
            assert asked == []

    asyncio.run(check())


def test_without_one_there_is_none(tmp_path: Path) -> None:
    provider = OpenIdProvider(Settings(data_dir=str(tmp_path)), TurnedClock())
    assert provider.name == ""
    for asking in (provider.begin(ORIGIN), provider.finish("", "", "")):
        with pytest.raises(NotFound):
            asyncio.run(asking)
