"""What the guest reads from its command line, with the defaults of a real sandbox.

Parsed by hand: this runs before the first kernel starts, and argparse costs more than it gives here.
"""

from __future__ import annotations

import os

from . import processors

KERNEL_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ADDED_PACKAGES = "/opt/sandcell/packages"
"""Packages that were added to the image for its user's programs. Not for the guest: anybody may have named them."""
NO_VARIABLES = "{}"
NO_WAY_OUT = "SANDBOX"
"""The network mode in which nothing leaves the sandbox."""
NETWORK_MODES = (NO_WAY_OUT, "ALLOWLIST", "PUBLIC")


class Options:
    """Where things are and who the user is; tests point these elsewhere to run the guest without a sandbox."""

    def __init__(self) -> None:
        self.generation = 1
        self.vcpus = 1.0
        self.file_bytes = 0
        self.processes = 0
        self.netlink_sockets = 0
        self.python = "/usr/bin/python3"
        self.deno = "/usr/local/bin/deno"
        self.transport = "/run/sandcell"
        self.workspace = "/workspace"
        self.home = "/home/user"
        self.skeleton = "/etc/skel"
        self.user = 1000
        self.network = NO_WAY_OUT
        self.http_port = 3128
        self.role = ""
        self.region = "us-east-1"
        self.s3_port = 3129
        self.index = 0
        self.packages_port = 3130
        self.keep_packages = 0
        self.variables = NO_VARIABLES
        self.tls_port = 0
        self.tls_keys = "/run/sandcell-keys"
        self.await_keys = 0

    @property
    def processors(self) -> int:
        """How many processors programs are to believe in."""
        return processors.whole(self.vcpus)

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

    @property
    def relay_socket(self) -> str:
        """Where the gateway comes for what kernels say."""
        return f"{self.guest_directory}/relay.sock"

    @property
    def awake_mark(self) -> str:
        """The host makes this file once a sandbox that stood by goes on."""
        return f"{self.guest_directory}/awake"

    @property
    def user_base(self) -> str:
        """Where the user's packages lie: in the home, which goes with the sandbox, or in the workspace."""
        return f"{self.workspace}/.sandcell/packages" if self.keep_packages else f"{self.home}/.local"

    @property
    def has_added_packages(self) -> bool:
        """Whether packages were added to the image."""
        return os.path.isdir(ADDED_PACKAGES)

    def egress_socket(self, name: str) -> str:
        """Where the host listens for what leaves the sandbox: `http`, `s3` or `packages`."""
        return f"{self.transport}/egress/{name}.sock"

    def make_environment(self) -> dict[str, str]:
        """Everything a kernel or a command finds in its environment: what the image sets, and before that our own."""
        image = self._read_variables()
        path = image.pop("PATH", "") or KERNEL_SEARCH_PATH
        if self.has_added_packages:
            path = f"{path}:{ADDED_PACKAGES}/bin"
        return {
            "LANG": "C.UTF-8",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "ARROW_DEFAULT_MEMORY_POOL": "system",  # PyArrow's own takes 4 MB when pandas is imported
            **image,
            "HOME": self.home,
            "USER": "user",
            "PATH": f"{path}:{self.user_base}/bin",
            **({"PYTHONUSERBASE": self.user_base, "PIP_NO_COMPILE": "1"} if self.keep_packages else {}),
            **processors.variables(self.processors),
            **self._proxies(),
            **self._packages(),
            **(self._s3() if self.role else {}),
        }

    def _read_variables(self) -> dict[str, str]:
        """What the image sets, which is nothing for most."""
        if self.variables == NO_VARIABLES:
            return {}
        import json  # noqa: PLC0415 - it takes as long as Python's own start

        found: dict[str, str] = json.loads(self.variables)
        return found

    def _proxies(self) -> dict[str, str]:
        """Where programs look for their way out; a server in the sandbox itself is reached without one."""
        proxy, direct = f"http://127.0.0.1:{self.http_port}", "localhost,127.0.0.1,::1"
        return {
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), direct),
        }

    @property
    def has_index_port(self) -> bool:
        """Whether the guest answers for a package index: the operator's, or for want of any network."""
        return bool(self.index) or self.network == NO_WAY_OUT

    @property
    def index_address(self) -> str:
        """The package index as pip and uv find it."""
        return f"http://127.0.0.1:{self.packages_port}/simple/"

    def _packages(self) -> dict[str, str]:
        """How pip and uv install: from the index, if there is one to name, and where the user may.

        pip shows why a connection failed when it tries again, and only then: so without a network it does once.
        """
        index = dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), self.index_address)
        return {
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_BREAK_SYSTEM_PACKAGES": "1",  # what the image says of its own, which is read-only anyway
            **(index if self.has_index_port else {}),
            **({"PIP_RETRIES": "1", "UV_HTTP_RETRIES": "0"} if self.network == NO_WAY_OUT else {}),
        }

    def _s3(self) -> dict[str, str]:
        """The execution role, as every AWS client reads it. The keys are no keys: the host signs with its own."""
        return {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.s3_port}",
            "AWS_ACCESS_KEY_ID": "SANDCELLPLACEHOLDER",
            "AWS_SECRET_ACCESS_KEY": "placeholder-the-host-signs",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "SANDCELL_S3_URI": self.role,
        }


def parse_options(arguments: list[str]) -> Options:
    """Read `--name value` pairs; anything unknown or malformed ends the guest with a sentence."""
    options = Options()
    pairs = iter(arguments)
    for flag in pairs:
        name, value = flag.removeprefix("--").replace("-", "_"), next(pairs, None)
        if not flag.startswith("--") or name not in vars(options):
            raise SystemExit(f"guest: unknown option {flag}")
        if value is None:
            raise SystemExit(f"guest: {flag} needs a value")
        try:
            setattr(options, name, type(getattr(options, name))(value))
        except ValueError:
            raise SystemExit(f"guest: {flag} cannot be {value!r}") from None
    if options.network not in NETWORK_MODES:
        raise SystemExit(f"guest: --network is one of {', '.join(NETWORK_MODES)}, not {options.network!r}")
    return options
