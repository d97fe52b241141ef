"""Whether a request may leave: the session's policy and the operator's rules against a target. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.environment import Endpoint


@dataclass(frozen=True)
class OperatorRules:
    """What the operator of the service declared: endpoints that may be reached though their addresses are not public.

    They excuse the address only: an `ALLOWLIST` must name them as well, and `SANDBOX` reaches nothing.
    """

    private: tuple[Endpoint, ...] = ()
