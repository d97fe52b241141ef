"""What a credential is good for. Pure."""

from __future__ import annotations

from typing import Final, Literal

Scope = Literal["read", "run", "admin"]
SCOPES: Final[tuple[Scope, ...]] = ("read", "run", "admin")
"""What a credential is good for: each includes those before it. `admin` makes an administrator of no one else."""
