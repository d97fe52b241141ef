#!/usr/bin/env python3
"""What is known of the image `data`: whether it was tried as it is now, how large it is, and what is in it.

`record` is for `make test-data`, after its tests have passed: it writes environments/data/built.json from the built
image. `check` says by its exit status whether recipe, lock and tests are those that passed then; .ci/run asks it.
`pack` exports both images, as root, and writes down how large the files are: environments/packed.json. All need nothing
but Python and the `sandcell` beside it, and scripts/docs.py takes the tables of sizes and libraries from here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
RECIPE = REPOSITORY / "environments" / "data"
BUILT = RECIPE / "built.json"
PACKED = REPOSITORY / "environments" / "packed.json"
IMAGES = ("python", "data")
TESTS = REPOSITORY / "tests" / "integration" / "environments" / "data"
HEADER = "library | here | {} | note"
LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def tried_files() -> list[Path]:
    """All that decides what the image is and what its tests hold it to."""
    finish = tomllib.loads((RECIPE / "environment.toml").read_text())["finish_with"]
    recipe = [RECIPE / name for name in ("environment.toml", "requirements.txt", "finish.sh")]
    return [*recipe, RECIPE.parent / finish / "finish.sh", *sorted(TESTS.glob("*.py"))]


def fingerprint() -> str:
    """Of those files, as they are now."""
    found = hashlib.sha256()
    for path in tried_files():
        content = path.read_bytes()
        found.update(f"{path.relative_to(REPOSITORY)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def read_built() -> dict[str, Any]:
    """Sizes and versions of the build that was tried last."""
    return json.loads(BUILT.read_text()) if BUILT.exists() else {}


def record() -> None:
    """Write down the build that has just been tried."""
    build = (_data_directory() / "environments/data/current").resolve()
    sizes = json.loads((build / "sizes.json").read_text())
    installed = dict(_read_status((build / "root/var/lib/dpkg/status").read_text()))
    debian = {name: installed[name] for name in sorted(debian_packages())}
    content = {**sizes, "debian_packages": len(installed), "debian": debian, "tried": fingerprint()}
    BUILT.write_text(json.dumps(content, indent=1) + "\n")


def pack() -> None:
    """Export both images, as they are built, and write down the sizes of the files."""
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as place:
        for name in IMAGES:
            file = Path(place, f"{name}.tar")
            export = [str(Path(sys.executable).with_name("sandcell")), "environments", "export", name, str(file)]
            subprocess.run(export, check=True)
            sizes[name] = file.stat().st_size
            file.unlink()
            PACKED.write_text(json.dumps(sizes, indent=1) + "\n")


def _data_directory() -> Path:
    return Path(os.environ.get("SANDCELL_DATA_DIR", REPOSITORY / ".sandcell"))


def _read_status(status: str) -> Iterator[tuple[str, str]]:
    for found in re.finditer(r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)\n", status, re.MULTILINE):
        yield found[1], found[2]


def debian_packages() -> list[str]:
    """Those that the recipe names."""
    return tomllib.loads((RECIPE / "environment.toml").read_text())["packages"]


def requirements() -> list[str]:
    """Those that requirements.in names, as they are written there."""
    lines = (line.partition("#")[0].strip() for line in (RECIPE / "requirements.in").read_text().splitlines())
    return [re.split(r"[<>=!~\[]", line)[0] for line in lines if line]


def normalised(name: str) -> str:
    """A distribution's name as PyPI compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


def compared() -> dict[str, Any]:
    """compared.toml, the names of each service's list as a set."""
    read = tomllib.loads((RECIPE / "compared.toml").read_text())
    read["services"] = {service: set(names.split()) for service, names in read["services"].items()}
    return read


def library_lines() -> list[tuple[str, ...]]:
    """A line for each library that is here by its name or that a service lists: version, who has it, why not here."""
    lock = dict(LOCKED.findall((RECIPE / "requirements.txt").read_text()))
    debian, lists = read_built().get("debian", {}), compared()
    shown = {normalised(name): name for name in requirements()}
    for names in lists["services"].values():
        shown |= {name: name for name in names if name not in shown}
    for here in lists["instead"].values():
        shown.pop(here, None)
    lines = []
    for key, name in sorted(shown.items()):
        source = lists["instead"].get(key, key)
        version = lock.get(source) or debian.get(source, "")
        note = "" if source == key else f"{'Debian' if source in debian else 'PyPI'}'s `{source}`"
        who = ("yes" if key in names else "" for names in lists["services"].values())
        lines.append((f"`{name}`", version or "no", *who, note if version else lists["missing"][key]))
    return lines


def header() -> str:
    return HEADER.format(" | ".join(compared()["services"]))


def tool_lines() -> list[tuple[str, str]]:
    """Debian's packages that the recipe names, but for those of the other table."""
    debian, others = read_built().get("debian", {}), set(compared()["instead"].values())
    return [(f"`{name}`", debian.get(name, "")) for name in sorted(debian_packages()) if name not in others]


def missing_lines() -> list[tuple[str, str]]:
    """What is looked for and not here, with the reason."""
    return list(compared()["also-missing"].items())


def size_lines() -> list[tuple[str, ...]]:
    """What a build of each image takes, and what it gives."""
    folder, packed = RECIPE.parent, json.loads(PACKED.read_text())
    built = [json.loads((folder / name / "built.json").read_text()) for name in IMAGES]
    locks = [LOCKED.findall((folder / name / "requirements.txt").read_text()) for name in IMAGES]
    return [
        ("to download", *(_megabytes(each["download_bytes"]) for each in built)),
        ("on disk", *(_megabytes(each["disk_bytes"]) for each in built)),
        (
            "packed, by `sandcell environments export`",
            *(_megabytes(packed[name]) if name in packed else "" for name in IMAGES),
        ),
        ("Python packages", *(str(len(each)) for each in locks)),
        ("Debian packages", *(str(each.get("debian_packages", "")) for each in built)),
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def main(arguments: list[str]) -> int:
    if arguments == ["record"]:
        record()
        return 0
    if arguments == ["pack"]:
        pack()
        return 0
    if arguments == ["check"]:
        return 0 if read_built().get("tried") == fingerprint() else 1
    sys.stderr.write("data_image.py: check, record or pack\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
