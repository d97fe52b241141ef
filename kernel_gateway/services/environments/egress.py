"""The way out of a session: opened for each of its sandboxes, closed with it, what is used adds up, all is on record.

What may be reached is decided in `kernel_gateway.egress`; here is whose way it is, when it is open, and who hears.
A sandbox without a network, an execution role and a package index has no way out at all: nothing listens for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from kernel_gateway.egress.budget import EgressLimits, EgressUsage
from kernel_gateway.egress.decision import Decision, Party, Record
from kernel_gateway.egress.packages.proxy import PackageIndexes
from kernel_gateway.egress.packages.wheel_cache import WheelCache
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.resolver import Resolve
from kernel_gateway.egress.s3.proxy import SigningBackends
from kernel_gateway.egress.session_egress import S3Backends, SessionEgress
from kernel_gateway.endpoints import parse_endpoints
from kernel_gateway.errors import EnvironmentUnavailable, GatewayError, UnknownEnvironment
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.audit.text import cut_text
from kernel_gateway.services.environments.info import network_info
from kernel_gateway.settings import Settings
from kernel_gateway.storage.sessions import SessionRow
from kernels.environment import Environment, NetworkMode, NetworkPolicy
from kernels.errors import KernelsError, SandboxFailed
from sandcell.models.network import Network, NetworkUse, SessionNetwork

log = structlog.get_logger(__name__)
OPEN_SECONDS = 30.0
HTTP, S3, PACKAGES = "http", "s3", "packages"
Listen = Callable[[str, str], Awaitable[socket.socket]]
"""From a sandbox's id and a name to a socket on which its guest, and no other process, calls."""
Find = Callable[[], Awaitable[Environment]]
"""A session's environment as it is now; raises UnknownEnvironment, EnvironmentUnavailable, DatabaseUnavailable."""


class Egress:
    """What the ways out of all sessions share."""

    def __init__(
        self,
        settings: Settings,
        listen: Listen,
        audit: Audit,
        *,
        resolve: Resolve,
        signer: S3Backends | None = None,
    ) -> None:
        self.settings = settings
        self._listen = listen
        self.audit = audit
        self._resolve = resolve
        self._own_signer = SigningBackends() if signer is None else None
        self._signer = signer or self._own_signer
        operator = OperatorRules(parse_endpoints(settings.egress_private))
        self._operator = operator
        self._limits = EgressLimits(
            connections=settings.egress_connections,
            requests=settings.egress_requests,
            sent_bytes=settings.egress_sent_bytes,
            received_bytes=settings.egress_received_bytes,
            header_bytes=settings.egress_header_bytes,
            header_seconds=settings.egress_header_seconds,
            connect_seconds=settings.egress_connect_seconds,
            idle_seconds=settings.egress_idle_seconds,
        )
        kept_bytes, reserve_bytes = settings.package_cache_bytes, settings.disk_reserve_bytes
        cache = WheelCache(settings.state_path / "packages", kept_bytes, reserve_bytes)
        self._indexes = PackageIndexes(operator, resolve, self._limits, cache)

    def egress_gateway(self, row: SessionRow, find: Find) -> EgressGateway:
        """The way out of a session, not open yet."""
        return EgressGateway(self, row, find)

    async def open(
        self, sandbox_id: str, party: Party, environment: Environment, used: EgressUsage, record: Record
    ) -> SessionEgress | None:
        """Open what the environment allows a sandbox; None when that is nothing. Raises KernelsError, TimeoutError."""
        names = ways(environment)
        if not names:
            return None
        async with asyncio.timeout(OPEN_SECONDS), contextlib.AsyncExitStack() as opened:
            sockets: dict[str, socket.socket] = {}
            try:
                for name in names:
                    sockets[name] = opened.enter_context(await self._listen(sandbox_id, name))
                egress = await SessionEgress.open(
                    party,
                    environment.network,
                    environment.role,
                    sockets,
                    limits=self._limits,
                    operator=self._operator,
                    resolve=self._resolve,
                    signer=self._signer,
                    record=record,
                    used=used,
                    index=environment.index,
                    indexes=self._indexes,
                )
            except (KernelsError, TimeoutError):
                raise
            except Exception as error:
                raise SandboxFailed(f"the sandbox's way out could not be opened: {error}") from error
            opened.pop_all()  # the sockets are the session's from here on
        return egress

    async def aclose(self) -> None:
        """The service ends, and with it the signing for execution roles and the connections to package indexes."""
        await self._indexes.aclose()
        if self._own_signer is not None:
            self._own_signer.close()

    def record(self, party: Party, decision: Decision) -> None:
        """Called on the loop for every decision; `party` is whose session it is now."""
        detail: dict[str, Any] = {"method": decision.method, "address": decision.address, "ended": decision.ended}
        if decision.ended:
            detail |= {"sent_bytes": decision.sent_bytes, "received_bytes": decision.received_bytes}
        kept = self.audit.record(
            "egress",
            decision.kind,
            allowed=decision.allowed,
            reason=decision.reason,
            target=decision.target,
            principal_id=party.principal_id,
            session_id=party.session_id,
            detail=detail,
        )
        if kept and not decision.allowed:
            log.warning(
                "egress_refused",
                session=party.session_id,
                principal=party.principal_id,
                way=decision.kind,
                target=cut_text(decision.target),
                reason=cut_text(decision.reason),
            )


