"""What the guest is told by its command line, with the defaults of a real sandbox.

Parsed by hand: this runs before the first kernel starts, and argparse costs more than it gives here.
"""

from __future__ import annotations

import math

KERNEL_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Options:
    """Where things are and who the user is; tests point these elsewhere to run the guest without a sandbox."""

    def __init__(self) -> None:
        self.generation = 1
        self.vcpus = 1.0
        self.python = "/usr/bin/python3"
        self.transport = "/run/sandcell"
        self.workspace = "/workspace"
        self.home = "/home/user"
        self.skeleton = "/etc/skel"
        self.user = 1000

    @property
    def guest_directory(self) -> str:
        """Root's alone: the HTTP socket."""
        return f"{self.transport}/guest"

    @property
    def kernel_directory(self) -> str:
        """The user's: connection files and the kernel's sockets."""
        return f"{self.transport}/kernel"

    @property
    def http_socket(self) -> str:
        return f"{self.guest_directory}/http.sock"

    def environment(self) -> dict[str, str]:
        """Everything a kernel or a command finds in its environment."""
        threads = str(max(1, math.ceil(self.vcpus)))
        return {
            "HOME": self.home,
            "USER": "user",
            "LANG": "C.UTF-8",
            "PATH": f"{KERNEL_SEARCH_PATH}:{self.home}/.local/bin",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "NUMEXPR_NUM_THREADS": threads,
        }


def parse_options(arguments: list[str]) -> Options:
    """Read `--name value` pairs; anything unknown or malformed ends the guest with a sentence."""
    options = Options()
    pairs = iter(arguments)
    for flag in pairs:
        name, value = flag.removeprefix("--"), next(pairs, None)
        if not flag.startswith("--") or name not in vars(options):
            raise SystemExit(f"guest: unknown option {flag}")
        if value is None:
            raise SystemExit(f"guest: {flag} needs a value")
        try:
            setattr(options, name, type(getattr(options, name))(value))
        except ValueError:
            raise SystemExit(f"guest: {flag} cannot be {value!r}") from None
    return options
