"""A real nginx before several gateways: the configuration of the docs, with ports of the tests' own."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.doubles.server_process import answers, free_port, server_process

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "how-to" / "gateways.md"
READY_SECONDS: Final = 120
AROUND: Final = """daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
"""


@contextlib.contextmanager
def nginx(ports: Sequence[int], directory: Path) -> Iterator[str]:
    """In turn to each of these ports of this host; yields its address."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("nginx is not installed: `make test` installs Debian's package nginx-light")
    port = free_port()
    block = _find_block()
    found = re.search(r"server 127[^ ;]*([^;]*);", block)
    assert found is not None
    servers = "".join(f"server 127.0.0.1:{each}{found[1]};\n" for each in ports)
    text = re.sub(r"server 127[^}]*", servers, block, count=1).replace("listen 8899;", f"listen 127.0.0.1:{port};")
    (directory / "nginx.conf").write_text(AROUND + text + "}\n")
    command = [program, "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", "stderr"]
    with server_process(command, directory, "log") as process:
        assert answers(process, port, READY_SECONDS), (directory / "log").read_text()
        yield f"http://127.0.0.1:{port}"


def _find_block() -> str:
    """What the docs say, so that it is what works."""
    found = re.search(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]
