"""Whether the service takes new work: it does until it drains."""

from __future__ import annotations

from kernel_gateway.errors import ShuttingDown


class Readiness:
    """One per gateway; `accepting` is false from the start of the shutdown on."""

    def __init__(self) -> None:
        self.accepting = True

    def require_accepting(self) -> None:
        """Raises ShuttingDown once the service drains."""
        if not self.accepting:
            raise ShuttingDown("the service is shutting down and takes no new work")
