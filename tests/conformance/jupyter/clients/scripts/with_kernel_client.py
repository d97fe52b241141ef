"""jupyter-kernel-client on a live kernel: Bearer on REST, the token in the query of the socket.

Arguments: the service's URL, an attach token, the session. Prints a JSON object: each step with what was seen.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pandas as pd
from jupyter_kernel_client import JupyterKernelClient

URL, TOKEN, SESSION = sys.argv[1:4]
SECONDS = 120.0


def exchange_variables(kernel: JupyterKernelClient) -> dict[str, Any]:
    """Values that were sent, as code sees them and as they come back; a frame that code made; what there is."""
    sent = {"sent_text": "it's", "sent_list": [1, {"a": 2}], "sent_frame": pd.DataFrame({"x": [1, 2]})}
    for name, value in sent.items():
        kernel.set_variable(name, value)
    printed = kernel.execute("print(sent_text, sent_list, int(sent_frame['x'].sum()))", timeout=SECONDS)["outputs"]
    kernel.execute("made = sent_frame * 2", timeout=SECONDS)
    return {
        "seen by code": "".join(each["text"] for each in printed),
        "back": [kernel.get_variable("sent_text"), kernel.get_variable("sent_list")],
        "made": kernel.get_variable("made").to_dict("list"),
        "names": sorted(each["name"] for each in kernel.list_variables() if each["name"].startswith("sent")),
    }


def main() -> None:
    seen: dict[str, Any] = {}
    with JupyterKernelClient(server_url=URL, token=TOKEN, kernel_id=SESSION) as kernel:
        seen["id"] = kernel.id
        seen["shared"] = kernel.execute("print(agent + 1)", timeout=SECONDS)
        shown = kernel.execute("import ipywidgets; ipywidgets.IntSlider(3)", timeout=SECONDS)["outputs"]
        seen["widget"] = sorted(shown[0]["data"])
        seen["variables"] = exchange_variables(kernel)
        kernel._manager.client.shutdown()  # a message on the control channel; `stop` has closed the socket before
        seen["after a shutdown request"] = kernel.execute("print(agent + 1)", timeout=SECONDS)
        kernel.stop(shutdown_kernel=True, timeout=SECONDS)  # DELETE
    print(json.dumps(seen))


main()
