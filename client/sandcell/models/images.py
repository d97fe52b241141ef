"""Images: what environments are made from."""

from __future__ import annotations

import msgspec

from sandcell.models.environments import PackageInfo
from sandcell.models.model import Model


class ImageInfo(Model):
    """An image. `environments` are made from it: the host's by name, and your own by id.

    One with packages that were added has the name of the image below, and an `owner`: whose it is; administrators see
    those of all principals. What was found in it when it was built stands at empty values for one that an older version
    built. `languages` are those of the kernels that it declares, besides Python. `notes` say what is missing in it:
    packages whose script failed when they were installed.
    """

    digest: str
    name: str
    description: str = ""
    environments: list[str] = msgspec.field(default_factory=list)
    system: str = ""
    python_version: str = ""
    size_bytes: int = 0
    package_count: int = 0
    languages: list[str] = msgspec.field(default_factory=list)
    built_at: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    owner: str = ""


class ImageDetails(Model):
    """An image and its packages."""

    image: ImageInfo
    packages: list[PackageInfo] = msgspec.field(default_factory=list)
