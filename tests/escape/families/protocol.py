"""Attempts of the family protocol."""

from __future__ import annotations

from tests.escape.attempt import Family

FAMILY = Family(
    "protocol", "the connection key, forged Jupyter messages, ZMQ sockets replaced, giant and malformed messages", ()
)
