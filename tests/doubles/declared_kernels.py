"""An image with kernels of its own beside Python's: the image `python`, by hard links, and two kernelspecs more.

`shout` is a language of one word each line, on ipykernel's base class; `loud` is IPython with a variable set.
"""

from __future__ import annotations

import json
from pathlib import Path

from kernels.images.layer import link_root
from kernels.oci import environments

NAME = "many"
DIGEST = "sha256:" + "5e" * 32
PLACE = "usr/local/share/jupyter/kernels"
SHOUT = """
import os, time
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

class Shout(Kernel):
    implementation, implementation_version, banner = "shout", "1", "Shout"
    language_info = {"name": "shout", "mimetype": "text/plain", "file_extension": ".shout"}
    said = []

    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        word, _, rest = code.partition(" ")
        if word == "count":
            self.say(str(len(self.said)))
        elif word == "where":
            self.say(f"{os.getcwd()} {os.getuid()} {os.environ['GREETING']}")
        elif word == "leave":
            os._exit(int(rest))
        elif word == "wait":
            self.say("waiting")
            try:
                time.sleep(600)
            except KeyboardInterrupt:
                if rest != "quietly":
                    return self.fail("Stopped", "somebody was in a hurry")
        elif word == "fail":
            return self.fail("Hoarse", rest)
        else:
            self.said.append(code)
            self.say(code.upper())
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    def say(self, text):
        self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": text + "\\n"})

    def fail(self, name, value):
        error = {"ename": name, "evalue": value, "traceback": [f"{name}: {value}"]}
        self.send_response(self.iopub_socket, "error", error)
        return {"status": "error", "execution_count": self.execution_count, **error}

IPKernelApp.launch_instance(kernel_class=Shout)
"""
SPECS = {
    "shout": {
        "argv": ["python3", "{resource_dir}/kernel.py", "-f", "{connection_file}"],
        "display_name": "Shout",
        "language": "Shout",
        "env": {"GREETING": "hello ${USER}"},
    },
    "loud": {
        "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}", "--IPKernelApp.exec_lines=volume=11"],
        "display_name": "Python (loud)",
        "language": "python",
        "interrupt_mode": "message",
    },
    "gone": {"argv": ["no-such-program", "{connection_file}"], "display_name": "Gone", "language": "gone"},
    "deno": {"argv": ["python3", "{connection_file}"], "display_name": "Not Deno", "language": "javascript"},
    "python3": {"argv": ["python3", "{connection_file}"], "display_name": "Python 3", "language": "python"},
}


def make_packaged(package: str) -> dict[str, bytes]:
    """Files of a wheel, version 1.0 of `package`, that brings `shout` as packages on PyPI bring their kernels."""
    spec = {**SPECS["shout"], "argv": ["python", "-m", "shout_kernel", "-f", "{connection_file}"]}
    place = f"{package.replace('-', '_')}-1.0.data/data/share/jupyter/kernels/shout"
    return {"shout_kernel.py": SHOUT.encode(), f"{place}/kernel.json": json.dumps(spec).encode()}


def build_image(directory: Path, environments_dir: Path) -> Path:
    """A directory of environments with `python` and that image; needs root."""
    images = directory / "environments"
    images.mkdir()
    images.chmod(0o755)
    (images / "python").symlink_to((environments_dir / "python").resolve())
    base = environments.find_installed(images)["python"]
    target = environments.locate(images, NAME, DIGEST)
    target.mkdir(parents=True)
    link_root(Path(base.root), target / "root")
    for name, spec in SPECS.items():
        place = target / "root" / PLACE / name
        place.mkdir(parents=True)
        (place / "kernel.json").write_text(json.dumps(spec))
    (target / "root" / PLACE / "shout/kernel.py").write_text(SHOUT)
    environments.declare(target, name=NAME, digest=DIGEST, description="many kernels", python=base.python)
    environments.point(target.parent / "current", target.name)
    return images
