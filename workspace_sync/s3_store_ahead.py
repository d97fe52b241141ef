"""Objects that are asked for before they are read, and given in the order in which they come.

One thread keeps a server busy so, and an object that is late holds back none that is there (over TLS only on a
connection that was used before: a new one has something to read at once, which is no answer).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import islice
from select import POLLIN, poll
from typing import BinaryIO

from workspace_sync.store import Item, Opened

MOST_ASKED = 8
"""Objects asked for and not read yet, a connection each."""
_AT_A_TIME = 2
"""Asked for before the next is given: connections are made one by one, and what is there does not wait for them."""


def ahead(
    wanted: Iterable[tuple[Item, str]],
    ask: Callable[[str], socket.socket | None],
    opened: Callable[[str, socket.socket], BinaryIO],
    get: Callable[[str], BinaryIO],
    silence_seconds: float,
) -> Generator[tuple[Item, Opened]]:
    """The objects wanted, by their keys, each with what opens it, which has to be called before the next is taken.

    What `ask` refuses, and what is not answered while nothing comes for so long, is opened by `get`.
    """
    left, asked, waiting = iter(wanted), dict[int, tuple[Item, str, socket.socket]](), poll()
    come: list[tuple[int, int]] = []
    try:
        while (more := list(islice(left, min(_AT_A_TIME, MOST_ASKED - len(asked))))) or asked:
            for item, key in more:
                connection = ask(key)
                if connection is None:
                    yield item, partial(get, key)
                else:
                    asked[connection.fileno()] = item, key, connection
                    waiting.register(connection, POLLIN)
            if asked and not come:
                come = waiting.poll(silence_seconds * 1000)
            if come:
                number = come.pop()[0]
                item, key, connection = asked.pop(number)
                waiting.unregister(number)
                yield item, partial(opened, key, connection)
            elif asked:
                item, key, connection = asked.pop(next(iter(asked)))
                waiting.unregister(connection)
                connection.close()
                yield item, partial(get, key)
    finally:
        for _, _, connection in asked.values():
            connection.close()
