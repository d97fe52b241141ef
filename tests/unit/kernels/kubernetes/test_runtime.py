"""What the runtime reads out of what the cluster says of a pod, and how it tells its own from others'."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import RuntimeUnusable, SandboxFailed
from kernels.kubernetes.runtime import KubernetesRuntime, _runs, _why_not
from kernels.sandbox import KubernetesSettings, RuntimeSettings

READY = {"type": "Ready", "status": "True"}
RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}


def pod(phase: str = "Running", **more: Any) -> dict[str, Any]:
    status = {"phase": phase, "conditions": [READY], "containerStatuses": [RUNNING], **more}
    return {"metadata": {}, "status": status}


def test_a_pod_runs_while_its_container_does_on_a_node_that_is_there() -> None:
    assert _runs(pod())
    assert not _runs(pod("Pending", containerStatuses=[]))
    assert not _runs(pod("Succeeded"))
    assert not _runs(pod(conditions=[{"type": "Ready", "status": "False"}]))  # the node does not answer any more
    assert not _runs(pod(containerStatuses=[{"state": {"terminated": {"reason": "OOMKilled"}}}]))
    assert not _runs({**pod(), "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert not _runs({"metadata": {}})


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}}}]},
            "ErrImagePull",
        ),
        ({"conditions": [{"status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}, "0/3 nodes"),
        ({"message": "The node was low on resource"}, "low on resource"),
        ({}, ""),
    ],
)
def test_why_a_pod_does_not_run_is_in_the_clusters_words(status: dict[str, Any], said: str) -> None:
    assert said in _why_not({"metadata": {}, "status": status})


def make(directory: Path, **kubernetes: str) -> KubernetesRuntime:
    directory.mkdir(exist_ok=True)
    settings = KubernetesSettings(**kubernetes)  # type: ignore[arg-type]
    return KubernetesRuntime(RuntimeSettings("kubernetes", directory, directory, kubernetes=settings))


def test_a_service_has_a_name_of_its_own_that_stays(tmp_path: Path) -> None:
    one = make(tmp_path / "one").service
    assert make(tmp_path / "one").service == one
    assert make(tmp_path / "other").service != one


def test_without_a_configuration_the_check_says_what_to_set(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = make(tmp_path, config=str(tmp_path / "missing"))
        (finding,) = await runtime.check()
        assert (finding.ok, finding.required, finding.remedy) == (False, True, "set kubernetes_config")
        with pytest.raises(RuntimeUnusable, match="cannot be used"):
            await runtime.list()
        for name in ("../../etc", "sandbox", "0BDDC141-7F55-4B6C-8F0D-D70B7EB43059"):
            with pytest.raises(SandboxFailed, match="UUID"):
                await runtime.destroy(name)
        await runtime.aclose()

    asyncio.run(run())
