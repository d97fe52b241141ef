"""The service's own S3 credentials, and requests signed with them. Of a key, only signatures leave this module.

Imported with the first execution role that is used: botocore is a sixth of what a start of the service would import.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from urllib.parse import urlsplit

import botocore.session
import msgspec
import structlog
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError

from kernel_gateway.egress.s3.scope import RoleUnusable, SigningFailed
from kernels.environment import ExecutionRole

THREADS: Final = 2
_CREDENTIALS_SECONDS: Final = 20
_AWS_ALONE: Final = Config(ignore_configured_endpoint_urls=True)  # type: ignore[call-arg]  # the stubs are older
T = TypeVar("T")
log = structlog.get_logger(__name__)


class _Threads:
    """Where botocore may block."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="credentials")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Do it; raises TimeoutError."""
        async with asyncio.timeout(_CREDENTIALS_SECONDS):
            return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class _Signer(S3SigV4Auth):
    """S3's signature over a hash of the body that is known already: bodies stream, they are not here to be read."""

    def payload(self, request: AWSRequest) -> str:
        return str(request.context["payload"])


class Backend(msgspec.Struct, frozen=True):
    """Where a role's requests go, and what signs them."""

    origin: str
    region: str
    tls: ssl.SSLContext
    credentials: Credentials
    threads: _Threads

    async def sign(
        self, method: str, path: str, query: str, headers: Iterable[tuple[str, str]], payload_hash: str
    ) -> list[tuple[str, str]]:
        """The headers of a signed request, those given among them. Raises SigningFailed."""
        request = AWSRequest(method=method, url=f"{self.origin}{path}{f'?{query}' if query else ''}")
        request.headers["Host"] = urlsplit(self.origin).netloc
        for name, value in headers:
            request.headers[name] = value
        request.context["payload"] = payload_hash
        try:
            _Signer(await self._freeze(), "s3", self.region).add_auth(request)
        except (BotoCoreError, OSError) as error:  # TimeoutError among them
            raise SigningFailed(f"{type(error).__name__}: {error}") from error
        return [(str(name), str(value)) for name, value in request.headers.items()]

    async def _freeze(self) -> ReadOnlyCredentials:
        """The keys of this moment; fetching new ones may ask another service, and so takes a thread."""
        if isinstance(self.credentials, RefreshableCredentials) and self.credentials.refresh_needed():
            return await self.threads.run(self.credentials.get_frozen_credentials)
        return self.credentials.get_frozen_credentials()


class Credentialed:
    """Sessions of botocore by profile, made once; the service has one of these for all sandboxes."""

    def __init__(self) -> None:
        self._threads = _Threads()
        self._sessions: dict[str, botocore.session.Session] = {}

    async def backend(self, role: ExecutionRole) -> Backend:
        """What serves a role; raises `RoleUnusable` when the service has no credentials for it."""
        try:
            origin, tls, credentials = await self._threads.run(self._find, role)
        except TimeoutError:
            raise RoleUnusable(f"no credentials {_name_source(role)} within {_CREDENTIALS_SECONDS} s") from None
        except (BotoCoreError, OSError) as error:  # its text may quote files of the host, or what a program of its said
            log.error("role_unusable", profile=role.profile, error=str(error))
            why = f"{type(error).__name__}; the service's log has the particulars"
            raise RoleUnusable(f"the execution role's credentials {_name_source(role)} cannot be used: {why}") from None
        except ValueError as error:
            raise RoleUnusable(
                f"the execution role's credentials {_name_source(role)} cannot be used: {error}"
            ) from None
        return Backend(origin, role.region, tls, credentials, self._threads)

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    def _find(self, role: ExecutionRole) -> tuple[str, ssl.SSLContext, Credentials]:
        session = self._sessions.get(role.profile) or botocore.session.Session(profile=role.profile or None)
        credentials = session.get_credentials()
        if credentials is None:
            raise ValueError("there are none; give the service AWS credentials, or name a profile that has some")
        credentials.get_frozen_credentials()
        self._sessions[role.profile] = session  # one without credentials is not kept: they may come
        tls = ssl.create_default_context(cafile=session.get_config_variable("ca_bundle") or None)
        return role.endpoint_url.rstrip("/") or _make_aws_url(session, role.region), tls, credentials


def _make_aws_url(session: botocore.session.Session, region: str) -> str:
    """AWS's own S3 endpoint of a region, whatever this process's environment says of endpoints."""
    client = session.create_client("s3", region_name=region, config=_AWS_ALONE)
    try:
        return str(client.meta.endpoint_url)
    finally:
        client.close()


def _name_source(role: ExecutionRole) -> str:
    return f"of profile {role.profile!r}" if role.profile else "of the service"
