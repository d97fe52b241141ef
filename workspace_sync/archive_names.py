"""Names inside an archive, which any tool unpacks below the directory it was told (pure).

Characters that some system takes for something else become `%XX`, byte by byte, and so does the last character of a
name that Windows cannot have; `names.unescape` gives the workspace's own name back. No two paths get one name.
"""

from __future__ import annotations

import re

UNSAFE = frozenset('\\:*?"<>|')
DEVICE = re.compile(r"(?:CON|PRN|AUX|NUL|CLOCK\$|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE)
_ESCAPED = re.compile(r"%(?=[0-9A-Fa-f]{2})")


def archive_name(path: bytes) -> str:
    """A path of a workspace as a name in an archive; its parts stay parts."""
    return "/".join(_safe(part.decode("utf-8", "surrogateescape")) for part in path.split(b"/"))


def _safe(name: str) -> str:
    name = _ESCAPED.sub("%25", name)
    name = "".join(_percent(each) if each in UNSAFE or not each.isprintable() else each for each in name)
    stem, dot, rest = name.partition(".")
    if DEVICE.fullmatch(stem.rstrip()):
        name = stem[:-1] + _percent(stem[-1]) + dot + rest
    return name[:-1] + _percent(name[-1]) if name[-1] in " ." else name


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
