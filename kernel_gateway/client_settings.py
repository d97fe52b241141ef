"""What the client and the command line are told by their surroundings; the service's own settings are in `settings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_gateway.settings import process_environment


@dataclass(frozen=True)
class ClientSettings:
    """What the client and the command line take from their surroundings; empty means not said."""

    url: str
    token: str
    session: str
    config_dir: Path
    state_dir: Path


def client_settings(environ: Mapping[str, str] | None = None) -> ClientSettings:
    """`SANDCELL_URL`, `SANDCELL_TOKEN`, `SANDCELL_SESSION`, and the user's own directories by the XDG rules."""
    environ = process_environment() if environ is None else environ

    def directory(variable: str, otherwise: str) -> Path:
        base = environ.get(variable, "")
        return (Path(base) if base.startswith("/") else Path.home() / otherwise) / "sandcell"

    return ClientSettings(
        url=environ.get("SANDCELL_URL", ""),
        token=environ.get("SANDCELL_TOKEN", ""),
        session=environ.get("SANDCELL_SESSION", ""),
        config_dir=directory("XDG_CONFIG_HOME", ".config"),
        state_dir=directory("XDG_STATE_HOME", ".local/state"),
    )