class EgressGateway:
    """One session's way out, over all of its sandboxes: what one has used is not given to the next again."""

    def __init__(self, egress: Egress, row: SessionRow, find: Find) -> None:
        self.runtime = row.record.runtime
        self.missing = False
        self._egress = egress
        self._sandbox_id = row.sandbox_id
        self._party = Party(row.id, row.principal_id)
        self._find = find
        self._policy: Network = row.record.network
        self._open: SessionEgress | None = None
        used = row.record.network.used
        self._used = EgressUsage(0, used.requests, used.refused, used.sent_bytes, used.received_bytes)

    def hand_over(self, principal_id: str) -> None:
        """It is another principal's session from here on."""
        self._party = Party(self._party.session_id, principal_id)

    def _record(self, decision: Decision) -> None:
        self._egress.record(self._party, decision)

    def expect(self, environment: Environment) -> None:
        """The next sandbox will be of this environment."""
        self.runtime = environment.runtime or self._egress.settings.runtime
        self._policy = network_info(environment, self._egress.settings)

    async def open(self, environment: Environment, sandbox_id: str) -> None:
        """Open it for a new sandbox before its first code. Raises KernelsError, TimeoutError."""
        await self.aclose()
        self.expect(environment)
        self._sandbox_id = sandbox_id
        self._open = await self._egress.open(self._sandbox_id, self._party, environment, self._used, self._record)

    async def reopen(self) -> None:
        """Open it for a sandbox that an earlier process of the service left running, by the policy of today.

        What a sandbox was not started with it does not get later: its guest would not use it. An environment that is
        gone allows nothing. What cannot be opened now is `missing`: the sandbox stays without it until the next try.
        """
        before, self.missing = self._policy, False
        try:
            environment = await self._find()
        except (UnknownEnvironment, EnvironmentUnavailable) as error:
            log.warning("environment_gone", session=self._party.session_id, error=error.message)
            self._policy = Network(limits=before.limits)
            return
        except GatewayError as error:
            log.error("egress_missing", session=self._party.session_id, error=error.message)
            self.missing = True
            return
        if before.mode == NetworkMode.SANDBOX:
            environment = dataclasses.replace(environment, network=NetworkPolicy())
        if before.role is None:
            environment = dataclasses.replace(environment, role=None)
        if not before.index_url:
            environment = dataclasses.replace(environment, index=None)
        self._policy = network_info(environment, self._egress.settings)
        try:
            self._open = await self._egress.open(self._sandbox_id, self._party, environment, self._used, self._record)
        except (KernelsError, TimeoutError) as error:
            log.error("egress_missing", session=self._party.session_id, error=str(error) or "it took too long")
            self.missing = True

    async def aclose(self) -> None:
        """Cut every connection and listen no more."""
        self.missing = False
        egress, self._open = self._open, None
        if egress is not None:
            try:
                await egress.aclose()
            finally:
                self._used = egress.usage

    @property
    def misses_index(self) -> bool:
        """Whether code reaches no package index at all."""
        return self._policy.mode == NetworkMode.SANDBOX and not self._policy.index_url

    @property
    def used(self) -> NetworkUse:
        """What the session has used in all."""
        usage = self._open.usage if self._open is not None else self._used
        return NetworkUse(
            connections_open=usage.connections_open if self._open is not None else 0,
            requests=usage.requests,
            refused=usage.refused,
            sent_bytes=usage.sent_bytes,
            received_bytes=usage.received_bytes,
        )

    def network(self) -> SessionNetwork:
        """The policy in force, and what was used."""
        policy = self._policy
        return SessionNetwork(policy.mode, policy.allow, policy.role, policy.limits, policy.index_url, used=self.used)


def ways(environment: Environment) -> tuple[str, ...]:
    """The sockets that a sandbox of this environment calls on."""
    http = environment.network.mode is not NetworkMode.SANDBOX
    s3, packages = environment.role is not None, environment.index is not None
    return tuple(name for name, there in ((HTTP, http), (S3, s3), (PACKAGES, packages)) if there)
