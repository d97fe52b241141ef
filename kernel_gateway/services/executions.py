"""Executions as callers see them: submit, wait, look back, follow, interrupt."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kernel_gateway.identity.principal import Principal
from kernel_gateway.shapes import Event, Execution, Page, Submission


class Executions:
    """The verbs on executions. An execution belongs to the service: a caller that goes away cancels nothing."""

    async def submit(
        self, principal: Principal, session_id: str, submission: Submission, idempotency_key: str | None = None
    ) -> Execution:
        """Store an execution and queue it; the row is durable when this returns.

        The same key and the same submission return the same execution. Raises NotFound, SessionTerminated,
        InvalidRequest, PayloadTooLarge, SessionBusy (nothing is stored), GenerationMismatch, IdempotencyConflict,
        QueueFull, NoSpace, ShuttingDown.
        """
        raise NotImplementedError

    async def wait(self, principal: Principal, session_id: str, execution_id: str) -> Execution:
        """The execution once it has ended; cancelling the wait does not touch it."""
        raise NotImplementedError

    async def get(self, principal: Principal, session_id: str, execution_id: str) -> Execution:
        raise NotImplementedError

    async def list(
        self, principal: Principal, session_id: str, limit: int = 100, cursor: str | None = None
    ) -> Page[Execution]:
        """The session's executions, oldest first."""
        raise NotImplementedError

    async def interrupt(self, principal: Principal, session_id: str, execution_id: str) -> Execution:
        """Interrupt one execution: running, it gets KeyboardInterrupt; queued, it ends as `interrupted` unrun."""
        raise NotImplementedError

    async def events(
        self, principal: Principal, session_id: str, execution_id: str, after: int = 0
    ) -> AsyncIterator[Event]:
        """Await it for the checks, then iterate: what follows sequence `after`, ending with `ended`."""
        raise NotImplementedError
