"""What a request of the console's own page looks like, and the cookie by which it says who is signed in. Pure.

A browser sends a cookie with requests that other pages make it send. So the cookie counts only with a header that no
other page can add, and never where the browser says that the request comes from elsewhere. A page of a sandbox, which
an address of the service's may show, adds none: it has no script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from tornado.httputil import parse_cookie

HEADER: Final = "X-Sandcell-Console"
COOKIE: Final = "sandcell_console"
ATTEMPT_COOKIE: Final = "sandcell_sign_in"
"""What a browser keeps while it is at the identity provider."""
MOST_SECRET_CHARACTERS: Final = 512
MOST_ATTEMPT_CHARACTERS: Final = 2_048


def comes_from_console(headers: Mapping[str, str]) -> bool:
    """Whether the page that sent a request is this service's."""
    if headers.get(HEADER) != "1":
        return False
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    # Browsers leave that header out over plain HTTP, and send an origin with all that changes something.
    origin = headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == headers.get("Host")


def find_secret(headers: Mapping[str, str]) -> str:
    """What the browser keeps of somebody who is signed in; empty where the request is not the console's."""
    if not comes_from_console(headers):
        return ""
    secret = parse_cookie(headers.get("Cookie", "")).get(COOKIE, "")
    return secret if len(secret) <= MOST_SECRET_CHARACTERS else ""


def find_attempt(headers: Mapping[str, str]) -> str:
    """What the browser kept while it was at the identity provider; empty where the request is not the console's."""
    if not comes_from_console(headers):
        return ""
    kept = parse_cookie(headers.get("Cookie", "")).get(ATTEMPT_COOKIE, "")
    return kept if len(kept) <= MOST_ATTEMPT_CHARACTERS else ""


def find_origin(headers: Mapping[str, str]) -> str:
    """The origin of the console's page, as its browser says; empty where that is not the host that was asked."""
    origin = headers.get("Origin", "")
    parts = urlsplit(origin)
    return origin if parts.scheme in ("http", "https") and parts.netloc == headers.get("Host") else ""


def takes_html(headers: Mapping[str, str]) -> bool:
    """Whether who asks names HTML among what it takes, as browsers do for a page; `*/*` names nothing."""
    for each in headers.get("Accept", "").lower().split(","):
        name, *parameters = (part.replace(" ", "") for part in each.split(";"))
        if name == "text/html" and not any(re.fullmatch(r"q=0(\.0*)?", part) for part in parameters):
            return True
    return False


def make_cookie(headers: Mapping[str, str], secret: str, seconds: int, name: str = COOKIE) -> str:
    """What has the browser keep a secret, or with an empty one forget it."""
    # Behind a proxy that ends TLS this alone says how the browser came here.
    secure = "; Secure" if headers.get("Origin", "").startswith("https:") else ""
    return f"{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds if secret else 0}{secure}"
