"""Attempts with trees and archives on the routes that hand files out.

No route reads an archive: one is a file like any other, and nothing on the host looks into it. One route makes them,
of whatever is in a workspace.
"""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family
from tests.escape.checks import archives as checks

HERE = "/workspace/archives"

BEFORE = f"""
import io, gzip, zipfile, tarfile
os.makedirs({HERE!r}, exist_ok=True)
os.chdir({HERE!r})
"""

ATTEMPTS = (
    Attempt(
        "have a zip bomb unpacked",
        BEFORE + "inner = io.BytesIO()\n"
        "with zipfile.ZipFile(inner, 'w', zipfile.ZIP_DEFLATED) as bomb: bomb.writestr('zeros', bytes(30_000_000))\n"
        "with zipfile.ZipFile('bomb.zip', 'w', zipfile.ZIP_DEFLATED) as bomb:\n"
        "    for number in range(50): bomb.writestr(f'../../{number}.zip', inner.getvalue())\n"
        "print(os.stat('bomb.zip').st_size < 10_000_000)",
        "said: True",
        check=lambda scene: checks.stays_a_file(scene, "bomb.zip"),
    ),
    Attempt(
        "have a gzip bomb unpacked on its way",
        BEFORE + "open('bomb.gz', 'wb').write(gzip.compress(bytes(50_000_000), 9)); print('made')",
        "said: made",
        check=lambda scene: checks.stays_a_file(scene, "bomb.gz"),
    ),
    Attempt(
        "have an archive unpacked over the host",
        BEFORE + "with tarfile.open('out.tar', 'w') as archive:\n"
        "    for name in ('/etc/cron.d/x', '../' * 30 + 'etc/cron.d/x'):\n"
        "        member = tarfile.TarInfo(name); member.size = 4\n"
        "        archive.addfile(member, io.BytesIO(b'evil'))\n"
        "print('made')",
        "said: made",
        check=lambda scene: checks.stays_a_file(scene, "out.tar"),
    ),
    Attempt(
        "have an upload unpacked on its way",
        "print('asking')",
        "said: asking",
        check=checks.uploads_are_taken_as_they_are,
    ),
    Attempt(
        "hold the service up with a deep tree",
        f"os.makedirs({HERE!r}, exist_ok=True); os.chdir({HERE!r})\n"
        "for _ in range(400): os.mkdir('d'); os.chdir('d')\n"
        "for number in range(300): os.mkdir(str(number))\n"
        "open('bottom', 'w').write('x'); print('made')",
        "said: made",
        check=checks.a_deep_tree_is_bounded,
    ),
    Attempt(
        "hold the service up with a wide tree",
        f"os.makedirs('{HERE}/wide'); os.chdir('{HERE}/wide')\n"
        "for number in range(1100): open(str(number), 'w').close()\n"
        "print('made')",
        "said: made",
        check=checks.a_wide_tree_comes_in_pages,
    ),
    Attempt(
        "ask for all of a workspace in one archive",
        BEFORE + "os.makedirs('all'); os.chdir('all')\n"
        "for name in (b'..\\\\..\\\\evil', b'C:\\\\x', b'NUL', b'a\\nb', b'\\xff'): open(name, 'wb').write(b'x')\n"
        "os.symlink('/etc/passwd', 'link'); os.truncate(os.open('huge', os.O_CREAT | os.O_WRONLY), 26_000_000)\n"
        "with zipfile.ZipFile('bomb.zip', 'w', zipfile.ZIP_DEFLATED) as bomb: bomb.writestr('zeros', bytes(900_000))\n"
        "print('made')",
        "said: made",
        check=checks.an_archive_holds_what_there_is,
    ),
)

FAMILY = Family("archives", "deep directories and zip bombs in the archive route", ATTEMPTS)
