"""Environments with packages of the principal's own: refused, failed, cut off in the middle, and with Debian's."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.debian_mirror import debian_mirror
from tests.doubles.package_index import make_wheel, package_index
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.integration.kernel_gateway.services.environments.own_packages import (
    add_own,
    await_build,
    layers,
    make,
    refusal,
)
from tests.running_service import RunningService

HOSTILE = """
cat /proc/version > /etc/kernel-of-scripts
cp /bin/true /usr/bin/raised
chmod 6755 /usr/bin/raised
mkfifo /usr/share/pipe
mknod /usr/share/node c 1 3 || true
ln -s /root /usr/share/away
rm -r /usr/share/pixmaps /mnt; ln -s / /usr/share/pixmaps
"""
"""What root of the container does to the image, which is all that it reaches."""

ENDLESS = "86399.25"
"""Seconds that a script of a package sleeps."""


def find_processes(word: str) -> list[Path]:
    """Processes of the host whose command line has this word."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word.encode() in (place / "cmdline").read_bytes().split(b"\0"):
                found.append(place)
    return found


@contextmanager
def building(
    make_service: Callable[..., RunningService], directory: Path, *more: str, **settings: object
) -> Iterator[Any]:
    """A service that lets principals add packages to `indexed`, and its index."""
    with package_index() as index, ExitStack() as callers:
        add_own(index)
        file = directory / "environments.toml"
        file.write_text("\n".join(["[indexed]", 'image = "python"', f'index_url = "{index.url}"', *more]))
        service = make_service(
            environments_file=file,
            added_packages_images="indexed",
            added_images_per_principal=2,
            invocations_per_second=1000,
            **settings,
        )
        yield service, index, callers.enter_context(Rest(service))


def test_without_the_operators_leave_nobody_adds_packages(service: RunningService) -> None:
    with Rest(service) as rest:
        status, code, message = refusal(rest, "/v1/environments", name="mine", packages=["tqdm"])
    assert (status, code) == (403, "forbidden")
    assert "added_packages_images" in message


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_build_that_was_cut_off_is_done_again_and_failures_say_why(
    make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    with building(make_service, tmp_path, added_build_seconds=5, added_image_bytes=100_000) as (service, index, rest):
        index.held.clear()
        make(rest, "stalled", "own-sample")
        stalled = await_build(rest, "stalled")
        assert (stalled["status"], stalled["failure"]) == ("FAILED", "it was not built within 5 s")
        assert rest.http.delete("/v1/environments/stalled").is_success
        index.held.set()
        service.stop()
        service.start(added_build_seconds=900)
        rest.http.base_url = service.url
        index.add("large-sample", large="x = '" + "y" * 200_000 + "'")
        index.packages["broken-sample"] = {"broken_sample-1.0-py3-none-any.whl": b"this is no archive"}
        bomb = make_wheel("bomb-sample", "1.0", {"bomb.bin": bytes(20 << 20)}, zipfile.ZIP_DEFLATED)
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
        make(rest, "given_up", "own-sample")
        eventually(lambda: len(index.visits) > asked)
        assert rest.http.delete("/v1/environments/given_up").is_success
        eventually(lambda: not any((service.data_dir / "sandboxes").glob("*-*")))

        asked = len(index.visits)
        made = make(rest, "killed", "own-sample==1.0")
        eventually(lambda: len(index.visits) > asked)
        (service.data_dir / ".layers" / f".sha256-{'9' * 64}").mkdir()  # as a launcher leaves it that is killed
        service.kill()
        index.held.set()
        service.start()
        with Rest(service) as again:
            ready = await_build(again, made["id"])
            assert (ready["status"], ready["failure"]) == ("READY", "")
            session = again.session(environment="killed")
            assert session.run("import own; print(own.GREETING)")["stdout"] == "of my own\n"
        service.kill()  # what runs on an image is taken up with it
        service.start()
        with Rest(service) as again:
            ran = again.post(f"{session.path}/executions", code="print(own.GREETING)")
            assert ran["stdout"] == "of my own\n"
            assert again.http.delete(session.path).is_success
            assert again.http.delete("/v1/environments/killed").is_success
            eventually(lambda: layers(service) == [])


@pytest.mark.long
def test_debian_packages_are_added_below_those_of_python_which_have_no_say_in_them(
    make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    with debian_mirror(tmp_path / "mirror") as mirror:
        mirror.add("greeter", {"usr/bin/greeter": "#!/bin/sh\necho from Debian\n"}, links={}, scripts={})
        mirror.add("hostile", {"usr/share/hostile": ""}, links={}, scripts={"postinst": HOSTILE})
        apt = {
            "added_packages_apt": True,
            "apt_sources": mirror.source,
            "egress_private": f"127.0.0.1:{mirror.port}",
        }
        with building(make_service, tmp_path, 'runtime = "runsc"', **apt) as (service, _, rest):
            make(rest, "both", "own-sample==1.0", apt=["greeter", "hostile"])
            ready = await_build(rest, "both")
            assert (ready["status"], ready["apt"]) == ("READY", ["greeter", "hostile"]), ready
            with rest.session(environment="both") as session:
                said = session.run("import own\n!greeter\nprint(own.GREETING)")["stdout"]
                assert said.splitlines() == ["from Debian", "of my own"]
                kernels = session.run("!cat /etc/kernel-of-scripts /proc/version")["stdout"].splitlines()
                assert kernels[0] == kernels[1], "the scripts run on the environment's runtime"
                assert kernels[0] != Path("/proc/version").read_text().strip()
            roots = list((service.data_dir / ".layers").glob("sha256-*/root"))
            assert len(roots) == 2
            for root in roots:
                assert (root / "usr/bin/raised").stat().st_mode & 0o7777 == 0o755
                assert not [name for name in ("pipe", "node") if (root / "usr/share" / name).exists()]
                links = [str((root / "usr/share" / name).readlink()) for name in ("away", "pixmaps")]
                assert links == ["/root", "/"]
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


@pytest.mark.long
def test_a_build_that_is_deleted_ends_the_scripts_of_its_packages(
    make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    with debian_mirror(tmp_path / "mirror") as mirror:
        mirror.add("endless", {"usr/share/endless": ""}, links={}, scripts={"postinst": f"sleep {ENDLESS}\n"})
        apt = {
            "added_packages_apt": True,
            "apt_sources": mirror.source,
            "egress_private": f"127.0.0.1:{mirror.port}",
        }
        with building(make_service, tmp_path, **apt) as (service, _, rest):
            make(rest, "endless", apt=["endless"])
            eventually(lambda: find_processes(ENDLESS))
            assert rest.get("/v1/environments/endless")["build_log"].endswith("setting them up")
            assert rest.http.delete("/v1/environments/endless").is_success
            eventually(lambda: not find_processes(ENDLESS))
            eventually(lambda: layers(service) == [])
            eventually(lambda: not any((service.data_dir / "sandboxes").glob("*-*")))
