"""Shell commands and background tasks in a live session."""

from __future__ import annotations

from kernel_gateway.identity.principal import Principal
from kernel_gateway.shapes import Command, CommandRequest


class Commands:
    """Run a command to its end, or start it in the background."""

    async def run(self, principal: Principal, session_id: str, request: CommandRequest) -> Command:
        """A foreground command's result, or the background task just started."""
        raise NotImplementedError


class Tasks:
    """Background commands by id."""

    async def get(self, principal: Principal, session_id: str, task_id: str) -> Command:
        raise NotImplementedError

    async def stop(self, principal: Principal, session_id: str, task_id: str) -> Command:
        raise NotImplementedError
