"""The calls that are under way, by whose they are: what lets a revocation end them at once, streams and sockets too.

Every face enters a call as soon as its caller is known, with what hangs up on it. Nothing polls: revoking ends
the calls, and a credential that expires has a timer while a call of it is open. Everything runs on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from kernel_gateway.identity.principal import Caller

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class OpenCall:
    """One call; `hang_up` ends it towards its client and is called once at most."""

    caller: Caller
    hang_up: Callable[[], None]
    timer: asyncio.TimerHandle | None = field(default=None)


class OpenCalls:
    """`enter` when a caller is known, `leave` when the call is over."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._of_principal: dict[str, set[OpenCall]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of_principal.values()))

    def enter(self, caller: Caller, hang_up: Callable[[], None]) -> OpenCall:
        """Remember a call until it is over; its credential was found to count in this turn of the loop."""
        call = OpenCall(caller, hang_up)
        self._of_principal.setdefault(caller.principal.id, set()).add(call)
        if caller.expires is not None:
            left = max(0.0, caller.expires - self._now())
            call.timer = asyncio.get_running_loop().call_later(left, self._end, [call])
        return call

    def leave(self, call: OpenCall) -> None:
        """The call is over; saying so again does nothing."""
        if call.timer is not None:
            call.timer.cancel()
        calls = self._of_principal.get(call.caller.principal.id)
        if calls is not None:
            calls.discard(call)
            if not calls:
                del self._of_principal[call.caller.principal.id]

    def list_credentials(self) -> tuple[set[str], set[str]]:
        """The credentials of calls under way, and the principals."""
        calls = {each.caller.credential_id for calls in self._of_principal.values() for each in calls}
        return calls, set(self._of_principal)

    def end_principal(self, principal_id: str) -> int:
        """Hang up on every call of a principal; says how many there were."""
        return self._end(list(self._of_principal.get(principal_id, ())))

    def end_credential(self, credential_id: str) -> int:
        """Hang up on every call that came with a credential; says how many there were."""
        calls = [each for calls in self._of_principal.values() for each in calls]
        return self._end([each for each in calls if each.caller.credential_id == credential_id])

    def _end(self, calls: list[OpenCall]) -> int:
        for call in calls:
            self.leave(call)
            try:
                call.hang_up()
            except Exception as error:  # one that fails must not keep the others open
                log.error("call_not_ended", credential=call.caller.credential_id, exc_info=error)
        return len(calls)
