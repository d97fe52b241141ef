"""A Jupyter server with the configuration of `sandcell attach`: what its kernel picker is given, and that it ends.

Arguments: the service's URL, an attach token, the session, the directory of the configuration. Prints a JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from lab import Lab


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        lab = Lab(Path(home), {"JUPYTER_CONFIG_PATH": sys.argv[4]})
        async with lab:
            kernels = json.loads((await lab.ask("GET", "/api/kernels")).body)
            print(json.dumps({"picker": [each["id"] for each in kernels], "exit": await lab.stop()}))


asyncio.run(main())
