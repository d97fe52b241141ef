"""A session that has run a bit of everything, and is over."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.running_service import RunningService

PLOT = """
import base64, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\\0" + bytes(v for x in range(300) for v in (x * 255 // 300, y, 120)) for y in range(150))
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 300, 150, 8, 2, 0, 0, 0))
png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
display({"image/png": base64.b64encode(png).decode(), "text/plain": "<a plot>"}, raw=True)
"""
TABLE = """
html = '<table border="1" class="dataframe"><thead><tr style="text-align: right;"><th></th><th>city</th><th>n</th></tr>'
html += '</thead><tbody><tr><th>0</th><td>Oslo</td><td>1.5</td></tr><tr><th>1</th><td>Bergen</td><td>2.25</td></tr>'
display({"text/html": "<div>" + html + "</tbody></table></div>", "text/plain": "city n"}, raw=True)
"""
CODE = (
    "x = 41\nprint(x + 1)",
    PLOT,
    TABLE,
    "def half(n):\n    return 1 / n\nhalf(0)",
    "from asyncio import sleep\nawait sleep(0)",
)


@pytest.fixture(scope="package")
def ended(service: RunningService) -> Iterator[str]:
    """The session's id."""
    with service.client() as client:
        with client.session("python") as session:
            for each in CODE:
                session.run(each)
            session.command("echo from the shell; exit 3")
        yield session.id


@pytest.fixture(scope="module")
def http(service: RunningService) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False) as client:
        yield client
