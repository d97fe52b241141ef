"""All services of one gateway, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.commands import Commands, Tasks
from kernel_gateway.services.environments import Environments
from kernel_gateway.services.executions import Executions
from kernel_gateway.services.files import Files
from kernel_gateway.services.limits import Limits
from kernel_gateway.services.notebooks import Notebooks
from kernel_gateway.services.sessions import Sessions
from kernel_gateway.services.tokens import Tokens
from kernel_gateway.services.workspaces import Workspaces
from kernel_gateway.settings import Settings
from kernels.environment import Environment
from kernels.sandbox import SandboxRuntime


class Identity:
    async def authenticate(self, bearer_token: str) -> Principal:
        """The token's principal; raises Unauthorized."""
        raise NotImplementedError


@dataclass
class Services:
    """What faces call. `first_token` is the administrator's token when this start made one: print it once."""

    settings: Settings
    identity: Identity
    limits: Limits
    tokens: Tokens
    environments: Environments
    sessions: Sessions
    executions: Executions
    commands: Commands
    tasks: Tasks
    files: Files
    notebooks: Notebooks
    workspaces: Workspaces
    first_token: str | None = None

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        runtime: SandboxRuntime,
        store: object,
        installed: Callable[[], dict[str, Environment]],
    ) -> Services:
        """Open the database, take up the sandboxes that still run, start the timers."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether new work is taken."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Take no more work, let what runs finish within `drain_seconds`, flush, and end or leave the sessions."""
        raise NotImplementedError
