"""What an operator says of packages: the index that they come from, and lists that are added to an image. Pure.

Raises `ValueError` with a sentence.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from kernel_gateway.endpoints import parse_endpoint
from kernels.environment import PackageIndex

MOST_PACKAGES = 1_000
LONGEST_REQUIREMENT = 200
LONGEST_INDEX_URL = 1_000
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?((==|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+(,(?!$))?)*"
)
_NETLOC = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_PATH = re.compile(r"(/[A-Za-z0-9._~+@-]+)*/?")
_LOOPBACK = re.compile(r"(127\.0\.0\.1|\[::1\])(:[0-9]+)?")


def parse_requirements(listed: Sequence[object]) -> tuple[str, ...]:
    """A list of packages as pip takes them: names with extras and versions, no addresses and no options."""
    if not listed:
        raise ValueError("it lists none: leave it out to have the image as it is")
    if len(listed) > MOST_PACKAGES:
        raise ValueError(f"it lists more than {MOST_PACKAGES:,}")
    for each in listed:
        if not isinstance(each, str) or len(each) > LONGEST_REQUIREMENT or not _REQUIREMENT.fullmatch(each):
            raise ValueError(f"{each!r} is no package: write packages as prophet==1.1.6 or tqdm")
    return tuple(str(each) for each in listed)


def parse_index_url(text: str) -> PackageIndex:
    """A package index: scheme, host, port and path, with a name and a password or without. Raises ValueError.

    No message quotes the text, which may hold the password.
    """
    what = "the address of a package index is written as https://pypi.example.org/simple/"
    if len(text) > LONGEST_INDEX_URL or not (text.isascii() and text.isprintable()):
        raise ValueError(what)
    parts = urlsplit(text)
    who, at, netloc = parts.netloc.rpartition("@")
    fits = parts.scheme in {"http", "https"} and _NETLOC.fullmatch(netloc) and _PATH.fullmatch(parts.path)
    if not fits or parts.query or parts.fragment or (parts.port or 1) < 1:
        raise ValueError(f"{what}, with name:password@ before the host where it needs them")
    if at and parts.scheme == "http" and not _LOOPBACK.fullmatch(netloc):
        raise ValueError("with a name and a password it must begin with https: they would be sent in the clear")
    parse_endpoint(netloc)
    authorization = f"Basic {base64.b64encode(unquote(who).encode()).decode()}" if at else ""
    return PackageIndex(f"{parts.scheme}://{netloc}{parts.path.removesuffix('/')}/", authorization)
