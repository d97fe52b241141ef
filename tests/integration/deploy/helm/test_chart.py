"""The chart, rendered by Helm: what a gateway in a cluster may do, and what its values may be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.settings import Settings
from kernels.kubernetes import cluster as asked
from tests.helm import CHART, REPOSITORY, Helm

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def helm(environments_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(environments_dir.parent, tmp_path_factory.mktemp("helm"))


def pick(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


EVERYTHING: dict[str, Any] = {
    "secret": "made-by-the-operator",
    "store": "s3://bucket/prefix?endpoint_url=https://s3.example",
    "sandboxes": {"classes": {"python": "gvisor", "data": "kata"}, "claims": True, "portForward": True},
    "environments": "[python]\nwarm = 2\n",
    "settings": {"live_sessions": 200, "keep_sessions_on_shutdown": False},
    "podDisruptionBudget": True,
    "serviceMonitor": {"enabled": True, "tokenSecret": "scraper"},
    "allowedFrom": [{"namespaceSelector": {}}],
    "image": {"pullSecrets": ["registry"]},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"operator": "Exists"}],
}


SEVERAL: dict[str, Any] = {
    **EVERYTHING,
    "gateways": {"several": True, "autoscaling": {"enabled": True, "maxReplicas": 9, "sessions": 50}},
}


def test_it_is_a_chart_without_complaint(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))


def test_the_plain_manifests_are_the_chart_with_its_defaults(helm: Helm) -> None:
    comments, _, rendered = (REPOSITORY / "deploy/kubernetes/sandcell.yaml").read_text().partition("---\n")
    assert all(line.startswith("#") for line in comments.splitlines())
    now = helm.run("template", "sandcell", str(CHART), "--namespace", "sandcell")
    assert f"---\n{rendered}" == now, "render them again, with the command that is at their top"


@pytest.mark.parametrize("forwarding", [False, True])
@pytest.mark.parametrize("claiming", [False, True])
def test_the_service_may_do_what_it_asks_for_and_nothing_else(helm: Helm, claiming: bool, forwarding: bool) -> None:
    role = pick(helm.render({"sandboxes": {"claims": claiming, "portForward": forwarding}}), "Role")
    granted = {
        (group, kind, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(asked.needed_rights(claiming=claiming, forwarding=forwarding))
    kinds = {each["kind"] for each in helm.render(EVERYTHING)}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "Secret"}


def test_one_gateway_without_privileges(helm: Helm) -> None:
    spec = pick(helm.render(EVERYTHING), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] > 0
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod["volumes"])


def test_several_gateways_have_an_address_and_a_volume_each(helm: Helm) -> None:
    objects = helm.render(SEVERAL)
    kinds = {each["kind"] for each in objects}
    assert not kinds & {"Deployment", "PersistentVolumeClaim"}
    gateways = pick(objects, "StatefulSet")["spec"]
    assert "replicas" not in gateways, "the autoscaler says how many"
    assert gateways["serviceName"] == pick(objects, "Service")["metadata"]["name"]
    (claim,) = gateways["volumeClaimTemplates"]
    pod = gateways["template"]["spec"]
    assert claim["metadata"]["name"] not in {each["name"] for each in pod["volumes"]}
    (container,) = pod["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["SANDCELL_GATEWAY_ADDRESS"] == "http://$(POD_ADDRESS):8899"
    scaled = pick(objects, "HorizontalPodAutoscaler")["spec"]
    assert (scaled["scaleTargetRef"]["kind"], scaled["maxReplicas"]) == ("StatefulSet", 9)
    assert scaled["metrics"][0]["pods"]["target"]["averageValue"] == "50"
    assert pick(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    (rule,) = pick(objects, "NetworkPolicy")["spec"]["ingress"]
    assert {"podSelector": {"matchLabels": gateways["selector"]["matchLabels"]}} in rule["from"]
    fixed = helm.render({**SEVERAL, "gateways": {"several": True, "replicas": 3}})
    assert pick(fixed, "StatefulSet")["spec"]["replicas"] == 3


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_its_variables_are_settings_of_the_service(helm: Helm, values: dict[str, Any]) -> None:
    (container,) = pick(helm.render(values), "Deployment")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    names = [each["name"] for each in container["env"]]
    assert len(names) == len(set(names))
    known = {f"SANDCELL_{name.upper()}" for name in Settings.__dataclass_fields__} | {"HOME"}
    assert given.keys() <= known
    assert given["SANDCELL_KEEP_SESSIONS_ON_SHUTDOWN"] == ("false" if values else "true")
    if values:
        assert given["SANDCELL_KUBERNETES_CLASSES"].splitlines() == ["data=kata", "python=gvisor"]
        assert pick(helm.render(values), "ConfigMap")["data"]["environments.toml"] == values["environments"]


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 2},
        {"gateways": {"replicas": 2}},
        {"gateways": {"autoscaling": {"enabled": True}}},
        {"gateways": {"several": True}, "store": "s3://bucket/prefix"},
        {"gateways": {"several": True}, "secret": "operator"},
        {"store": "file:///somewhere"},
        {"settings": {"token": "in plain sight"}},
        {"settings": {"runtime": "runc"}},
        {"sandboxes": {"classes": {"python": "No Class"}}},
        {"serviceMonitor": {"enabled": True}},
        {"persistence": {"size": "much"}},
    ],
    ids=str,
)
def test_values_that_mean_nothing_are_refused(helm: Helm, values: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="meet the specifications"):
        helm.render(values)


def test_a_budget_is_of_the_version_that_the_cluster_serves(helm: Helm) -> None:
    old = ["--kube-version", "1.20.2"]
    assert pick(helm.render(SEVERAL), "HorizontalPodAutoscaler")["apiVersion"] == "autoscaling/v2"
    assert pick(helm.render(SEVERAL, *old), "HorizontalPodAutoscaler")["apiVersion"] == "autoscaling/v2beta2"
    assert pick(helm.render(SEVERAL, *old), "PodDisruptionBudget")["apiVersion"] == "policy/v1beta1"
    assert pick(helm.render(EVERYTHING), "PodDisruptionBudget")["apiVersion"] == "policy/v1"
    assert "PodDisruptionBudget" not in {each["kind"] for each in helm.render({}, *old)}
    assert os.access(CHART / "values.schema.json", os.R_OK)
