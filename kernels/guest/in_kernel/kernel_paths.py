"""Where user code imports from: the working directory and the user's own packages, as in Jupyter.

Loaded by `kernel_main` from its directory, and used once all that a kernel needs is imported: nothing that code of an
earlier kernel has left in these directories takes part in the start of the next one. Python itself is started without
them, and so runs no `sitecustomize`, `usercustomize` or code in a `.pth` file of theirs.
"""

from __future__ import annotations

import glob
import os
import site
import sys

PACKAGES = ("site-packages", "dist-packages")


def add(last: str = "") -> None:
    """Put both before the packages of the image; the working directory first. The path `last` stays the last."""
    place = next((at for at, path in enumerate(sys.path) if os.path.basename(path) in PACKAGES), len(sys.path))
    if sys.flags.no_user_site:
        packages = site.getusersitepackages()
        sys.path.insert(place, packages)
        sys.path.extend(path for path in _read_pth_files(packages) if path not in sys.path)
        site.ENABLE_USER_SITE = True
    if "" not in sys.path:
        sys.path.insert(place, "")
    if last in sys.path:
        sys.path.remove(last)
        sys.path.append(last)


def _read_pth_files(packages: str) -> list[str]:
    """The directories that `.pth` files name, such as those of packages that are installed for editing."""
    found = []
    for file in sorted(glob.glob(os.path.join(glob.escape(packages), "*.pth"))):
        try:
            with open(file, encoding="utf-8", errors="replace") as lines:
                names = [line.strip() for line in lines if not line.startswith(("#", "import ", "import\t"))]
        except OSError:
            continue
        paths = [os.path.join(packages, name) for name in names if name and "\0" not in name]
        found += [path for path in paths if os.path.isdir(path)]
    return list(dict.fromkeys(found))
