"""h11 connections whose time to read a line grows with the line, not with its square.

Two of h11's patterns try every way to share a run of blanks between two of their parts before they refuse a line: some
ten thousand blanks held the loop, and so every session, for seconds. Theirs are replaced by ones that read the same.
"""

from __future__ import annotations

import re

import h11
from h11 import _readers

_readers.header_field_re = re.compile(
    rb"(?P<field_name>[-!#$%&'*+.^_`|~0-9a-zA-Z]+):[ \t]*+(?P<field_value>([^\x00\s]+(?:[ \t]+[^\x00\s]+)*)?)[ \t]*"
)
_readers.chunk_header_re = re.compile(
    rb"(?P<chunk_size>[0-9A-Fa-f]{1,20})(?P<chunk_ext>;[^\n]*(?=\r\n))?[ \t]*+\r\n",
)


def open_connection(role: type[h11.CLIENT] | type[h11.SERVER], header_bytes: int) -> h11.Connection:
    """One end of a connection, whose heads may have that many bytes."""
    return h11.Connection(role, max_incomplete_event_size=header_bytes)
