"""The operations of Code Interpreter as botocore's own service model has them: the one of the newest boto3 we test.

The model is read from that client's environment, not from the boto3 beside the tests, so that what is held as the
measure is pinned with the client.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

from botocore.model import OperationModel, ServiceModel

FILES = (
    "botocore/data/bedrock-agentcore/2024-02-28/service-2.json.gz",
    "botocore/data/bedrock-agentcore-control/2023-06-05/service-2.json.gz",
)
TAGGING = {"TagResource", "UntagResource", "ListTagsForResource"}


@dataclass(frozen=True)
class Operation:
    """One operation and the requests that are meant for it."""

    model: OperationModel
    method: str
    path: re.Pattern[str]

    @property
    def name(self) -> str:
        return self.model.name


def operations(site_packages: Path) -> list[Operation]:
    """Every operation of Code Interpreter, of both planes."""
    found = []
    for file in FILES:
        service = ServiceModel(json.loads(gzip.decompress((site_packages / file).read_bytes())))
        for name in service.operation_names:
            if "CodeInterpreter" in name or name in TAGGING:
                found.append(operation(service.operation_model(name)))
    return found


def operation(model: OperationModel) -> Operation:
    """An operation with its path as a pattern: a label is one segment of the path as it was sent."""
    template = model.http["requestUri"].partition("?")[0]
    parts = re.split(r"\{[^}]+\}", template)
    return Operation(model, model.http["method"], re.compile("[^/?]+".join(map(re.escape, parts))))


def meant(known: list[Operation], method: str, target: str) -> Operation | None:
    """The operation that a request is for, by its method and its path as sent."""
    path = target.partition("?")[0]
    return next((one for one in known if one.method == method and one.path.fullmatch(path)), None)
