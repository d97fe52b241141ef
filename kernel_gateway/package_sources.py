"""What an operator says of packages: where they come from, and lists that are added to an image. Pure.

Raises `ValueError` with a sentence.
"""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from kernel_gateway.endpoints import HTTPS_PORT, parse_endpoint
from kernels.environment import Endpoint, PackageIndex

MOST_PACKAGES = 1_000
LONGEST_REQUIREMENT = 200
LONGEST_INDEX_URL = 1_000
DEBIAN_SOURCES = "\n".join(
    (
        "http://deb.debian.org/debian {codename} main",
        "http://deb.debian.org/debian {codename}-updates main",
        "http://deb.debian.org/debian-security {codename}-security main",
    )
)
"""Where Debian packages come from unless an operator says so."""
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?((==|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+(,(?!$))?)*"
)
_DEBIAN = re.compile(r"[a-z0-9][a-z0-9.+-]*[a-z0-9.+](=[0-9][A-Za-z0-9.+~:-]*)?")
_SOURCE = re.compile(r"(\[trusted=yes\] )?(https?)://([^/ ]+)((?:/[A-Za-z0-9._~+@-]+)*)/?( [A-Za-z0-9./{}_-]+){2,}")
_NETLOC = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_PATH = re.compile(r"(/[A-Za-z0-9._~+@-]+)*/?")
_LOOPBACK = re.compile(r"(127\.0\.0\.1|\[::1\])(:[0-9]+)?")


def parse_requirements(listed: Sequence[object]) -> tuple[str, ...]:
    """A list of packages as pip takes them: names with extras and versions, no addresses and no options."""
    return _parse_list(listed, _REQUIREMENT, "package: write packages as prophet==1.1.6 or tqdm")


def parse_debian(listed: Sequence[object]) -> tuple[str, ...]:
    """A list of Debian packages as apt takes them, names and versions: no options, patterns and removals."""
    return _parse_list(listed, _DEBIAN, "Debian package: write packages as gdal-bin or jq=1.6-2.1")


def _parse_list(listed: Sequence[object], form: re.Pattern[str], what: str) -> tuple[str, ...]:
    if not listed:
        raise ValueError("it lists none: leave it out to have the image as it is")
    if len(listed) > MOST_PACKAGES:
        raise ValueError(f"it lists more than {MOST_PACKAGES:,}")
    for each in listed:
        if not isinstance(each, str) or len(each) > LONGEST_REQUIREMENT or not form.fullmatch(each):
            raise ValueError(f"{each!r} is no {what}")
    return tuple(str(each) for each in listed)


def parse_apt_sources(text: str) -> tuple[Endpoint, ...]:
    """The servers of sources of Debian packages, one a line, each as apt has it after the word `deb`.

    Of plain HTTP only what is below the source's path may be asked for.
    """
    found = []
    for line in text.splitlines():
        parts = _SOURCE.fullmatch(line)
        if parts is None or not _NETLOC.fullmatch(parts[3]) or {".", ".."} & set(parts[4].split("/")):
            raise ValueError(
                f"{line!r} is no source of Debian packages: write it as http://deb.debian.org/debian {{codename}} main"
            )
        default = 443 if parts[2] == "https" else 80
        whole = parse_endpoint(parts[3] if re.search(r":[0-9]+$", parts[3]) else f"{parts[3]}:{default}")
        plain = parts[2] == "http" and whole.port != HTTPS_PORT
        found.append(dataclasses.replace(whole, methods=("GET",), path_prefix=parts[4]) if plain else whole)
    return tuple(found)


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
