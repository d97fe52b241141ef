"""What an image says of a kernel that it has, in Jupyter's `kernel.json`. Pure.

It is anybody's: what is not plain is no kernel that can be used.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

MOST_BYTES: Final = 64 << 10
"""Of one `kernel.json`."""
OURS: Final = "python3"
"""The name of Python's own kernelspec: that kernel is the session's."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9._ +#()/-]{1,80}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PYTHON: Final = re.compile(r"python(3(\.[0-9]{1,2})?)?")
_LONGEST_TITLE: Final = 100


@dataclass(frozen=True)
class Kernelspec:
    """One kernel: `language` in small letters, `command` with `{connection_file}` in it, `variables` of its process.

    `by_message`: it is interrupted by a message, and not by a signal.
    """

    name: str
    language: str
    title: str
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    by_message: bool = False
    language_name: str = ""
    """The language as the kernelspec spells it."""


def is_name(name: str) -> bool:
    """Whether a directory's name is one that Jupyter gives a kernel."""
    return _NAME.fullmatch(name) is not None


def parse_kernelspec(name: str, text: str, directory: str, python: str) -> Kernelspec | None:
    """The kernel that the `kernel.json` of this text in `directory` declares, None for one that cannot be used.

    As Jupyter has it, a command that is no more than `python` means the interpreter that has ipykernel.
    """
    try:
        said: Any = json.loads(text)
        command, language, variables = said["argv"], said["language"], said.get("env") or {}
        title, mode = said.get("display_name"), said.get("interrupt_mode")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not (_are_texts(command) and isinstance(language, str) and isinstance(variables, dict)):
        return None
    if not _are_texts([*variables, *variables.values()]) or not all(map(_VARIABLE.fullmatch, variables)):
        return None
    if not (is_name(name) and _LANGUAGE.fullmatch(language) and any("{connection_file}" in each for each in command)):
        return None
    if _PYTHON.fullmatch(command[0]):
        command = [python, *command[1:]]
    return Kernelspec(
        name,
        language.lower(),
        title if isinstance(title, str) and title.isprintable() and len(title) <= _LONGEST_TITLE else name,
        tuple(each.replace("{resource_dir}", directory) for each in command),
        tuple(variables.items()),
        mode == "message",
        language,
    )


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) and "\0" not in each for each in values)
