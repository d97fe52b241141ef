"""What an endpoint of this face gets: one admitted request; no tornado in it."""

from __future__ import annotations

from dataclasses import dataclass

from kernel_gateway.faces.calls import AdmittedCall
from kernel_gateway.faces.e2b.errors import SandboxGone
from kernel_gateway.faces.e2b.identifiers import format_sandbox_id


@dataclass(kw_only=True)
class Call(AdmittedCall):
    """`session_id`, with dashes, is the sandbox's that it names."""

    session_id: str = ""


def require_live(call: Call) -> None:
    """Raises SandboxGone unless the sandbox lives and is the caller's."""
    live = call.services.registry.find(call.principal, call.session_id)
    if live is None or live.ending is not None or live.is_snapshot:
        raise SandboxGone(format_sandbox_id(call.session_id))
