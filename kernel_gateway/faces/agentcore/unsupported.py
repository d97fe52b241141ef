"""What the model has and Sandcell has not, and what to do instead. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_gateway.errors import InvalidRequest


def refuse(certificates: Sequence[Any] | None, file_systems: Sequence[Any] | None, network_mode: str = "") -> None:
    """Raises InvalidRequest for what is asked for and not to be had; an empty list asks for nothing."""
    if network_mode == "VPC":
        raise InvalidRequest(
            "networkConfiguration.networkMode: VPC is not offered here: use SANDBOX or PUBLIC; to reach chosen private "
            "hosts, let the operator declare an environment in mode ALLOWLIST, whose name is its identifier",
            field="networkConfiguration.networkMode",
        )
    if certificates:
        raise InvalidRequest(
            "certificates: there is no Secrets Manager here: write the certificate into the session with writeFiles "
            "and name it to your client (SSL_CERT_FILE, REQUESTS_CA_BUNDLE), or have it built into the environment",
            field="certificates",
        )
    if file_systems:
        raise InvalidRequest(
            "filesystemConfigurations: nothing can be mounted here: files of a session are kept in its workspace; for "
            "other data use writeFiles, or an execution role that the operator declares for an S3 prefix",
            field="filesystemConfigurations",
        )
