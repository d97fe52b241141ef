"""The Python client under its former name, for one release: it is the distribution `sandcell` now."""

from __future__ import annotations

import warnings

from sandcell import *  # noqa: F403 - all of it, under its former name

warnings.warn(
    "kernel_gateway.client is the package sandcell now, and this name goes with the next release",
    DeprecationWarning,
    stacklevel=2,
)
