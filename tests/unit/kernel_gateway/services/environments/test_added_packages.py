"""What principals may ask to be added to images, and what their environments are while that is built and after."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kernel_gateway.errors import EnvironmentUnavailable, Forbidden, InvalidRequest, QuotaReached, SettingInvalid
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.environments.build_log import LONGEST_LOG, BuildLog
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.environments.layer_builds import digest_list, shorten
from kernel_gateway.settings import Settings, check_consistency
from kernel_gateway.storage import environments as stored
from kernels.errors import UnknownEnvironment
from sandcell.models.environments import CreateEnvironment
from tests.unit.kernel_gateway.services.environments.conftest import ANN, BEN, Desk

At = Callable[[Callable[[Desk], Any]], Any]
NO_PACKAGES = (
    "--index-url=http://evil.example/",
    "-e",
    "-r/etc/passwd",
    "--requirement=other.txt",
    "git+https://evil.example/x",
    "https://evil.example/x.whl",
    "x @ https://evil.example/x.whl",
    "file:///etc/passwd",
    "/etc/passwd",
    "./x",
    "../x.whl",
    "x/y",
    "x y",
    "x\n--index-url=http://evil.example/",
    "x;python_version>'3'",
    "x --hash=sha256:0",
    "x\0",
    "$(id)",
    "`id`",
    "",
    "x" * 201,
    "ünnütz",
)
NO_DEBIAN = (
    "-o=Dir::Etc=/",
    "jq-",
    "/tmp/x.deb",
    "./x.deb",
    "jq/unstable",
    "*",
    "jq=--x",
    "jq jq",
    "?name(x)",
    "JQ",
    "",
)


def test_nobody_adds_packages_until_the_operator_says_to_what(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(Forbidden, match="ask the operator"):
            await desk.make("x", packages=["tqdm"])
        allowed = desk.again(added_packages_images="web")
        with pytest.raises(Forbidden, match="'python' here; they can to: web"):
            await allowed.make("x", packages=["tqdm"])
        with pytest.raises(Forbidden, match="Debian packages cannot be added"):
            await allowed.make("x", image="web", apt=["jq"])
        every = desk.again(added_packages_images="*", added_packages_apt=True)
        made = await every.make("x", packages=["tqdm", "humanize==4.9", "tqdm"], apt=["jq"])
        assert (made.status, made.packages, made.apt) == ("BUILDING", ["humanize==4.9", "tqdm"], ["jq"])

    at_desk(work)


@pytest.mark.parametrize("name", NO_PACKAGES)
def test_a_list_names_packages_and_nothing_else(at_desk: At, name: str) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(InvalidRequest, match=r"packages: .* is no package") as refused:
            await desk.again(added_packages_images="*").make("x", packages=["tqdm", name])
        assert refused.value.details["field"] == "packages"

    at_desk(work)


@pytest.mark.parametrize("name", NO_DEBIAN)
def test_a_list_names_debian_packages_and_nothing_else(at_desk: At, name: str) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(InvalidRequest, match=r"apt: .* is no Debian package"):
            await desk.again(added_packages_images="*", added_packages_apt=True).make("x", apt=[name])

    at_desk(work)


def test_a_principal_has_so_many_and_one_that_failed_counts(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        few = desk.again(added_packages_images="*", added_images_per_principal=2)
        first = await few.make("a", packages=["tqdm"])
        await few.database.run(lambda c: stored.end_build(c, first.id, "no such package", "said", 1))
        await few.make("b", packages=["tqdm"])
        with pytest.raises(QuotaReached, match="2 environments with packages added"):
            await few.make("c", packages=["tqdm"])
        await few.make("plain")
        await few.make("c", BEN, packages=["tqdm"])
        await few.environments.delete(ANN, "a")
        await few.make("c", packages=["tqdm"])

    at_desk(work)


def test_no_session_starts_before_the_image_is_built_nor_when_it_failed_is_gone_or_not_allowed_any_more(
    at_desk: At,
) -> None:
    async def work(desk: Desk) -> None:
        desk = desk.again(added_packages_images="*")
        info, layer = await desk.make("x", packages=["tqdm"]), "sha256:" + "1" * 64
        image = dataclasses.replace(desk.hosts["python"], root="/l", digest=layer, image=".layers")

        def find(digest: str) -> Any:
            if digest != layer:
                raise UnknownEnvironment(digest)
            return image

        desk.environments._find_layer = find
        with pytest.raises(EnvironmentUnavailable, match="still being built"):
            await desk.environments.find(ANN.id, "x")
        assert [row.id for row in await desk.database.run(stored.list_building)] == [info.id]
        assert await desk.database.run(lambda c: stored.begin_build(c, info.id, layer)) == 1
        assert await desk.database.run(lambda c: stored.begin_build(c, info.id, layer)) == 2
        assert await desk.database.run(stored.list_layers) == {layer}
        await desk.database.run(lambda c: stored.end_build(c, info.id, "", "pip said so", 2))
        found = await desk.environments.find(ANN.id, "x")
        assert (found.root, found.digest, found.image, found.name) == ("/l", layer, ".layers", info.id)
        shown = await desk.environments.get(ANN, "x")
        assert (shown.status, shown.build_log, shown.digest, shown.image) == ("READY", "pip said so", layer, "python")
        assert {each.build_log for each in (await desk.environments.list(ANN)).items} == {""}
        strict = desk.again(added_packages_images="web")
        assert (await strict.environments.get(ANN, "x")).status == "UNAVAILABLE"
        layer = "sha256:" + "2" * 64
        with pytest.raises(EnvironmentUnavailable, match="is not there any more: delete it"):
            await desk.environments.find(ANN.id, "x")
        assert await desk.database.run(lambda c: stored.begin_build(c, info.id, layer)) == 0
        await desk.database.run(lambda c: stored.end_build(c, info.id, "pip says no", "", 3))
        shown = await desk.environments.get(ANN, "x")
        assert (shown.status, shown.failure) == ("FAILED", "pip says no")
        assert await desk.database.run(stored.list_layers) == set()

    at_desk(work)


def test_an_image_is_of_one_principal_and_of_one_list_from_one_place() -> None:
    below = "sha256:" + "0" * 64
    names = [
        digest_list(below, ANN.id, ("python", "https://pypi.org/simple/", "tqdm")),
        digest_list(below, BEN.id, ("python", "https://pypi.org/simple/", "tqdm")),
        digest_list(below, ANN.id, ("python", "https://other.example/", "tqdm")),
        digest_list(below, ANN.id, ("python", "https://pypi.org/simple/", "tqdm", "humanize")),
        digest_list(below, ANN.id, ("debian", "https://pypi.org/simple/", "tqdm")),
        digest_list("sha256:" + "1" * 64, ANN.id, ("python", "https://pypi.org/simple/", "tqdm")),
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("it is too large", "it is too large"),
        ("no:\nCollecting x\nERROR: none\nERROR: no x\n[notice] update", "no: ERROR: none"),
        ("no:\nKilled\n", "no: Killed"),
        ("no:\n" + "ERROR: " + "x" * 5_000, "no: ERROR: " + "x" * 1_989),
    ],
)
def test_a_failure_is_one_sentence(said: str, sentence: str) -> None:
    assert shorten(said) == sentence


def test_what_packages_print_is_text_that_no_database_refuses_and_no_terminal_obeys() -> None:
    said = BuildLog()
    said.add("one\n\x1b]0;title\x07 \0")
    said.add("\ud800")
    assert said.read() == "one\n\\x1b]0;title\\x07 \\x00\n\\ud800"
    for _ in range(5):
        said.add("\0" * LONGEST_LOG)
    assert said.read() == ("\\x00" * LONGEST_LOG)[-LONGEST_LOG:]


def test_a_log_shows_what_a_step_has_printed_before_it_ends() -> None:
    said = BuildLog()
    assert said.read() == ""
    said.add("installing x")
    said.show("Collecting x\nDownloa")
    assert said.read() == "installing x\nCollecting x\nDownloa"
    said.show("Collecting x\nDownloading x.whl")
    said.add("Collecting x\nDownloading x.whl\nSuccess")
    assert said.read() == "installing x\nCollecting x\nDownloading x.whl\nSuccess"


async def _read_while_building(desk: Desk) -> None:
    settings = desk.again(added_packages_images="*").settings
    shown = {"log": "Collecting tqdm"}
    environments = Environments(
        lambda: desk.hosts, settings, desk.database, SystemClock(), read_log=lambda _: shown["log"]
    )
    made = await environments.create(ANN, CreateEnvironment("x", packages=["tqdm"]))
    assert (await environments.get(ANN, "x")).build_log == "Collecting tqdm"
    assert (await environments.list(ANN, kind="made")).items[0].build_log == ""
    await desk.database.run(lambda c: stored.end_build(c, made.id, "", "Collecting tqdm\nSuccess", 1))
    assert (await environments.get(ANN, "x")).build_log == "Collecting tqdm\nSuccess"


def test_the_log_of_a_build_is_shown_while_it_runs(at_desk: At) -> None:
    at_desk(_read_while_building)


@pytest.mark.parametrize("images", ["python,", "../x", "-x", "python data", "python,*"])
def test_what_packages_may_be_added_to_is_a_list_of_names(images: str) -> None:
    with pytest.raises(SettingInvalid, match="added_packages_images must be"):
        check_consistency(Settings(data_dir="/x", added_packages_images=images))
