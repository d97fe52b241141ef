"""What botocore knows of its services, read without the prose: a third of what a client of S3 takes of memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from botocore.loaders import JSONFileLoader


def without_prose(session: Any) -> None:
    """Let this botocore session read its models so; before its first client is made."""
    session.get_component("data_loader").file_loader = _Models()


class _Models(JSONFileLoader):
    """Plain dicts, too, where botocore's own are twice as large."""

    def load_file(self, file_path: str) -> dict[str, Any] | None:
        """The model at this path, to which `.json` or `.json.gz` is added; None when there is none."""
        for suffix, unpacked in ((".json", bytes), (".json.gz", gzip.decompress)):
            try:
                content = Path(file_path + suffix).read_bytes()
            except OSError:  # not there, or where this process may not look
                continue
            return json.loads(unpacked(content), object_pairs_hook=_said)  # type: ignore[no-any-return]
        return None


def _said(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: "" if name == "documentation" and isinstance(value, str) else value for name, value in pairs}
