"""The configuration with which JupyterLab shows the kernels of a Sandcell service, and keeps them when it ends.

A Jupyter server that is pointed at a gateway lists only the kernels that it started itself there, and deletes them when
it stops. This configuration takes up every kernel that the token may see, and lets go of all of them at the end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILE: Final = "jupyter_server_config.py"
"""What every Jupyter server looks for in the directories of JUPYTER_CONFIG_PATH."""

_TEXT: Final = '''\
"""Written by `sandcell attach`: shows the kernels of that service in JupyterLab, and leaves them alone at its end."""

from jupyter_server.gateway.gateway_client import gateway_request
from jupyter_server.gateway.managers import GatewayMappingKernelManager
from tornado.escape import json_decode


class KernelsOfTheService(GatewayMappingKernelManager):
    async def list_kernels(self, **kwargs):
        answer = await gateway_request(self.kernels_url, method="GET")
        for kernel in json_decode(answer.body):
            if kernel["id"] not in self._kernels:
                await self.start_kernel(kernel_id=kernel["id"])
        return await super().list_kernels(**kwargs)

    async def shutdown_all(self, now=False):
        self._kernels.clear()


c = get_config()
c.ServerApp.kernel_manager_class = KernelsOfTheService
c.GatewayClient.url = {url!r}
c.GatewayClient.auth_token = {token!r}
'''


def write(directory: Path, url: str, token: str) -> Path:
    """Write the configuration into this directory, for its owner's eyes only; the token is in it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    file = directory / FILE
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(_TEXT.format(url=url, token=token))
    return file
