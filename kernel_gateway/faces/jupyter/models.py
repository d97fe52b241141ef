"""What Jupyter clients are shown: kernels, sessions, kernelspecs, with every field that one of them reads. Pure.

Times have six fractional digits and `Z`, which the clients' parsers insist on. `argv` of a kernelspec is a decoy: no
client of a remote kernel runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kernel_gateway.services.attach.attachments import KERNEL_LABEL
from kernels.kernelspec import Kernelspec
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.sessions import Session

DECOY: Final = ["remote"]
LOGOS: Final = {
    "logo-32x32": "logo-32x32.png",
    "logo-64x64": "logo-64x64.png",
    "logo-svg": "logo-svg.svg",
}
SHORT_ID: Final = 8


class Title(msgspec.Struct, frozen=True):
    """What a client calls a session: VS Code shows the path in its list of live kernels."""

    path: str
    name: str
    type: str = "notebook"


def make_title(session: Session) -> Title:
    """The title of a session that no client has given one."""
    path = session.name or f"sandcell {session.id[:SHORT_ID]}"
    return Title(path, path)


def describe_kernel(session: Session, execution_state: str, connections: int) -> dict[str, Any]:
    """The kernel of a live session."""
    return {
        "id": session.id,
        "name": join_name(session.environment, session.labels.get(KERNEL_LABEL)),
        "last_activity": session.last_activity_at,
        "execution_state": execution_state,
        "connections": connections,
    }


def describe_dead_kernel(session: Session) -> dict[str, Any]:
    """The kernel of a session that ended without anybody asking for it."""
    ended = session.ended
    reason = f"the session has ended ({ended.reason}): {ended.detail}" if ended else "the session has ended"
    return {**describe_kernel(session, "dead", 0), "reason": reason, "traceback": ""}


def describe_session(session_id: str, title: Title, of_kernel: dict[str, Any]) -> dict[str, Any]:
    """A Jupyter session: a document that a kernel runs for. Ours has the id of its kernel."""
    return {
        "id": session_id,
        "path": title.path,
        "name": title.name,
        "type": title.type,
        "kernel": of_kernel,
        "notebook": {"path": title.path, "name": title.name},
    }


def join_name(environment: str, kernel: str | None) -> str:
    """The kernelspec's name of an environment's Python, or of a kernel that its image declares."""
    return environment if kernel is None else f"{environment}.{kernel}"


def list_kernelspecs(described: Sequence[dict[str, Any]], default: str) -> dict[str, Any]:
    """All of them. The default one is there, or the first."""
    found = {each["name"]: each for each in described}
    return {"default": default if default in found else next(iter(found), default), "kernelspecs": found}


def describe_kernelspec(environment: EnvironmentInfo, *, debugger: bool) -> dict[str, Any]:
    """An environment as a kernelspec; its name is the environment's id. JupyterLab's debugger is grey without one."""
    name = environment.id
    return {
        "name": name,
        "spec": {
            "argv": DECOY,
            "display_name": f"Python 3 (sandcell: {environment.name})",
            "language": "python",
            "interrupt_mode": "message",
            "env": {},
            "metadata": {"debugger": debugger},
        },
        "resources": {logo: f"/kernelspecs/{name}/{file}" for logo, file in LOGOS.items()},
    }


def describe_declared(environment: EnvironmentInfo, kernel: Kernelspec) -> dict[str, Any]:
    """A kernel that the environment's image declares. It has no logo of ours, and the image's files are not shown."""
    return {
        "name": join_name(environment.id, kernel.name),
        "spec": {
            "argv": DECOY,
            "display_name": f"{kernel.title} (sandcell: {environment.name})",
            "language": kernel.language_name or kernel.language,
            "interrupt_mode": "message",
            "env": {},
            "metadata": {"debugger": False, "sandcell": {"environment": environment.id, "runtime": kernel.name}},
        },
        "resources": {},
    }
