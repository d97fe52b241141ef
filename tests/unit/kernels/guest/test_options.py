"""The guest's command line, and the environment it makes of it."""

from __future__ import annotations

import os

import pytest

from kernels.guest.options import parse_options
from kernels.guest.processors import VARIABLES, neighbouring


def test_defaults_are_those_of_a_sandbox() -> None:
    options = parse_options([])
    assert (options.generation, options.user, options.python) == (1, 1000, "/usr/bin/python3")
    assert (options.workspace, options.http_socket) == ("/workspace", "/run/sandcell/guest/http.sock")


def test_values_take_the_type_of_their_default() -> None:
    options = parse_options(["--generation", "7", "--vcpus", "1.16", "--transport", "/t"])
    assert (options.generation, options.vcpus, options.kernel_directory) == (7, 1.16, "/t/kernel")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nope", "1"],
        ["generation", "1"],
        ["--generation"],
        ["--generation", "one"],
        ["--http_socket", "/x"],
        ["--network", "ALL"],
    ],
)
def test_anything_else_ends_the_guest(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="guest: "):
        parse_options(arguments)


@pytest.mark.parametrize(("vcpus", "threads"), [("0.3", 1), ("1", 1), ("1.16", 2), ("4", 4), ("4000", 4000)])
def test_numerical_libraries_use_the_cpus_there_are(vcpus: str, threads: int) -> None:
    environment = parse_options(["--vcpus", vcpus]).make_environment()
    here = len(os.sched_getaffinity(0))
    assert {environment[name] for name in VARIABLES} == {str(min(threads, here))}


def test_processes_are_spread_over_the_processors_of_the_host() -> None:
    here = os.sched_getaffinity(0)
    drawn = [neighbouring(1) for _ in range(200)]
    assert set().union(*drawn) == here
    assert {len(one) for one in drawn} == {1}
    assert neighbouring(len(here)) == neighbouring(len(here) + 1) == here


PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}
INDEX = {"PIP_INDEX_URL", "UV_DEFAULT_INDEX"}
DIRECT = {"NO_PROXY", "no_proxy"}
S3 = {
    "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_EC2_METADATA_DISABLED", "SANDCELL_S3_URI",
}  # fmt: skip


def test_nothing_of_the_guest_s_own_environment_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    assert set(parse_options([]).make_environment()) == {
        "HOME", "USER", "LANG", "PATH", "MPLBACKEND", "ARROW_DEFAULT_MEMORY_POOL",
        "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_BREAK_SYSTEM_PACKAGES", "PIP_RETRIES", "UV_HTTP_RETRIES",
        *VARIABLES, *INDEX, *PROXIES, *DIRECT,
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["SANDBOX", "ALLOWLIST", "PUBLIC"])
def test_programs_look_for_their_way_out_on_loopback_and_reach_their_own_servers_directly(mode: str) -> None:
    environment = parse_options(["--network", mode]).make_environment()
    assert {environment[name] for name in PROXIES} == {"http://127.0.0.1:3128"}
    assert {environment[name] for name in DIRECT} == {"localhost,127.0.0.1,::1"}
    assert environment.get("PIP_RETRIES") == ("1" if mode == "SANDBOX" else None)


@pytest.mark.parametrize("mode", ["SANDBOX", "ALLOWLIST", "PUBLIC"])
def test_packages_come_from_the_guest_s_port_where_an_index_is_declared_or_nothing_is_reached(mode: str) -> None:
    for index in ("0", "1"):
        environment = parse_options(["--network", mode, "--index", index]).make_environment()
        named = mode == "SANDBOX" or index == "1"
        assert {environment.get(name) for name in INDEX} == {"http://127.0.0.1:3130/simple/" if named else None}


def test_an_execution_role_is_told_the_way_aws_clients_read_it() -> None:
    environment = parse_options(["--role", "s3://bucket/runs/", "--region", "eu-west-1"]).make_environment()
    assert environment["SANDCELL_S3_URI"] == "s3://bucket/runs/"
    assert environment["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:3129"
    assert environment["AWS_REGION"] == environment["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert set(environment) >= S3
