"""From a name to addresses, on threads of its own: a name server that does not answer holds up nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Final

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host name as text, in the order to try them; raises OSError when there are none.

A name with a final dot is absolute: no search domain is tried.
"""

THREADS: Final = 64
_free = threading.BoundedSemaphore(THREADS)


async def system_resolve(host: str, port: int) -> list[str]:
    """What this host's resolver says; raises OSError, also when too many names are being looked up.

    A look-up cannot be stopped. Its thread is one that does not keep the service from ending.
    """
    if not _free.acquire(blocking=False):
        raise socket.gaierror(socket.EAI_AGAIN, "too many names are being looked up, try again")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str], error: OSError | None) -> None:
        if answer.done():
            return
        if error:
            answer.set_exception(error)
        else:
            answer.set_result(found)

    def look_up() -> None:
        found, failure = [], None
        try:
            found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except (OSError, UnicodeError) as error:
            failure = error if isinstance(error, OSError) else OSError(str(error))
        finally:
            _free.release()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, list(dict.fromkeys(found)), failure)

    threading.Thread(target=look_up, name="resolver", daemon=True).start()
    return await answer
