"""Pods that are claimed: what a template has, and whose a pod is."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernels.environment import Environment
from kernels.errors import SandboxFailed
from kernels.kubernetes import claims, manifests
from kernels.kubernetes.runtime import KubernetesRuntime
from kernels.sandbox import KubernetesSettings, RuntimeSettings, SandboxSpec
from tests.doubles.scripted_cluster import ScriptedCluster

ENVIRONMENT = Environment("python", "/nowhere", "sha256:abc", image="python")
SPEC = SandboxSpec("0bddc141-7f55-4b6c-8f0d-d70b7eb43059", ENVIRONMENT, generation=3)
OTHER = SandboxSpec("0bddc141-7f55-4b6c-8f0d-d70b7eb43058", ENVIRONMENT)
NAME = manifests.name_of(SPEC.sandbox_id)


def script(directory: Path, **kubernetes: Any) -> tuple[KubernetesRuntime, ScriptedCluster]:
    settings = KubernetesSettings(**{"claims": True, "classes": {"python": "kata"}, **kubernetes})
    runtime = KubernetesRuntime(RuntimeSettings("kubernetes", directory, directory, kubernetes=settings))
    cluster = ScriptedCluster()
    runtime.cluster = cluster  # type: ignore[assignment]
    return runtime, cluster


def make_template(spec: SandboxSpec, **more: Any) -> dict[str, Any]:
    return claims.template("tag", spec, **{"image": "image:1", "runtime_class": "kata", "user": 1000, **more})


def test_a_template_restricts_its_pods_as_those_of_the_service_and_has_nothing_of_one_session() -> None:
    one = make_template(SPEC)
    pod = one["spec"]["podTemplate"]
    own = manifests.pod("tag", SPEC, image="image:1", runtime_class="kata", owner="uid", user=1000)
    differ = {name for name in own["spec"] if own["spec"][name] != pod["spec"][name]}
    assert differ == {"containers", "volumes"}
    (ours,), (container,) = own["spec"]["containers"], pod["spec"]["containers"]
    assert {name for name in ours if ours[name] != container[name]} == {"command", "volumeMounts"}
    assert {name for name in container if name not in ours} == {"stdin", "stdinOnce"}
    assert {key for volume in pod["spec"]["volumes"] for key in volume} == {"name", "emptyDir", "downwardAPI"}
    assert pod["metadata"]["labels"].items() >= manifests.policy()["spec"]["podSelector"]["matchLabels"].items()
    assert one["spec"]["networkPolicyManagement"] == "Unmanaged"
    assert SPEC.sandbox_id not in json.dumps(one)


def test_templates_are_called_by_what_they_hold() -> None:
    def name(spec: SandboxSpec, **more: Any) -> str:
        return str(make_template(spec, **more)["metadata"]["name"])

    assert name(SPEC) == name(msgspec.structs.replace(OTHER, generation=3))
    larger = replace(ENVIRONMENT, resources=replace(ENVIRONMENT.resources, memory_mb=4096))
    assert name(SPEC) != name(msgspec.structs.replace(SPEC, environment=larger))
    assert name(SPEC) != name(SPEC, image="image:2")


@pytest.mark.parametrize(
    ("runtime_class", "namespaced", "user"),
    [("", False, None), ("crun", False, None), ("gvisor", False, manifests.FIRST_USER), ("", True, 1000)],
)
def test_pods_have_one_user_only_where_their_node_does_not_count_it(
    runtime_class: str, namespaced: bool, user: int | None
) -> None:
    assert claims.find_user(runtime_class, namespaced=namespaced) == user


def test_an_image_whose_pods_would_share_a_user_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        runtime, cluster = script(tmp_path, classes={"data": "kata"})
        with pytest.raises(SandboxFailed, match="all the same user"):
            await runtime.create(SPEC)
        assert (cluster.secrets, cluster.custom, cluster.pods) == ({}, {}, {})

    asyncio.run(run())


def test_a_cluster_that_leaves_out_user_namespaces_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        runtime, cluster = script(tmp_path, classes={}, user_namespaces=True)
        create_pod = cluster.create_pod

        async def leave_out(manifest: dict[str, Any]) -> dict[str, Any]:
            spec = {name: each for name, each in manifest["spec"].items() if name != "hostUsers"}
            return await create_pod({**manifest, "spec": spec})

        await runtime.create(SPEC)
        cluster.create_pod = leave_out  # type: ignore[method-assign]
        cluster.pods.clear()
        with pytest.raises(SandboxFailed, match="user namespaces"):
            await runtime.create(OTHER)
        assert [each for each, _ in cluster.handed] == [
            cluster.secrets[NAME]["metadata"]["annotations"][claims.POD_UID]
        ]
        assert list(cluster.secrets) == [NAME]

    asyncio.run(run())


def test_a_pod_that_was_claimed_gets_its_keys_and_one_in_its_place_is_nobodys(tmp_path: Path) -> None:
    async def run() -> None:
        runtime, cluster = script(tmp_path)
        await runtime.create(SPEC)
        ((uid, line),) = cluster.handed
        told = json.loads(line)
        keys = manifests.read_keys(cluster.secrets[NAME])
        assert told == {"generation": 3, "keys": {name: keys[name].decode() for name in sorted(told["keys"])}}
        assert "gateway.key" not in told["keys"]
        assert uid == cluster.pods["adopted"]["metadata"]["uid"]
        assert await runtime.running(SPEC.sandbox_id)
        cluster.pods["adopted"]["metadata"]["uid"] = "of another pod"
        assert not await runtime.running(SPEC.sandbox_id)
        await runtime.destroy(SPEC.sandbox_id)
        assert (cluster.secrets, cluster.pods, cluster.custom["sandboxclaims"]) == ({}, {}, {})

    asyncio.run(run())


def test_templates_that_nobody_asks_for_go_unless_their_pool_was_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        runtime, cluster = script(tmp_path)
        await runtime.create(SPEC)
        await runtime.destroy(SPEC.sandbox_id)
        templates, pools = cluster.custom["sandboxtemplates"], cluster.custom["sandboxwarmpools"]
        (pool,) = pools.values()
        assert pool["metadata"]["ownerReferences"][0]["uid"] == templates[pool["metadata"]["name"]]["metadata"]["uid"]
        await runtime.list()
        assert len(templates) == 1
        monkeypatch.setattr("kernels.kubernetes.claimed_pods.UNUSED_SECONDS", 0)
        pool["spec"]["replicas"] = 2
        await runtime.list()
        assert len(templates) == 1
        pool["spec"]["replicas"] = 0
        await runtime.list()
        assert templates == {}

    asyncio.run(run())
