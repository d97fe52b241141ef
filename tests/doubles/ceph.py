"""Ceph's object gateway over a cluster of its own, one monitor and one store: a server that copies without reading.

Its packages (`scripts/install long`) come with the benchmarks and the long tests alone: they take 300 MB.
"""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.doubles.server_process import answers, free_port, server_process

SETTINGS = """[global]
fsid = {cluster}
mon_host = [v2:127.0.0.1:{monitor_port}]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
keyring = {top}/keyring
log_file = {top}/$name.log
admin_socket =
mon_data = {top}/mon
mon_data_avail_crit = 1
mon_allow_pool_size_one = true
osd_data = {top}/osd
osd_objectstore = bluestore
bluestore_block_size = {room_bytes}
osd_memory_target = 1073741824
osd_pool_default_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
rgw_frontends = beast endpoint=127.0.0.1:{port}
rgw_data = {top}/rgw
rgw_gc_obj_min_wait = 1
rgw_gc_processor_period = 10
"""
ROOM_BYTES = 20 << 30
"""Of a file with holes."""
CAPABILITIES = {
    "mon.": [("mon", "allow *")],
    "client.admin": [("mon", "allow *"), ("osd", "allow *")],
    "osd.0": [("mon", "allow profile osd"), ("osd", "allow *")],
}
COMMAND_SECONDS = 120
READY_SECONDS = 120


@contextlib.contextmanager
def ceph_gateway(directory: Path, access_key: tuple[str, str]) -> Iterator[int]:
    """Yields the gateway's port on loopback; its three processes are stopped at the end."""
    run = partial(_run, directory)
    _prepare(directory, port := free_port(), run)
    key_id, secret = access_key
    with contextlib.ExitStack() as started:

        def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
            command = (name, "-c", "ceph.conf", *arguments, "-f")
            return started.enter_context(server_process(command, directory, f"{name}.said"))

        start("ceph-mon", "-i", "a")
        store = str(uuid.uuid4())
        run("ceph", "-c", "ceph.conf", "osd", "new", store)
        run("ceph-osd", "-c", "ceph.conf", "-i", "0", "--mkfs", "--osd-uuid", store)
        start("ceph-osd", "-i", "0")
        who = ("--uid", "tests", "--display-name", "tests", "--access-key", key_id, "--secret", secret)
        run("radosgw-admin", "-c", "ceph.conf", "user", "create", *who)
        gateway = start("radosgw", "-n", "client.admin")
        assert answers(gateway, port, READY_SECONDS), (directory / "radosgw.said").read_text()[-2000:]
        yield port


def _prepare(directory: Path, port: int, run: Callable[..., None]) -> None:
    """The files that a cluster of one monitor begins with."""
    cluster, monitor_port = str(uuid.uuid4()), free_port()
    for name in ("mon", "osd"):
        (directory / name).mkdir()
    settings = SETTINGS.format(
        cluster=cluster, top=directory, port=port, monitor_port=monitor_port, room_bytes=ROOM_BYTES
    )
    (directory / "ceph.conf").write_text(settings)
    run("ceph-authtool", "--create-keyring", "keyring")
    for name, capabilities in CAPABILITIES.items():
        may = [word for each in capabilities for word in ("--cap", *each)]
        run("ceph-authtool", "keyring", "-n", name, "--gen-key", *may)
    address = f"[v2:127.0.0.1:{monitor_port}]"
    run("monmaptool", "--create", "--addv", "a", address, "--fsid", cluster, "monmap")
    run("ceph-mon", "-c", "ceph.conf", "--mkfs", "-i", "a", "--monmap", "monmap", "--keyring", "keyring")


def _run(directory: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, timeout=COMMAND_SECONDS, check=False)
    assert done.returncode == 0, (command, done.stderr[-2000:])
