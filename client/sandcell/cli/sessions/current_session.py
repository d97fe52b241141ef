"""Which session `sandcell run` goes on with: the last one, remembered per service in the user's state directory."""

from __future__ import annotations

import json
from pathlib import Path

from sandcell.files import make_private_directory, replacing
from sandcell.settings import read_settings


def recall(url: str) -> str | None:
    """The id of the current session of that service."""
    return _read().get(url)


def remember(url: str, session_id: str) -> None:
    """Make a session the current one."""
    _write({**_read(), url: session_id})


def forget(url: str, session_id: str) -> None:
    """That session is current no longer, if it was."""
    current = _read()
    if current.get(url) == session_id:
        del current[url]
        _write(current)


def _file() -> Path:
    return read_settings().state_dir / "sessions.json"


def _read() -> dict[str, str]:
    try:
        values = json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {str(url): str(session) for url, session in values.items()}


def _write(values: dict[str, str]) -> None:
    path = _file()
    make_private_directory(path.parent)
    with replacing(path, mode=0o600) as stream:
        stream.write(json.dumps(values, indent=1).encode())
