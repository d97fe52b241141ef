"""The inspector's command line, one process a request: `with_inspector.py TRANSPORT URL TOKEN COMMAND`.

It is run by the interpreter of its environment, which has Node.js beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

TRANSPORT, URL, TOKEN, COMMAND = sys.argv[1:5]
PLACE = Path(sys.executable).parent.parent
PACKAGE = PLACE / "node_modules/@modelcontextprotocol/inspector"
HTTP = [f"{URL}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]
STDIO = [COMMAND, "mcp", "--url", URL, "--token", TOKEN]


def inspect(*arguments: str) -> Any:
    target = HTTP if TRANSPORT == "http" else STDIO
    launcher = [str(PLACE / "bin/node"), str(PACKAGE / "clients/launcher/build/index.js"), "--cli"]
    done = subprocess.run([*launcher, *target, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def tools() -> None:
    found = inspect("--method", "tools/list")["tools"]
    assert {each["name"] for each in found} >= {"run_python", "undo", "read_file", "replay"}, found


def state() -> None:
    done = inspect("--method", "tools/call", "--tool-name", "run_python", "--tool-arg", "code=6 * 7")
    assert done["content"][0]["text"] == "42", done


def resources() -> None:
    assert len(inspect("--method", "resources/templates/list")["resourceTemplates"]) == 3


rows = {}
for step in (tools, state, resources):
    try:
        step()
        rows[step.__name__] = "works"
    except Exception:
        rows[step.__name__] = traceback.format_exc()
version = json.loads((PACKAGE / "package.json").read_text())["version"]
print(json.dumps({"client": f"inspector {version}", "steps": rows}))
