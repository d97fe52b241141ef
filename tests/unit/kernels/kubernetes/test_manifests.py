"""What is asked of the API server for one sandbox."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from kernels.environment import Environment, ExecutionRole, NetworkMode, NetworkPolicy, PackageIndex, Resources
from kernels.kubernetes import manifests
from kernels.sandbox import SandboxSpec

SANDBOX = "0bddc141-7f55-4b6c-8f0d-d70b7eb43059"
USER = manifests.user_of(SANDBOX)
ENVIRONMENT = Environment(
    "python", "/nowhere", "sha256:abc", resources=Resources(memory_mb=2048, storage_mb=512), variables=(("A", "$(B)"),)
)


def make(environment: Environment = ENVIRONMENT, runtime_class: str = "", user: int = USER) -> dict[str, Any]:
    spec = SandboxSpec(SANDBOX, environment, generation=3)
    image, owner = "registry/image:1", "uid-of-the-secret"
    return manifests.pod("tag", spec, image=image, runtime_class=runtime_class, owner=owner, user=user)


def test_a_pod_is_restricted() -> None:
    spec = make()["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "initContainers"} & spec.keys()
    kinds = {key for volume in spec["volumes"] for key in volume} - {"name"}
    assert kinds == {"emptyDir", "secret"}


def test_a_pod_has_limits_on_all_it_can_take() -> None:
    spec = make()["spec"]
    limits = spec["containers"][0]["resources"]["limits"]
    assert limits == {"memory": str(2048 << 20), "cpu": "1158m", "ephemeral-storage": str(512 << 20)}
    assert all("sizeLimit" in volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume)


def test_each_sandbox_has_a_user_of_its_own_with_a_name_and_a_bound_of_its_processes() -> None:
    pod = make()["spec"]
    assert manifests.user_of("0bddc141-7f55-4b6c-8f0d-d70b7eb43058") != USER
    assert manifests.FIRST_USER <= USER < 1 << 31  # what a cluster takes
    command = pod["containers"][0]["command"]
    told = dict(zip(command[4::2], command[5::2], strict=True))
    assert (told["--user"], told["--processes"], pod["securityContext"]["fsGroup"]) == (str(USER), "512", USER)
    secret = manifests.secret("tag", SandboxSpec(SANDBOX, ENVIRONMENT), {}, "this start", USER)
    assert f"user:x:{USER}:{USER}:user:/home/user:/bin/bash\n" in base64.b64decode(secret["data"]["passwd"]).decode()


def test_a_pod_with_a_user_namespace_of_its_own_has_the_user_of_a_host() -> None:
    user = manifests.user_of(SANDBOX, namespaced=True)
    spec = make(user=user)["spec"]
    assert (user, spec["hostUsers"], spec["securityContext"]["runAsUser"]) == (1000, False, 1000)
    assert "hostUsers" not in make()["spec"]


def test_a_pod_goes_with_its_secret_and_is_shown_the_guests_half_of_it() -> None:
    pod = make()
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Secret", f"sandcell-{SANDBOX}", "uid-of-the-secret")
    shown = [volume["secret"]["items"] for volume in pod["spec"]["volumes"] if "secret" in volume]
    keys, users = ([each["key"] for each in items] for items in shown)
    assert (keys, users) == (["ca.crt", "guest.crt", "guest.key"], ["passwd", "group"])


def test_a_secret_says_what_is_to_be_known_without_the_pod() -> None:
    secret = manifests.secret("tag", SandboxSpec(SANDBOX, ENVIRONMENT), {"ca.crt": b"content"}, "this start", USER)
    assert secret["metadata"]["labels"][manifests.SERVICE] == "tag"
    assert secret["immutable"]  # so that no node watches it
    assert secret["metadata"]["labels"][manifests.SANDBOX] == SANDBOX
    assert secret["metadata"]["annotations"] == {manifests.DIGEST: "sha256:abc", manifests.START: "this start"}
    assert base64.b64decode(secret["data"]["ca.crt"]) == b"content"


def test_the_guest_is_told_what_a_host_would_tell_it() -> None:
    command = make()["spec"]["containers"][0]["command"]
    assert command[:4] == ["/usr/bin/python3", "-I", "-B", "/opt/sandcell/guest"]
    told = dict(zip(command[4::2], command[5::2], strict=True))
    assert (told["--generation"], told["--network"], told["--tls-port"]) == ("3", "SANDBOX", str(manifests.PORT))
    assert told["--netlink-sockets"] == "16"
    assert told["--variables"] == json.dumps({"A": "$$(B)"})  # the cluster makes $(B) of it, and no variable's value


def test_a_class_is_asked_for_and_gvisor_counts_its_own_sockets() -> None:
    spec = make(runtime_class="gvisor-1")["spec"]
    assert spec["runtimeClassName"] == "gvisor-1"
    command = spec["containers"][0]["command"]
    assert command[command.index("--netlink-sockets") + 1] == "0"
    assert "runtimeClassName" not in make()["spec"]


def test_the_guest_of_an_environment_with_ways_out_is_told_of_them_and_its_pod_is_closed_off_all_the_same() -> None:
    role = ExecutionRole("bucket", "prefix/", region="eu-west-1")
    open_one = replace(ENVIRONMENT, network=NetworkPolicy(NetworkMode.PUBLIC), role=role, index=PackageIndex(""))
    pod = make(open_one)
    command = pod["spec"]["containers"][0]["command"]
    told = dict(zip(command[4::2], command[5::2], strict=True))
    assert (told["--network"], told["--role"], told["--region"]) == ("PUBLIC", "s3://bucket/prefix/", "eu-west-1")
    assert told["--index"] == "1"
    assert pod["metadata"]["labels"] == make()["metadata"]["labels"]
    assert pod["spec"]["dnsConfig"] == {"nameservers": ["127.0.0.1"]}


def test_nothing_leaves_a_sandbox_and_one_port_is_reached() -> None:
    spec = manifests.policy()["spec"]
    assert spec["podSelector"]["matchLabels"].items() <= make()["metadata"]["labels"].items()
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert spec["egress"] == []
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": manifests.PORT}]}]


def test_a_policy_that_opens_pods_is_seen() -> None:
    ours = manifests.policy()
    as_stored = {**ours, "spec": {name: value for name, value in ours["spec"].items() if value != []}}
    assert manifests.is_closed(ours)
    assert manifests.is_closed(as_stored)
    for change in (
        {"egress": [{}]},
        {"ingress": [{}]},
        {"ingress": ours["spec"]["ingress"] * 2},
        {"policyTypes": ["Ingress"]},
        {"podSelector": {"matchLabels": {"app": "another"}}},
    ):
        assert not manifests.is_closed({**ours, "spec": ours["spec"] | change}), change
    assert not manifests.is_closed({**ours, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
