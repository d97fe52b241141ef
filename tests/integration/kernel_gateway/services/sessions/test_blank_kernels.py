"""What a new kernel finds of the old one: its files and nothing that runs; and modules that lie beside the code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sandcell.models.commands import CommandRequest
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]

TRAPS = """
import os, site, sys
home, packages = os.path.expanduser("~"), site.getusersitepackages()
profile = home + "/.ipython/profile_default"
os.makedirs(profile + "/startup", exist_ok=True)
os.makedirs(home + "/elsewhere/editable", exist_ok=True)
leave = "import builtins; builtins.left = builtins.__dict__.setdefault('left', []) + [{!r}]\\n"
places = {
    "startup": profile + "/startup/00.py",
    "startup script": profile + "/startup/01.ipy",
    "configuration": profile + "/ipython_config.py",
    "kernel's configuration": profile + "/ipython_kernel_config.py",
    "code of a .pth file": packages + "/code.pth",
    "usercustomize": packages + "/usercustomize.py",
    "sitecustomize": packages + "/sitecustomize.py",
    "a package that the kernel imports": packages + "/ipykernel.py",
    "sitecustomize beside the code": "sitecustomize.py",
    "a module that the kernel imports": "ipykernel.py",
    "the debugger": "debugpy.py",
    "a module of Python's": "json.py",
    "the kernel's helper": "cell_usage.py",
}
for name, place in places.items():
    with open(place, "w") as file:
        file.write(leave.format(name))
with open(packages + "/paths.pth", "w") as file:
    file.write(home + "/elsewhere\\n")
with open(home + "/elsewhere/editable/__init__.py", "w") as file:
    file.write("answer = 42")
with open(packages + "/installed.py", "w") as file:
    file.write("answer = 43")
%store home
"""
LEFT = "import builtins; getattr(builtins, 'left', []), __import__('json').dumps([])"
NOT_OURS = """
import importlib.util
ours = ("kernel_main", "kernel_output", "kernel_paths", "variables", "boot")
[name for name in ours if importlib.util.find_spec(name)]
"""


async def blank(gateway: Gateway) -> None:
    session = await gateway.start()
    await modules(gateway, session)
    trapped = await gateway.run(session, TRAPS)
    assert trapped.status == "ok", trapped
    await gateway.services.sessions.restart(gateway.me, session.id)
    assert await gateway.text(session, LEFT) == "([], '[]')"
    assert (await gateway.run(session, LEFT, clear_context=True)).outputs[-1]["data"]["text/plain"] == "([], '[]')"
    assert await gateway.text(session, "import editable, installed; editable.answer, installed.answer") == "(42, 43)"
    await gateway.run(session, "%store -r home")
    assert await gateway.text(session, "home") == "'/home/user'"
    assert await gateway.text(session, "import cell_usage; left") == '["the kernel\'s helper"]'
    await full_disk(gateway, session)


async def modules(gateway: Gateway, session: Session) -> None:
    """As in Jupyter: what lies in the working directory can be imported, and nothing of the kernel's own files can."""

    async def content() -> None:
        files = [("helper.py", b"answer = 6 * 7"), ("package/__init__.py", b""), ("package/part.py", b"answer = 7")]
        assert await gateway.services.files.write_all(gateway.me, session.id, files) == ()

    await content()
    assert (
        await gateway.text(session, "import helper; from package import part; helper.answer, part.answer") == "(42, 7)"
    )
    written = "open('written.py', 'w').write('answer = 8'); import written; written.answer"
    assert await gateway.text(session, written) == "8"
    assert await gateway.text(session, NOT_OURS) == "[]"


async def full_disk(gateway: Gateway, session: Session) -> None:
    """A kernel starts where not a byte is left, and its code makes room."""
    fill = "fallocate -l $(($(stat -f -c '%a * %S' .))) full; dd if=/dev/zero of=rest bs=4096"
    filled = await gateway.services.commands.run(gateway.me, session.id, CommandRequest(fill))
    assert "No space left" in filled.stderr
    await gateway.services.sessions.restart(gateway.me, session.id)
    assert await gateway.text(session, "6 * 7") == "42"
    made = await gateway.run(session, "import os; os.remove('full'); open('note', 'w').write('room'); os.listdir('.')")
    assert made.status == "ok", made


def test_a_new_kernel_runs_nothing_of_the_old_one_and_starts_on_a_full_disk(on_gateway: OnGateway) -> None:
    on_gateway(blank)
