"""A small Python package as a wheel, made by hand: what a session without a way out can install."""

import io
import zipfile

NAME = "sandcell_greeting"
FILE = f"{NAME}-1.0-py3-none-any.whl"
OFFLINE = "pip config set global.no-index true && pip config set global.find-links /workspace"
"""A command for the session: pip takes packages from its files alone."""


def wheel() -> bytes:
    """The wheel; its module has `HELLO`."""
    about = f"{NAME}-1.0.dist-info"
    files = {
        f"{NAME}.py": "HELLO = 'hello from a package'\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return target.getvalue()
