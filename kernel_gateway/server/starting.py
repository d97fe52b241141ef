"""How `sandcell serve` begins, as root: look whether this host will do, prepare, then become the launcher.

Everything that can refuse a start is asked before anything is changed. Then this process is replaced (exec) by the
launcher, a program that knows sandboxes and nothing of HTTP, principals or SQL; the launcher starts the service
(`serving`) as a user without privileges and hands it the listening sockets. Settings, secrets among them, travel in
memory: they are on no command line and on no disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import structlog
from tornado.netutil import bind_sockets

import kernel_gateway
from kernel_gateway.errors import SettingInvalid, translated
from kernel_gateway.logs import configure_logs
from kernel_gateway.server import data_directory, doctor, sandboxes
from kernel_gateway.server.inherited import Inherited
from kernel_gateway.server.token_file import TokenFile, make_local_url, open_token_file
from kernel_gateway.setting import PREFIX
from kernel_gateway.settings import Settings, process_environment
from kernel_gateway.viewers import viewer_plan
from kernels import launcher
from kernels.environment import Environment
from kernels.images import contents
from kernels.launcher.checks import Bounds
from kernels.launcher.handover import in_memory
from kernels.launcher.plan import Plan, ServicePlan, TokenPlan
from kernels.oci.host import findings as host
from kernels.runtimes import open_runtime
from kernels.sandbox import RuntimeSettings
from sandcell.exits import REFUSED
from workspace_sync import open_store
from workspace_sync.errors import StoreUnusable

log = structlog.get_logger(__name__)
WITHOUT_ROOT = ("kubernetes",)
"""Runtimes whose sandboxes are made by somebody else: a service on them needs no privileges, and is to have none."""
_LAUNCHER = str(Path(launcher.__file__).with_name("__main__.py"))
_PLAIN = re.compile(r"PATH|HOME|LANG|LANGUAGE|TZ|TMPDIR|LD_PRELOAD|LD_LIBRARY_PATH|(LC|PYTHON|MALLOC)_?[A-Z_0-9]*")
_CODE = Path(kernel_gateway.__file__).resolve().parent.parent


def serve(settings: Settings) -> None:
    """Become the launcher; returns never, or raises our errors when the service cannot start."""
    configure_logs(settings)
    alone = os.geteuid() != 0 and settings.runtime in WITHOUT_ROOT
    if alone:
        settings = dataclasses.replace(settings, service_uid=os.geteuid())
    with data_directory.only_one(Path(settings.data_dir)) as lock:
        sockets = _bind(settings)
        text = sandboxes.read_environments_text(settings)
        environments = sandboxes.find_installed(settings, text)
        oci = sandboxes.make_runtime_settings(settings, environments.values(), service_uid=settings.service_uid)
        oci = msgspec.structs.replace(oci, gateways=_name_gateways(settings))
        _require_store_url(settings)
        asyncio.run(_require_host(oci))
        _require_images(environments, settings)
        data_directory.prepare(settings)
        for left in asyncio.run(doctor.remove_leftovers(settings)):
            log.warning("leftover", what=left)
        tokens = open_token_file()
        inherited = in_memory("sandcell-settings", _encode_inherited(settings, text, sockets, tokens))
        handed = [inherited, *(each.fileno() for each in sockets)]
        token = tokens.plan(make_local_url(settings, sockets[0].getsockname()[1]))
        plan = in_memory("sandcell-plan", _make_plan(settings, oci, environments, handed, token, alone=alone).encode())
        for descriptor in filter(lambda each: each >= 0, (lock.fileno(), plan, token.descriptor, *handed)):
            os.set_inheritable(descriptor, True)  # noqa: FBT003
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-I", _LAUNCHER, str(plan)])  # noqa: S606 - a list, and no shell


def _name_gateways(settings: Settings) -> str:
    """What gateways of one database know of each other on a host: who has their secret has their sessions anyway.

    Nothing where another process could not find the data directory by its name.
    """
    if not settings.gateway_address or not Path(settings.data_dir).is_absolute():
        return ""
    return hashlib.sha256(f"gateways {settings.secrets_key}".encode()).hexdigest()


async def _require_host(oci: RuntimeSettings) -> None:
    runtime = open_runtime(oci)
    try:
        host.require(await runtime.check())
    finally:
        await runtime.aclose()


def _require_images(environments: Mapping[str, Environment], settings: Settings) -> None:
    if not environments:
        raise SettingInvalid(
            f"no environment is built in {settings.environments_path}; run: sandcell environments build python"
        )
    for name, environment in sorted(environments.items()):
        if contents.find_change(environment):
            place = Path(environment.root).parent
            raise SettingInvalid(
                f"the image of {name} was changed after it was built: remove {place}, and build or import it again"
            )


def _require_store_url(settings: Settings) -> None:
    """Raises SettingInvalid. Whether the store can be used is for the service to find out, as the user that will."""
    with translated(), contextlib.suppress(StoreUnusable):
        open_store(settings.store_url).close()


def _bind(settings: Settings) -> list[socket.socket]:
    """Take the address first: a start that cannot have it leaves everything else alone."""
    try:
        # All addresses are those of both families, where the host has both.
        return bind_sockets(settings.port, None if settings.host == "::" else settings.host)
    except OSError as error:
        raise SettingInvalid(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; choose another host or port"
        ) from None


def _encode_inherited(settings: Settings, environments: str, sockets: list[socket.socket], tokens: TokenFile) -> bytes:
    numbers = [each.fileno() for each in sockets]
    values = dataclasses.asdict(settings)
    variables = [os.fsencode(f"{name}={value}") for name, value in _split_variables()[1].items()]
    return msgspec.json.encode(
        Inherited(values, environments, numbers, variables, tokens.path, tokens.holds_one(), _name_command())
    )


def _name_command() -> str:
    """What a person types for `sandcell` in the directory that this process was started in."""
    script = Path(sys.executable).with_name("sandcell")
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m kernel_gateway"
    if (found := shutil.which("sandcell")) and Path(found).resolve() == script.resolve():
        return "sandcell"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))


def _split_variables() -> tuple[dict[str, str], dict[str, str]]:
    """Variables that a process has to be started with, for its libraries and its interpreter; and all others.

    The others may be secrets (a store's credentials): they are handed over in memory. Our own are in the settings.
    """
    every = {name: value for name, value in process_environment().items() if not name.startswith(PREFIX)}
    plain = {name: value for name, value in every.items() if _PLAIN.fullmatch(name)}
    return plain, {name: value for name, value in every.items() if name not in plain}


def _make_plan(
    settings: Settings,
    oci: RuntimeSettings,
    environments: Mapping[str, Environment],
    handed: list[int],
    token: TokenPlan,
    *,
    alone: bool,
) -> Plan:
    return Plan(
        oci=oci,
        environments=str(settings.environments_path.absolute()),
        bounds=_compute_bounds(settings, oci, environments),
        service=ServicePlan(
            uid=settings.service_uid,
            command=[sys.executable, "-m", "kernel_gateway.server.serving", str(handed[0])],
            variables=_split_variables()[0],
            directory=str(_CODE),
            descriptors=handed,
            reach=_reach(settings),
            refusal=REFUSED,
            alone=alone,
        ),
        token=token,
        viewer=viewer_plan(settings, list_installation()),
    )


def _compute_bounds(settings: Settings, oci: RuntimeSettings, environments: Mapping[str, Environment]) -> Bounds:
    """What the environments ask for, or those may that principals make, is the most that any sandbox gets."""
    resources = [each.resources for each in environments.values()]
    return Bounds(
        memory_mb=max(settings.memory_mb_max, *(each.memory_mb for each in resources)),
        storage_mb=max(settings.storage_mb_max, *(each.storage_mb for each in resources)),
        pids=max(settings.pids, *(each.pids for each in resources)),
        vcpus=max(settings.vcpus_max, *(each.vcpus for each in resources)),
        sandboxes=2 * settings.live_sessions + 2 * settings.starts_at_once,
        runtimes=(oci.runtime, *oci.more_runtimes),
        layers=settings.added_images if settings.added_packages_images else 0,
        layer_bytes=settings.added_image_bytes,
    )


def _reach(settings: Settings) -> list[str]:
    """What the service must be able to reach: Python, this installation, its data."""
    data = [str(each.absolute()) for each in data_directory.list_places(settings) if each.exists()]
    return list(dict.fromkeys([*list_installation(), *data]))


def list_installation() -> list[str]:
    """Python, and all that it imports."""
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    path = [each for each in sys.path if each and Path(each).is_dir()]
    return list(dict.fromkeys([*python, str(_CODE), *path]))
