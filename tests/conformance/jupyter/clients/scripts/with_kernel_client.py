"""jupyter-kernel-client on a live kernel: Bearer on REST, the token in the query of the socket.

Arguments: the service's URL, an attach token, the session. Prints a JSON object: each step with what was seen.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from jupyter_kernel_client import JupyterKernelClient

URL, TOKEN, SESSION = sys.argv[1:4]
SECONDS = 120.0


def main() -> None:
    seen: dict[str, Any] = {}
    with JupyterKernelClient(server_url=URL, token=TOKEN, kernel_id=SESSION) as kernel:
        seen["id"] = kernel.id
        seen["shared"] = kernel.execute("print(agent + 1)", timeout=SECONDS)
        kernel._manager.client.shutdown()  # a message on the control channel; `stop` has closed the socket before
        seen["after a shutdown request"] = kernel.execute("print(agent + 1)", timeout=SECONDS)
        kernel.stop(shutdown_kernel=True, timeout=SECONDS)  # DELETE
    print(json.dumps(seen))


main()
