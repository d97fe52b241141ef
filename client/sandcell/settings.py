"""What the client and the command take from the environment of their process, which nothing else here reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ClientSettings:
    """What the client and the command take from their environment; an empty text means that it says nothing."""

    url: str
    token: str
    session: str
    config_dir: Path
    state_dir: Path


def read_settings(environ: Mapping[str, str] | None = None) -> ClientSettings:
    """`SANDCELL_URL`, `SANDCELL_TOKEN`, `SANDCELL_SESSION`, and the user's own directories.

    Those are by the XDG rules, on Windows below %APPDATA% and %LOCALAPPDATA%.
    """
    environ = process_environment() if environ is None else environ

    def directory(variable: str, on_windows: str, otherwise: str) -> Path:
        base = Path(environ.get(variable, "") or (environ.get(on_windows, "") if sys.platform == "win32" else ""))
        return (base if base.is_absolute() else Path.home() / otherwise) / "sandcell"

    return ClientSettings(
        url=environ.get("SANDCELL_URL", ""),
        token=environ.get("SANDCELL_TOKEN", ""),
        session=environ.get("SANDCELL_SESSION", ""),
        config_dir=directory("XDG_CONFIG_HOME", "APPDATA", ".config"),
        state_dir=directory("XDG_STATE_HOME", "LOCALAPPDATA", ".local/state"),
    )


def process_environment() -> dict[str, str]:
    """The variables of this process, for the programs that the command starts."""
    return dict(os.environ)
