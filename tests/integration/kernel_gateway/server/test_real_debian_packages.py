"""Real packages of Debian's over the image `python`: what their scripts do is there, and they do their work.

It takes minutes, and the servers of Debian's packages.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import png
import pytest

from sandcell import Client
from tests import leftovers
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

FILE = """
[maps]
image = "python"
apt = ["graphviz", "gdal-bin", "nano", "fonts-dejavu-core", "fontconfig"]
"""
DRAW = """
import base64, subprocess
drawn = subprocess.run(["dot", "-T{format}"], input=b"digraph {{ a -> b; b -> c [label=after] }}", capture_output=True)
assert drawn.returncode == 0, drawn.stderr
print(base64.b64encode(drawn.stdout).decode())
"""


def find_opened() -> str:
    """The setting `egress_private` for a Debian mirror at an address that is not public, as some networks have it."""
    addresses = {str(entry[4][0]) for entry in socket.getaddrinfo("deb.debian.org", 80, type=socket.SOCK_STREAM)}
    return ",".join(f"{each}:80" for each in addresses if not ipaddress.ip_address(each).is_global and ":" not in each)


@pytest.fixture(scope="module")
def session(
    environments_dir: Path, make_service: Callable[..., RunningService], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Client, str]]:
    place = tmp_path_factory.mktemp("maps")
    place.chmod(0o755)
    images, file = place / "environments", place / "environments.toml"
    images.mkdir()
    (images / "python").symlink_to((environments_dir / "python").resolve())
    file.write_text(FILE)
    variables = {
        "SANDCELL_DATA_DIR": str(place / "data"),
        "SANDCELL_ENVIRONMENTS_DIR": str(images),
        "SANDCELL_ENVIRONMENTS_FILE": str(file),
        "SANDCELL_RUN_DIR": str(leftovers.RUN_DIR),
        "SANDCELL_EGRESS_PRIVATE": find_opened(),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDCELL_")}
    built = subprocess.run(
        [sys.executable, "-m", "sandcell", "environments", "build", "maps"],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "a package's script failed" not in built.stderr
    service = make_service(environments_dir=images, environments_file=file)
    with service.client() as client:
        started = client.start_session("maps")
        yield client, started.id
        client.stop_session(started.id)


def printed(session: tuple[Client, str], code: str) -> str:
    client, session_id = session
    done = client.run(session_id, code)
    assert done.status == "ok", done
    return str(done.stdout)


def test_graphviz_draws(session: tuple[Client, str]) -> None:
    picture = base64.b64decode(printed(session, DRAW.format(format="png")))
    width, height, rows, _ = png.Reader(bytes=picture).asRGBA8()
    assert min(width, height) > 80
    colours = {bytes(row[place : place + 4]) for row in rows for place in range(0, len(row), 4)}
    assert len(colours) > 2, "lines and smoothed text on a ground"
    drawing = base64.b64decode(printed(session, DRAW.format(format="svg"))).decode()
    assert drawing.count("<ellipse") == 3
    assert ">after</text>" in drawing


def test_gdal_knows_its_formats_and_converts_one(session: tuple[Client, str]) -> None:
    said = printed(session, "!ogrinfo --formats")
    assert all(each in said for each in ("ESRI Shapefile", "GeoJSON", "GPKG"))
    code = """
open("points.csv", "w").write("name,x,y\\nhere,8.5,47.4\\nthere,7.4,46.9\\n")
!ogr2ogr -f GPKG points.gpkg points.csv -oo X_POSSIBLE_NAMES=x -oo Y_POSSIBLE_NAMES=y -a_srs EPSG:4326
!ogrinfo -so points.gpkg points
"""
    assert "Feature Count: 2" in printed(session, code)


def test_alternatives_fonts_and_libraries_are_found(session: tuple[Client, str]) -> None:
    assert Path(printed(session, "!readlink -f $(which editor)").strip()).name == "nano"
    assert "DejaVu Sans" in printed(session, "!fc-list : family")
    assert "libgvc.so" in printed(session, "!/sbin/ldconfig -p")
    assert printed(session, "!ls /var/cache/fontconfig | head -1").strip()


def test_the_image_says_what_is_in_it(session: tuple[Client, str]) -> None:
    details = session[0].get_image("maps")
    assert details.image.notes == []
    assert {"graphviz", "gdal-bin", "nano"} <= {each.name for each in details.packages if each.kind == "system"}
