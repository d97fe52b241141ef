"""Environments with packages of a principal's own, as tests make them: a wheel that tries what one can, and calls."""

from __future__ import annotations

import time
from typing import Any

from tests.doubles.declared_kernels import make_packaged
from tests.doubles.package_index import PackageIndex, make_wheel
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

GUEST_WAS_HERE = "/tmp/guest-was-here"
HOSTILE = f"import os; open('{GUEST_WAS_HERE}-' + str(os.getuid()), 'w').close()"
FILES = {
    "own.py": b"GREETING = 'of my own'",
    "hostile.pth": HOSTILE.encode(),
    "sitecustomize.py": HOSTILE.encode(),
    "own_sample-1.0.data/scripts/greet-own": b"#!python\nimport own\nprint(own.GREETING)\n",
    **make_packaged("own-sample"),
}


def add_own(index: PackageIndex) -> None:
    """Put `own-sample` 1.0 into an index."""
    index.packages["own-sample"] = {"own_sample-1.0-py3-none-any.whl": make_wheel("own-sample", "1.0", FILES)}


def make(rest: Rest, name: str, *packages: str, **body: Any) -> dict[str, Any]:
    made: dict[str, Any] = rest.post("/v1/environments", name=name, image="indexed", packages=list(packages), **body)
    assert (made["status"], made["packages"], made["failure"]) == ("BUILDING", list(packages), "")
    return made


def await_build(rest: Rest, environment: str) -> dict[str, Any]:
    shown: dict[str, Any] = {}

    def ended() -> bool:
        time.sleep(0.4)  # it takes seconds, and each look costs the service some of them
        shown.update(rest.get(f"/v1/environments/{environment}"))
        return shown["status"] != "BUILDING"

    eventually(ended, deadline_seconds=600)
    return shown


def layers(service: RunningService) -> list[str]:
    return sorted(each.name for each in (service.data_dir / ".layers").iterdir() if each.name != ".lock")


def refusal(rest: Rest, path: str, **body: Any) -> tuple[int, str, str]:
    answer = rest.http.post(path, json=body)
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]
