"""The kernels that an image declares: read from its root file system, and from nothing that runs."""

from __future__ import annotations

import functools
import os
import posixpath
from pathlib import Path
from typing import Final

from kernels.images.packages import ADDED
from kernels.images.reading import ImageReader
from kernels.kernelspec import MOST_BYTES, OURS, Kernelspec, is_name, parse_kernelspec
from kernels.languages import PYTHON
from kernels.oci.safe_open import open_beneath

MOST_KERNELS: Final = 20
_KEPT: Final = 64
_DENO: Final = "/usr/local/bin/deno"
"""Where the guest looks for it."""
_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_PLACES: Final = ("/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels", f"/{ADDED}/share/jupyter/kernels")


@functools.lru_cache(_KEPT)
def read_kernelspecs(root: str, python: str) -> tuple[Kernelspec, ...]:
    """Those of an unpacked image whose interpreter is `python`, by their names, but for Python's own.

    A root never changes, so each is read once: a few small files. The first of a name counts, as for Jupyter.
    """
    image, found = ImageReader(root), dict[str, Kernelspec]()
    own = posixpath.normpath(posixpath.join(python, "../..", "share/jupyter/kernels"))
    for place in dict.fromkeys((own, *_PLACES)):
        for name in sorted(image.list_names(place.strip("/"))):
            if name in found or name == OURS or not is_name(name):
                continue
            directory = f"{place}/{name}"
            text = image.read_text(f"{directory}/kernel.json".strip("/"), MOST_BYTES)
            spec = parse_kernelspec(name, text, directory, python)
            if spec is not None:
                found[name] = spec
    return tuple(found[name] for name in sorted(found))[:MOST_KERNELS]


@functools.lru_cache(_KEPT)
def find_runtimes(root: str, path: str) -> frozenset[str]:
    """Which of the runtimes that need no declaration an image has."""
    top, found = Path(root), {PYTHON}
    if _is_there(top, _DENO):
        found.add("deno")
    if any(_is_there(top, f"{place}/node") for place in [*path.split(":"), *_PATH] if place.startswith("/")):
        found.add("nodejs")
    return frozenset(found)


def _is_there(top: Path, path: str) -> bool:
    """A file or a link, which is not followed."""
    try:
        found = open_beneath(top, os.fsencode(path.strip("/")))
    except OSError:
        return False
    os.close(found)
    return True
