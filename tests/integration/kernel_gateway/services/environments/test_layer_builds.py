"""Environments with packages of the principal's own: built in a sandbox from a local index, used, refused, removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.debian_mirror import debian_mirror
from tests.doubles.package_index import PASSWORD, make_wheel, package_index
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

GUEST_WAS_HERE = "/tmp/guest-was-here"
HOSTILE = f"import os; open('{GUEST_WAS_HERE}-' + str(os.getuid()), 'w').close()"
USE = f"""
import glob, importlib.metadata, shutil, subprocess, sys, sample
print(sample.GREETING, sample.__cached__)
print(importlib.metadata.version("tiny-sample"), shutil.which("tiny"))
print(subprocess.run([sys.executable, "-c", "import sample; print(sample.GREETING)"], capture_output=True).stdout)
print(subprocess.run("tiny", capture_output=True).stdout)
print(glob.glob("{GUEST_WAS_HERE}-0"))
"""
PLACE = "/opt/sandcell/packages/lib/python3.11/site-packages"


@contextmanager
def building(make_service: Callable[..., RunningService], directory: Path, **settings: object) -> Iterator[Any]:
    """A service that lets principals add packages to `indexed`, and its index."""
    with package_index() as index, ExitStack() as callers:
        files = {
            "sample.py": b"GREETING = 'of my own'",
            "hostile.pth": HOSTILE.encode(),
            "sitecustomize.py": HOSTILE.encode(),
            "tiny_sample-1.0.data/scripts/tiny": b"#!python\nimport sample\nprint(sample.GREETING)\n",
        }
        index.packages["tiny-sample"] = {"tiny_sample-1.0-py3-none-any.whl": make_wheel("tiny-sample", "1.0", files)}
        file = directory / "environments.toml"
        file.write_text(f'[indexed]\nimage = "python"\nindex_url = "{index.url}"\n')
        service = make_service(
            environments_file=file,
            added_packages_images="indexed",
            added_images_per_principal=2,
            invocations_per_second=1000,
            **settings,
        )
        yield service, index, callers.enter_context(Rest(service))


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


def test_without_the_operators_leave_nobody_adds_packages(service: RunningService) -> None:
    with Rest(service) as rest:
        status, code, message = refusal(rest, "/v1/environments", name="mine", packages=["tqdm"])
    assert (status, code) == (403, "forbidden")
    assert "added_packages_images" in message


def test_packages_are_built_into_an_environment_of_the_principals_own_and_removed_with_it(
    make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    with building(make_service, tmp_path) as (service, index, rest):
        made = make(rest, "mine", "tiny-sample==1.0")
        assert refusal(rest, "/v1/sessions", environment="mine")[:2] == (409, "environment_unavailable")
        ready = await_build(rest, "mine")
        assert (ready["status"], ready["failure"]) == ("READY", ""), ready
        assert "Successfully installed tiny-sample-1.0" in ready["build_log"]
        assert PASSWORD not in str(ready)
        assert layers(service) == [ready["digest"].replace(":", "-")]
        (listed,) = rest.get("/v1/environments/mine/packages?name=tiny-sample")["items"]
        assert (listed["version"], listed["source"]) == ("1.0", "pip")

        twin, visits = make(rest, "twin", "tiny-sample==1.0"), len(index.visits)
        assert await_build(rest, twin["id"])["digest"] == ready["digest"]
        assert len(index.visits) == visits, "the same list over the same image is built once"
        status, code, _ = refusal(rest, "/v1/environments", name="third", image="indexed", packages=["tqdm"])
        assert (status, code) == (409, "quota_reached")
        token = rest.post("/v1/tokens", principal="other")["token"]
        with Rest(service, token) as other:
            assert all(each["kind"] == "host" for each in other.get("/v1/environments")["items"])
            theirs = other.http.get(f"/v1/environments/{made['id']}")
            assert (theirs.status_code, theirs.json()["error"]["code"]) == (404, "unknown_environment")
            unknown = other.http.get(f"/v1/environments/mine-{'0' * 10}")
            assert unknown.json()["error"]["message"] == theirs.json()["error"]["message"].replace(
                made["id"], f"mine-{'0' * 10}"
            )
        with rest.session(environment="mine") as session:
            outcome = session.run(USE)
            assert outcome["status"] == "ok", outcome
            assert outcome["stdout"].splitlines() == [
                f"of my own {PLACE}/__pycache__/sample.cpython-311.pyc",
                "1.0 /opt/sandcell/packages/bin/tiny",
                r"b'of my own\n'",
                r"b'of my own\n'",
                "[]",
            ]
            refused = rest.http.delete("/v1/environments/mine")
            assert refused.json()["error"]["code"] == "has_dependents"
            assert refused.json()["error"]["dependents"]["sessions"] == [session.id]
        assert rest.http.delete("/v1/environments/mine").is_success
        assert len(layers(service)) == 1, "the twin has it"
        assert rest.http.delete("/v1/environments/twin").is_success
        eventually(lambda: layers(service) == [])
        told = rest.get("/v1/audit?event=BuildEnvironment")["items"]
        assert [(each["allowed"], each["target"]) for each in told] == [(True, twin["id"]), (True, made["id"])]


@pytest.mark.long
def test_a_build_that_was_cut_off_is_done_again_and_failures_say_why(
    make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    with building(make_service, tmp_path, added_build_seconds=5, added_image_bytes=100_000) as (service, index, rest):
        index.held.clear()
        make(rest, "stalled", "tiny-sample")
        stalled = await_build(rest, "stalled")
        assert (stalled["status"], stalled["failure"]) == ("FAILED", "it was not built within 5 s")
        assert rest.http.delete("/v1/environments/stalled").is_success
        index.held.set()
        service.stop()
        service.start(added_build_seconds=900)
        rest.http.base_url = service.url
        index.add("large-sample", large="x = '" + "y" * 200_000 + "'")
        index.packages["broken-sample"] = {"broken_sample-1.0-py3-none-any.whl": b"this is no archive"}
        bomb = make_wheel("bomb-sample", "1.0", {"bomb.py": b"\0" * (600 << 20)})
        index.packages["bomb-sample"] = {"bomb_sample-1.0-py3-none-any.whl": bomb}
        for name, package, reason in (
            ("absent", "no-such-package", "has no no-such-package"),
            ("pinned", "numpy==0.1", "Cannot install numpy==0.1 because"),
            ("large", "large-sample", "more than 100,000 bytes"),
            ("broken", "broken-sample", "ERROR: "),
            ("bomb", "bomb-sample", "more than 100,000 bytes"),
        ):
            made = make(rest, name, package)
            failed = await_build(rest, name)
            assert failed["status"] == "FAILED", failed
            assert reason in failed["failure"], failed
            assert "\n" not in failed["failure"]
            started = refusal(rest, "/v1/sessions", environment=name)
            assert started[:2] == (409, "environment_unavailable")
            assert rest.http.delete(f"/v1/environments/{made['id']}").is_success
        eventually(lambda: layers(service) == [])

        index.held.clear()
        asked = len(index.visits)
        make(rest, "given_up", "tiny-sample")
        eventually(lambda: len(index.visits) > asked)
        assert rest.http.delete("/v1/environments/given_up").is_success
        eventually(lambda: not any((service.data_dir / "sandboxes").glob("*-*")))

        asked = len(index.visits)
        made = make(rest, "killed", "tiny-sample==1.0")
        eventually(lambda: len(index.visits) > asked)
        (service.data_dir / ".layers" / f".sha256-{'9' * 64}").mkdir()  # as a launcher leaves it that is killed
        service.kill()
        index.held.set()
        service.start()
        with Rest(service) as again:
            ready = await_build(again, made["id"])
            assert (ready["status"], ready["failure"]) == ("READY", "")
            with again.session(environment="killed") as session:
                assert session.run("import sample; print(sample.GREETING)")["stdout"] == "of my own\n"
                service.kill()  # what runs on an image is taken up with it
                service.start()
                with Rest(service) as third:
                    third.get(session.path)
                    ran = third.post(f"{session.path}/executions", code="print(sample.GREETING)")
                    assert ran["stdout"] == "of my own\n"
                    third.http.delete(session.path)
                    assert third.http.delete("/v1/environments/killed").is_success
                    eventually(lambda: layers(service) == [])


@pytest.mark.long
def test_debian_packages_are_added_below_those_of_python_which_have_no_say_in_them(
    make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    with debian_mirror(tmp_path / "mirror") as mirror:
        mirror.add("greeter", {"usr/bin/greeter": "#!/bin/sh\necho from Debian\n"}, links={}, scripts={})
        apt = {
            "added_packages_apt": True,
            "apt_sources": mirror.source,
            "egress_private": f"127.0.0.1:{mirror.port}",
        }
        with building(make_service, tmp_path, **apt) as (service, _, rest):
            make(rest, "both", "tiny-sample==1.0", apt=["greeter"])
            ready = await_build(rest, "both")
            assert (ready["status"], ready["apt"]) == ("READY", ["greeter"]), ready
            with rest.session(environment="both") as session:
                said = session.run("import sample\n!greeter\nprint(sample.GREETING)")["stdout"]
                assert said.splitlines() == ["from Debian", "of my own"]
            assert refusal(rest, "/v1/environments", name="no", image="indexed", apt=["--x"])[:2] == (
                400,
                "invalid_request",
            )
            make(rest, "away", apt=["no-such-debian"])
            failed = await_build(rest, "away")
            assert "Unable to locate package no-such-debian" in failed["failure"]
            for name in ("both", "away"):
                assert rest.http.delete(f"/v1/environments/{name}").is_success
            eventually(lambda: layers(service) == [])
