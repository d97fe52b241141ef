"""One service uses a store at a time: claimed at the start, said again while it runs, let go at its end."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from kernel_gateway.settings import Settings
from workspace_sync import open_store
from workspace_sync.errors import WorkspaceSyncError
from workspace_sync.stores.claim_files import UsedStores, keep_service_id
from workspace_sync.stores.claimed import RENEW_SECONDS, ClaimedStore

log = structlog.get_logger(__name__)
_RELEASE_SECONDS = 10.0
_MARK_SECONDS = 4.0
"""How long the store may take to answer about its mark, which is asked once: a late write could undo a takeover."""


def open_claimed(settings: Settings) -> ClaimedStore:
    """The store of the settings, in the name of this data directory's service; nothing is contacted yet.

    Several gateways have it in the name of the secret that they share.
    """
    shared = bool(settings.gateway_address)
    if shared:
        service, place = _name_together(settings.secrets_key), "several gateways"
    else:
        service = keep_service_id(settings.state_path / "service-id")
        place = f"{socket.gethostname()}:{Path(settings.data_dir).absolute()}"
    return ClaimedStore(
        open_store(settings.store_url),
        service,
        place,
        UsedStores(settings.state_path / "store-in-use"),
        marks=open_store(settings.store_url, answer_seconds=_MARK_SECONDS, attempts=1),
        shared=shared,
    )


def _name_together(secret: str) -> str:
    """What all who know the secret make of it, and nobody can make the secret of."""
    return hmac.digest(bytes.fromhex(secret), b"sandcell store 1", "sha256").hex()[:32]


@contextlib.asynccontextmanager
async def held(store: ClaimedStore) -> AsyncIterator[None]:
    """Meanwhile the claim is renewed; then the next service need not wait. A store that is away hears nothing of it."""
    renewing = asyncio.create_task(_renew(store))
    try:
        yield
    finally:
        renewing.cancel()
        with contextlib.suppress(WorkspaceSyncError, OSError, TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                await asyncio.to_thread(store.release)


async def _renew(store: ClaimedStore) -> None:
    """Says once what is wrong, and once that it is mended."""
    failing = ""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            await asyncio.to_thread(store.renew)
        except (WorkspaceSyncError, OSError) as error:
            if str(error) != failing:
                failing = str(error)
                log.error("store_not_claimed", error=failing)
        else:
            if failing:
                log.info("store_claimed_again")
            failing = ""
