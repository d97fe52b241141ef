"""Sandboxes on a real runtime, as the tests of the runtime have them."""

from __future__ import annotations

from tests.integration.oci.conftest import in_sandboxes, settings

__all__ = ["in_sandboxes", "settings"]
