"""Open WebUI's own code execution by Jupyter, as its server calls it: `with_open_webui.py URL TOKEN`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.metadata import version

os.environ |= {"WEBUI_AUTH": "False", "DATA_DIR": "."}  # what its server is configured by

from open_webui.utils.code_interpreter import execute_code_jupyter

URL, TOKEN = sys.argv[1:3]
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


async def main() -> None:
    report = {
        "client": f"open-webui {version('open-webui')}",
        "value": await execute_code_jupyter(URL, "print('shown')\n6 * 7", TOKEN, timeout=120),
        "error": await execute_code_jupyter(URL, "1/0", TOKEN, timeout=120),
        "figure": await execute_code_jupyter(URL, FIGURE, TOKEN, timeout=120),
        "denied": await execute_code_jupyter(URL, "1", "x" * 43, timeout=120),
        "late": await execute_code_jupyter(URL, "import time; time.sleep(600)", TOKEN, timeout=1),
    }
    print(json.dumps(report))


asyncio.run(main())
