"""Modules that a kernel's start leaves out: who has a stand-in and who imports them later find the same things."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.kernels.execution.running_kernel import LAUNCHER

DEFERRED_MODULES = str(LAUNCHER.with_name("deferred_modules.py"))
START = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("sandcell_deferred_modules", {DEFERRED_MODULES!r})
deferred = importlib.util.module_from_spec(spec)
spec.loader.exec_module(deferred)
end = deferred.defer()
import asyncio, asyncio.base_events, asyncio.selector_events, datetime
import ipykernel.kernelapp
import jupyter_client.jsonutil as dates
from tornado import concurrent
end()
for name in ("ssl", "_ssl", "asyncio.sslproto", "tornado.log", "dateutil.parser", "dateutil.tz"):
    assert name not in sys.modules, name
"""
USES = {
    "what_is_imported_later_is_the_module_itself": """
import ssl, tornado.log, dateutil.parser, dateutil.tz, asyncio.sslproto
for module in (ssl, tornado.log, dateutil.parser, dateutil.tz, asyncio.sslproto):
    assert module.__spec__ is not None and type(module).__name__ == "module", module
assert asyncio.selector_events.ssl.SSLSocket is ssl.SSLSocket
assert asyncio.base_events.sslproto.SSLProtocol is asyncio.sslproto.SSLProtocol
assert concurrent.app_log is tornado.log.app_log and tornado.log.LogFormatter
""",
    "a_stand_in_has_what_the_module_has_as_of_now": """
held = asyncio.selector_events.ssl
assert held.SSLWantReadError.__module__ == "ssl"
import ssl
ssl.SSLSocket = ssl.something = object()
assert held.SSLSocket is held.something is ssl.something
assert not hasattr(held, "nothing")
""",
    "names_that_a_package_has_after_its_import": """
import tornado
assert tornado.log.enable_pretty_logging.__module__ == "tornado.log" and asyncio.sslproto.SSLProtocol
assert tornado.log is sys.modules["tornado.log"]
""",
    "tls_over_asyncio": """
import ssl
async def handshake():
    context = ssl.create_default_context()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    try:
        await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=context, server_hostname="localhost")
    except (ssl.SSLError, ConnectionError) as error:
        return error
assert asyncio.run(handshake()) is not None
""",
    "dates_of_messages": """
utc = datetime.timezone.utc
assert dates.parse_date("2026-11-27T18:44:17.000123Z") == datetime.datetime(2026, 11, 27, 18, 44, 17, 123, utc)
assert dates.parse_date("2026-11-27T18:44:17+0100").utcoffset() == datetime.timedelta(hours=1)
assert "dateutil.parser" not in sys.modules
assert dates.parse_date("2026-11-27T18:44:17.1234Z").microsecond == 123400
assert dates.parse_date("2026-11-27") == "2026-11-27"
import warnings
warnings.simplefilter("ignore")
assert dates.parse_date("2026-11-27T18:44:17").tzinfo == dates.tzlocal()
""",
    "threads": """
import threading
together, found = threading.Barrier(8), []
def use():
    together.wait()
    found.append((asyncio.selector_events.ssl.SSLContext, asyncio.base_events.sslproto.SSLProtocol))
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(found)) == 1, found
""",
}


@pytest.mark.parametrize("use", USES)
def test_nobody_misses_what_is_left_out(use: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", START + USES[use]], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
