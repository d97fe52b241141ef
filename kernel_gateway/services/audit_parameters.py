"""What the audit log keeps of a request's parameters and of an answer: names and numbers, never content. Pure.

Code and commands become their length and SHA-256, which an execution's own record can be compared with; the bodies of
files become their length. Text under a name that is not known here becomes its length: a new member is hidden until
somebody has thought about it.
"""

from __future__ import annotations

from typing import Any


def shown(values: Any) -> dict[str, Any]:
    """Members of a body, a struct's or an object's, as the log keeps them; `None` members are left out."""
    return {}
