"""The languages of LibreChat's tool, and the line of shell that runs a program in one of them. Pure.

The program lies in a directory of its own below /tmp, so that it is no file of the session, and runs in /mnt/data,
where it finds and leaves files. The line has the code in it: the session's record shows what ran.
"""

from __future__ import annotations

import hashlib
import shlex
from typing import Final

import msgspec

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.json_bodies import quote

LONGEST_LINE: Final = 120 * 1024
"""A line with more bytes has the code beside it; a program's argument has at most 128 KiB on Linux."""
NO_PROGRAM: Final = 127


class Language(msgspec.Struct, frozen=True):
    """`file` is what the program is called; `ways` are programs that run it, the first that the image has does."""

    file: str
    ways: tuple[tuple[str, str], ...]


def _interpreter(program: str, file: str, options: str = "") -> Language:
    return Language(file, ((program, f'{program}{options} "$run/{file}" "$@"'),))


def _compiler(program: str, file: str, options: str = "") -> Language:
    return Language(file, ((program, f'{program} -o "$run/program" "$run/{file}"{options} && "$run/program" "$@"'),))


_DENO: Final = "deno run --quiet --allow-all --no-prompt --unstable-bare-node-builtins --unstable-detect-cjs"
LANGUAGES: Final = {
    "py": _interpreter("python3", "main.py"),
    "bash": _interpreter("bash", "script.sh"),
    "js": Language("index.js", (("node", 'node "$run/index.js" "$@"'), ("deno", f'{_DENO} "$run/index.js" "$@"'))),
    "ts": Language("main.ts", (("deno", f'{_DENO} "$run/main.ts" "$@"'), ("node", 'node "$run/main.ts" "$@"'))),
    "r": _interpreter("Rscript", "main.R", " --vanilla"),
    "c": _compiler("gcc", "main.c", " -lm"),
    "cpp": _compiler("g++", "main.cpp"),
    "java": _interpreter("java", "Main.java"),
    "php": _interpreter("php", "main.php"),
    "rs": _compiler("rustc", "main.rs"),
    "go": _interpreter("go", "main.go", " run"),
    "d": _compiler("gdc", "main.d"),
    "f90": _compiler("gfortran", "main.f90"),
}
"""By the name that the tool's schema has."""
ALIASES: Final = {
    "python": "py",
    "javascript": "js",
    "node": "js",
    "nodejs": "js",
    "typescript": "ts",
    "sh": "bash",
    "c++": "cpp",
    "rust": "rs",
    "golang": "go",
    "fortran": "f90",
}


def find_language(name: str) -> Language:
    """Raises InvalidRequest for one that the tool does not have."""
    plain = name.strip().lower()
    found = LANGUAGES.get(ALIASES.get(plain, plain))
    if found is None:
        raise InvalidRequest(f"Unsupported language: {quote(name)}; there are {', '.join(LANGUAGES)}")
    return found


def make_line(language: Language, code: str, arguments: list[str], placed: str = "") -> str:
    """What bash runs; `placed` is a directory that has the program already."""
    names = " ".join(shlex.quote(each) for each in arguments)
    begin = f"run={shlex.quote(placed)}" if placed else f"run=$(mktemp -d) || exit\n{_write(language, code)}"
    return f"""{begin}
set -- {names}
if [ /mnt/data -ef /workspace ]; then cd /mnt/data; else cd /workspace; fi || exit
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD" NODE_PATH="$PWD/node_modules"
{_choose(language)}
status=$?
rm -rf "$run"
exit $status
"""


def _write(language: Language, code: str) -> str:
    end = f"END_{hashlib.sha256(code.encode()).hexdigest()[:16]}"
    return f"cat > \"$run/{language.file}\" <<'{end}' || exit\n{code}\n{end}"


def _choose(language: Language) -> str:
    """Runs it by the first program that there is; says which are missing."""
    lines = [
        f"{'elif' if number else 'if'} command -v {program} > /dev/null; then {line}"
        for number, (program, line) in enumerate(language.ways)
    ]
    wanted = " or ".join(program for program, _ in language.ways)
    missing = shlex.quote(f"this environment has no {wanted}, which this language needs")
    return "\n".join([*lines, f"else echo {missing} >&2; (exit {NO_PROGRAM}); fi"])
