"""jupyter_client in a kernel's process, whose start leaves most of it out: every first import finds all of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.kernels.execution.running_kernel import LAUNCHER

DEFERRED_CLIENT = str(LAUNCHER.with_name("deferred_client.py"))
START = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("sandcell_deferred_client", {DEFERRED_CLIENT!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.defer()
from ipykernel import connect as kernel_connect, kernelapp
from jupyter_client.session import Session
first = Session
assert "jupyter_client.manager" not in sys.modules and "jupyter_client.client" not in sys.modules
"""
COMPLETE = """
import jupyter_client, jupyter_client.manager, jupyter_client.session, pickle
from jupyter_client import KernelManager, AsyncKernelManager, find_connection_file
assert KernelManager is jupyter_client.manager.KernelManager
assert jupyter_client.session.Session is first and jupyter_client.connect.find_connection_file is find_connection_file
assert kernel_connect.jupyter_client is jupyter_client is sys.modules["jupyter_client"]
assert not hasattr(jupyter_client, "nothing") and "run_kernel" in dir(jupyter_client)
assert pickle.loads(pickle.dumps(KernelManager)) is KernelManager and pickle.loads(pickle.dumps(first)) is first
"""
ORDERS = {
    "package": "import jupyter_client",
    "manager": "import jupyter_client.manager",
    "manager_by_name": "import importlib; importlib.import_module('jupyter_client.manager').AsyncKernelManager",
    "name_of_package": "from jupyter_client import AsyncKernelManager",
    "module_of_package": "from jupyter_client import kernelspec",
    "all_names": "from jupyter_client import *; KernelManager, MultiKernelManager",
    "provisioning": "from jupyter_client.provisioning import LocalProvisioner",
    "what_is_there": "import jupyter_client.session; jupyter_client.KernelManager",
    "traits": "kernelapp.IPKernelApp.blocking_class.default_value; kernelapp.IPKernelApp().blocking_class.__name__",
    "nbclient": "import nbclient",
    "nbconvert": "import nbconvert",
    "pickle": "import pickle; pickle.loads(b'cjupyter_client.manager\\nKernelManager\\n.')",
    "reload": """
import importlib, jupyter_client.manager
before = jupyter_client
assert importlib.reload(jupyter_client) is before
importlib.reload(jupyter_client.manager)
importlib.reload(jupyter_client)
""",
    "imported_again": """
import jupyter_client
old = jupyter_client
for name in [name for name in sys.modules if name.split(".")[0] == "jupyter_client"]:
    del sys.modules[name]
import jupyter_client.manager
assert jupyter_client is not old
sys.exit()
""",
    "threads": """
import threading
together, found = threading.Barrier(8), []
def load():
    together.wait()
    from jupyter_client import AsyncKernelManager
    from jupyter_client.manager import KernelManager
    found.append((KernelManager, AsyncKernelManager))
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(found)) == 1, found
""",
    "after_a_failure": """
sys.modules["jupyter_client.manager"] = None
try:
    import jupyter_client
    raise SystemExit("imported")
except ImportError:
    del sys.modules["jupyter_client.manager"]
""",
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_first_import_finds_all_of_it(order: str) -> None:
    code = START + ORDERS[order] + COMPLETE
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
