"""What the guest's server is imported without, and that it has what it takes of that all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

START = """
import http.client as real_http, importlib, sys
import tornado.log as real_log
real = real_http.responses, real_log.app_log, real_log.gen_log, real_log.access_log
for name in [name for name in sys.modules if name.split(".")[0] in ("http", "email", "tornado", "ssl", "asyncio")]:
    del sys.modules[name]
from kernels.guest.left_out import leave_out
"""
SERVER = """
import tornado.httpserver, tornado.httputil, tornado.web
web = tornado.web
assert (tornado.httputil.responses, web.app_log, web.gen_log, web.access_log) == real
absent = "tornado.template", "tornado.locale", "tornado.process", "tornado.log", "http.client"
assert all(sys.modules[name].__spec__ is None for name in absent)
assert not {"email.parser", "email.message", "multiprocessing.context"} & (set(sys.modules) - before)
"""


@pytest.mark.parametrize(
    ("tls", "check"),
    [
        (False, "assert sys.modules['ssl'].__spec__ is None and '_ssl' not in set(sys.modules) - before"),
        (True, "import ssl; assert ssl.SSLContext.wrap_socket and tornado.iostream.ssl is ssl"),
    ],
)
def test_the_server_has_what_it_takes_of_what_is_left_out(tls: bool, check: str) -> None:
    code = f"{START}\nbefore = set(sys.modules)\nleave_out(tls={tls})\n{SERVER}\n{check}"
    repository = Path(__file__).parents[4]
    ran = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
