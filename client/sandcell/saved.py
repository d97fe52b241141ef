"""Where the service is and who we are: arguments, then variables, then what `sandcell serve` saved for its user.

The saved token is only ever sent to the URL it was saved with.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from sandcell.errors import InvalidRequest
from sandcell.settings import ClientSettings, read_settings

DEFAULT_URL = "http://127.0.0.1:8899"


@dataclass(frozen=True)
class Address:
    """A service and the token for it, which may be empty."""

    url: str
    token: str


def find_address(url: str | None = None, token: str | None = None, settings: ClientSettings | None = None) -> Address:
    """The service to talk to; raises `InvalidRequest` for what is no URL of one."""
    settings = settings or read_settings()
    saved = load(settings)
    found = _check_url((url or settings.url or (saved.url if saved else DEFAULT_URL)).rstrip("/"))
    if token or settings.token:
        return Address(found, token or settings.token)
    return Address(found, saved.token if saved and saved.url == found else "")


def _check_url(url: str) -> str:
    """The URL, when a request can be sent to it; raises `InvalidRequest`."""
    import httpx  # noqa: PLC0415 - a service that starts writes such a file, and sends no requests

    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidRequest(f"the service's URL must be like {DEFAULT_URL}, and is {url!r}", code="invalid_url")
    return url


def load(settings: ClientSettings) -> Address | None:
    """What was saved for this user, if it can be read."""
    try:
        return parse(file(settings).read_bytes())
    except OSError:
        return None


def parse(text: bytes) -> Address | None:
    """What a file says, if it is one of these."""
    try:
        values = tomllib.loads(text.decode())
        return Address(str(values["url"]).rstrip("/"), str(values["token"]))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError):
        return None


def format_content(url: str, token: str) -> bytes:
    """What a file says of a service."""
    return f"# Written by `sandcell serve`.\nurl = {json.dumps(url)}\ntoken = {json.dumps(token)}\n".encode()


def file(settings: ClientSettings) -> Path:
    """Where it is saved."""
    return settings.config_dir / "client.toml"
