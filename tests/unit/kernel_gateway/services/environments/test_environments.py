"""Making, finding, listing, tagging and deleting environments."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable
from typing import Any

import pytest

from kernel_gateway.environments_file import DeclaredRole
from kernel_gateway.errors import (
    Conflict,
    EnvironmentUnavailable,
    Forbidden,
    HasDependents,
    InvalidRequest,
    QuotaReached,
    UnknownEnvironment,
)
from kernel_gateway.services.environments import custom as made
from kernel_gateway.storage import environments as stored
from kernels.environment import ExecutionRole, NetworkMode, Resources
from sandcell.models.environments import ChangeTags, CreateEnvironment, PutAgent
from tests.unit.kernel_gateway.services.environments.conftest import ANN, BEN, HOSTS, Desk

At = Callable[[Callable[[Desk], Any]], Any]
ARN = "arn:aws:iam::123456789012:role/etl"
ROLE = ExecutionRole("warehouse", "etl/", write=True)


def test_a_made_one_is_the_hosts_with_its_own_resources_network_and_description(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make(
            "big", image="web", memory_mb=10_240, storage_mb=10_240, network="SANDBOX", description="large\n"
        )
        assert made.ID.fullmatch(info.id)
        assert info.id.startswith("big-")
        assert (info.kind, info.status, info.image, info.runtime) == ("made", "READY", "web", "runsc")
        assert info.vcpus == round(10_240 / 1769, 3)
        for name in (info.id, "big"):
            found = await desk.environments.find(ANN.id, name)
            assert found.name == info.id
            assert (found.root, found.digest, found.image, found.runtime) == (
                HOSTS["web"].root,
                HOSTS["web"].digest,
                "python",
                "runsc",
            )
            assert found.resources == Resources(10_240, 10_240, 256)
            assert found.network.mode is NetworkMode.SANDBOX
            assert found.role is None
        assert await desk.environments.get(ANN, "big") == info

    at_desk(work)


def test_resources_that_are_left_out_are_the_hosts_as_far_as_one_may_have_them(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        large = dataclasses.replace(desk.hosts["data"], resources=Resources(8_000, 4_000, 64))
        desk = desk.again(hosts={**desk.hosts, "data": large}, memory_mb_max=5_000)
        plain, big = await desk.make("plain"), await desk.make("big", image="data")
        assert (plain.memory_mb, plain.storage_mb, plain.network.mode, plain.image) == (2_048, 512, "SANDBOX", "python")
        assert (big.memory_mb, big.storage_mb, big.pids) == (5_000, 4_000, 64)

    at_desk(work)


def test_vcpus_are_those_asked_for_the_hosts_or_those_that_come_with_the_memory(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        slow = dataclasses.replace(desk.hosts["data"], resources=Resources(8_192, 512, 64, 0.5))
        desk = desk.again(hosts={**desk.hosts, "data": slow})
        for body, vcpus in (
            ({"vcpus": 1.0}, 1.0),
            ({"memory_mb": 1_769}, 1.0),
            ({"image": "data"}, 0.5),
            ({"image": "data", "memory_mb": 3_538}, 2.0),
            ({"image": "data", "memory_mb": 3_538, "vcpus": 0.25}, 0.25),
        ):
            made_one = await desk.make("sized", **body)
            assert made_one.vcpus == vcpus
            assert (await desk.environments.find(ANN.id, "sized")).resources.vcpus == vcpus
            narrow = await desk.again(vcpus_max=0.75).environments.get(ANN, "sized")
            refused = body.get("vcpus", 0) > 0.75
            told = ("UNAVAILABLE", vcpus) if refused else ("READY", min(vcpus, 0.75))
            assert (narrow.status, narrow.vcpus) == told
            await desk.environments.delete(ANN, "sized")

    at_desk(work)


def test_more_vcpus_than_the_host_has_now_are_unavailable(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        there = len(os.sched_getaffinity(0))
        with pytest.raises(InvalidRequest, match=f"vcpus is {there + 1}, and this host has {there} processors"):
            await desk.again(vcpus_max=1_024.0).make("fast", vcpus=there + 1)
        await desk.make("all", vcpus=min(there, 6))
        row = await desk.database.run(lambda c: stored.find_by_name(c, ANN.id, "all"))
        assert row is not None
        with pytest.raises(made.Unavailable, match="processors"):
            made.build_environment(dataclasses.replace(row, vcpus=2.0), desk.hosts, (), desk.settings, processors=1)

    at_desk(work)


def test_another_principals_is_not_found_and_may_have_the_same_name(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        hers, his = await desk.make("same"), await desk.make("same", BEN)
        assert hers.id != his.id
        for ask in (
            desk.environments.find(BEN.id, hers.id),
            desk.environments.exactly(BEN.id, hers.id),
            desk.environments.get(BEN, hers.id),
            desk.environments.delete(BEN, hers.id),
            desk.environments.change_tags(BEN, hers.id, ChangeTags({"a": "b"})),
        ):
            with pytest.raises(UnknownEnvironment, match="there is no environment"):
                await ask
        assert (await desk.environments.delete(BEN, "same")).id == his.id
        assert (await desk.environments.get(ANN, "same")).status == "READY"

    at_desk(work)


def test_the_hosts_are_everybodys_and_nobodys_to_change(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.environments.get(ANN, "web")
        assert (info.id, info.kind, info.created_at, info.tags) == ("web", "host", None, {})
        for change in (
            desk.environments.delete(ANN, "web"),
            desk.environments.change_tags(BEN, "web", ChangeTags({"a": "b"})),
        ):
            with pytest.raises(Forbidden, match="its operator"):
                await change
        with pytest.raises(Conflict, match="the host has an environment 'web'"):
            await desk.make("web")

    at_desk(work)


def test_a_name_is_taken_once_until_it_is_deleted(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        first = await desk.make("etl")
        with pytest.raises(Conflict, match="you have an environment 'etl' already"):
            await desk.make("etl")
        deleted = await desk.environments.delete(ANN, "etl")
        assert (deleted.id, deleted.status) == (first.id, "DELETED")
        assert (await desk.make("etl")).id != first.id
        with pytest.raises(UnknownEnvironment):
            await desk.environments.get(ANN, first.id)

    at_desk(work)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"name": "with-hyphen"}, "a letter and up to 47"),
        ({"name": "1st"}, "a letter and up to 47"),
        ({"name": "a" * 49}, "a letter and up to 47"),
        ({"name": "a\n"}, "a letter and up to 47"),
        ({"memory_mb": 1_768}, "memory_mb must be between 1,769 and 10,240, and is 1,768"),
        ({"memory_mb": 10_241}, "memory_mb must be between"),
        ({"vcpus": 0.24}, "vcpus must be between 0.25 and 6, and is 0.24"),
        ({"vcpus": 6.01}, "vcpus must be between"),
        ({"vcpus": float("nan")}, "vcpus must be between"),
        ({"storage_mb": 511}, "storage_mb must be between 512 and 10,240"),
        ({"storage_mb": 10_241}, "storage_mb must be between"),
        ({"storage_mb": -1}, "storage_mb must be between"),
        ({"image": "nowhere"}, "the host has no environment 'nowhere' to make one from; it has: data, python, web"),
        ({"role_arn": "etl"}, "written as arn:aws:iam"),
        ({"role_arn": "arn:aws:iam::123:role/x"}, "written as arn:aws:iam"),
        ({"role_arn": "arn:aws-\0\n:iam::123456789012:role/x"}, "written as arn:aws:iam"),
        ({"description": "nul\0"}, "no control characters"),
        ({"description": "\ud800"}, "no control characters"),
        ({"description": "x" * 4_097}, "at most 4,096"),
        ({"tags": {"": "x"}}, "a tag's key has 1 to 128"),
        ({"tags": {"k" * 129: "x"}}, "a tag's key has 1 to 128"),
        ({"tags": {"k": "v" * 257}}, "its value at most 256"),
        ({"tags": {"k": "ü"}}, "tags are of letters"),
        ({"tags": {str(number): "" for number in range(51)}}, "at most 50 tags"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_change(at_desk: At, body: dict[str, Any], says: str) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(InvalidRequest, match=says):
            await desk.environments.create(ANN, CreateEnvironment(**{"name": "good", **body}))
        page = await desk.environments.list(ANN, kind="made")
        assert page.items == []

    at_desk(work)


def test_the_ends_of_every_range_are_in_it(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        small = await desk.make("small", memory_mb=1_769, storage_mb=512, description="")
        assert small.vcpus == 1.0
        most = {str(number): "v" * 256 for number in range(50)}
        large = await desk.make(
            "L" + "_" * 47, memory_mb=10_240, storage_mb=10_240, network="PUBLIC", description="é　" * 2_048, tags=most
        )
        assert (large.tags, large.network.mode) == (most, "PUBLIC")

    at_desk(work)


def test_the_operators_settings_bound_what_may_be_made(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        strict = desk.again(memory_mb_max=4_096, storage_mb_max=1_024, made_network_modes="SANDBOX")
        for body, says in (
            ({"memory_mb": 4_097}, "memory_mb must be between 1,769 and 4,096"),
            ({"storage_mb": 1_025}, "storage_mb must be between 512 and 1,024"),
            ({"network": "PUBLIC"}, "network PUBLIC is not for environments made here; those may have SANDBOX"),
        ):
            with pytest.raises(InvalidRequest, match=says):
                await strict.make("x", **body)
        with pytest.raises(InvalidRequest, match="those may have PUBLIC"):
            await desk.again(made_network_modes="PUBLIC").make("x")

    at_desk(work)


def test_an_operator_who_narrows_the_settings_narrows_what_was_made_before(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("wide", image="data", memory_mb=8_000, network="PUBLIC")
        without = {name: one for name, one in desk.hosts.items() if name != "data"}
        for changes, says in (
            ({"memory_mb_max": 4_096}, "memory_mb must be between"),
            ({"made_network_modes": "SANDBOX"}, "network PUBLIC"),
            ({"hosts": without}, "the host has no environment 'data'"),
        ):
            now = desk.again(**changes)
            with pytest.raises(EnvironmentUnavailable, match=says):
                await now.environments.find(ANN.id, "wide")
            with pytest.raises(EnvironmentUnavailable, match=says):
                await now.environments.exactly(ANN.id, info.id)
            shown = await now.environments.get(ANN, "wide")
            assert (shown.status, shown.memory_mb, shown.network.mode) == ("UNAVAILABLE", 8_000, "PUBLIC")
            assert says in shown.failure
            assert [each.status for each in (await now.environments.list(ANN, kind="made")).items] == ["UNAVAILABLE"]
        assert (await desk.environments.find(ANN.id, "wide")).resources.memory_mb == 8_000

    at_desk(work)


@pytest.mark.parametrize(
    ("principals", "granted"), [({"ann"}, ROLE), ({"ben"}, None), ({"*"}, ROLE), ({"ben", "ann"}, ROLE)]
)
def test_a_role_grants_what_the_operator_declares_to_whom_he_declares_it(
    at_desk: At, principals: set[str], granted: ExecutionRole | None
) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("etl", role_arn=ARN)
        assert (info.role_arn, info.network.role) == (ARN, None), "undeclared: kept, and grants nothing"
        declared = desk.again(roles=(DeclaredRole(ARN, frozenset(principals), ROLE),))
        assert (await declared.environments.find(ANN.id, "etl")).role == granted
        assert (await declared.environments.exactly(ANN.id, info.id)).role == granted
        other = desk.again(roles=(DeclaredRole(ARN + "2", frozenset("*"), ROLE),))
        assert (await other.environments.find(ANN.id, "etl")).role is None

    at_desk(work)


def test_a_host_environments_own_role_is_not_handed_on(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        hosts = {**desk.hosts, "etl": dataclasses.replace(desk.hosts["python"], name="etl", role=ROLE)}
        desk = desk.again(hosts=hosts)
        await desk.make("mine", image="etl")
        assert (await desk.environments.find(ANN.id, "mine")).role is None

    at_desk(work)


def test_sessions_find_what_they_were_started_from_whatever_was_made_since(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        without = desk.again(hosts={name: one for name, one in desk.hosts.items() if name != "web"})
        mine = await without.make("web")
        assert (await without.environments.find(ANN.id, "web")).name == mine.id
        with pytest.raises(UnknownEnvironment):
            await without.environments.exactly(ANN.id, "web")
        assert (await desk.environments.exactly(ANN.id, "web")).name == "web"
        assert (await desk.environments.find(ANN.id, "web")).name == mine.id, "what a principal made stays theirs"

    at_desk(work)


def test_a_host_environment_may_have_a_name_in_the_form_of_an_id(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        odd = "data-abcdefghij"
        desk = desk.again(hosts={**desk.hosts, odd: dataclasses.replace(desk.hosts["data"], name=odd)})
        chosen = await desk.agents.choose(ANN, odd, None)
        assert chosen.environment.name == odd
        await desk.database.run(chosen.require)
        said = await desk.agents.put(ANN, "bot", PutAgent(odd))
        assert said.environment == odd

    at_desk(work)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
def test_pages_hold_everything_once_the_hosts_first(at_desk: At, limit: int) -> None:
    async def work(desk: Desk) -> None:
        made_ids = [(await desk.make(f"e{number}")).id for number in range(4)]
        await desk.make("other", BEN)
        for kind, expected in ((None, [*sorted(HOSTS), *made_ids]), ("host", sorted(HOSTS)), ("made", made_ids)):
            found: list[str] = []
            cursor: str | None = None
            while True:
                page = await desk.environments.list(ANN, limit, cursor, kind)  # type: ignore[arg-type]
                assert len(page.items) <= limit
                found += [each.id for each in page.items]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert found == expected

    at_desk(work)


@pytest.mark.parametrize(("limit", "cursor"), [(0, None), (1_001, None), (10, "%%%"), (10, "ü")])
def test_a_page_that_cannot_be_is_refused(at_desk: At, limit: int, cursor: str | None) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(InvalidRequest):
            await desk.environments.list(ANN, limit, cursor)

    at_desk(work)


def test_tags_are_removed_and_set_together_or_not_at_all(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("tagged", tags={"a": "1", "b": "2"})
        changed = await desk.environments.change_tags(ANN, info.id, ChangeTags({"c": "3", "a": "9"}, ["b", "none"]))
        assert changed.tags == {"a": "9", "c": "3"}
        assert changed.updated_at is not None
        assert info.updated_at is not None
        assert changed.updated_at > info.updated_at
        with pytest.raises(InvalidRequest):
            await desk.environments.change_tags(ANN, info.id, ChangeTags({"ü": "x"}, ["a"]))
        assert (await desk.environments.get(ANN, info.id)).tags == {"a": "9", "c": "3"}

    at_desk(work)


def test_a_principal_has_so_many_and_no_more(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        few = desk.again(environments_per_principal=2)
        await few.make("a")
        await few.make("b")
        with pytest.raises(QuotaReached, match="you have 2 environments") as refused:
            await few.make("c")
        assert refused.value.details["quota"] == 2
        await few.make("c", BEN)
        await few.environments.delete(ANN, "a")
        await few.make("c")

    at_desk(work)


def test_many_at_once_get_one_name_once_and_no_more_than_the_quota(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        few = desk.again(environments_per_principal=3)
        same = await asyncio.gather(*(few.make("same") for _ in range(8)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in same) == ["Conflict"] * 7 + ["EnvironmentInfo"]
        others = await asyncio.gather(*(few.make(f"e{number}") for number in range(8)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in others) == ["EnvironmentInfo"] * 2 + ["QuotaReached"] * 6
        assert len((await few.environments.list(ANN, kind="made")).items) == 3

    at_desk(work)


def test_delete_is_refused_while_anyone_needs_it_and_says_who(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("busy")
        session = "33333333-3333-3333-3333-333333333333"
        await desk.agents.put(ANN, "bot", PutAgent("busy"))
        await desk.live(info.id, session)
        with pytest.raises(HasDependents, match="is needed by 1 agent and 1 live session ") as refused:
            await desk.environments.delete(ANN, info.id)
        assert refused.value.details["dependents"] == {"agents": ["bot"], "sessions": [session]}
        assert "bot" in refused.value.message
        assert session in refused.value.message
        await desk.agents.delete(ANN, "bot")
        with pytest.raises(HasDependents, match="is needed by 1 live session "):
            await desk.environments.delete(ANN, info.id)
        await desk.end(session)
        await desk.environments.delete(ANN, info.id)

    at_desk(work)


def test_a_deleted_ones_row_stays_only_while_a_session_of_old_names_it(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        used, unused = await desk.make("used"), await desk.make("unused")
        await desk.live(used.id, "33333333-3333-3333-3333-333333333333")
        await desk.end("33333333-3333-3333-3333-333333333333")
        for each in (used, unused):
            await desk.environments.delete(ANN, each.id)
        rows = await desk.database.run(lambda c: c.exec_driver_sql("SELECT id, deleted FROM environments").all())
        assert [(row[0], row[1] is not None) for row in rows] == [(used.id, True)]
        with pytest.raises(UnknownEnvironment):
            await desk.environments.exactly(ANN.id, used.id)

    at_desk(work)


def test_a_start_and_a_delete_exclude_each_other_in_either_order(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("raced")
        chosen = await desk.agents.choose(ANN, "raced", None)
        await desk.environments.delete(ANN, "raced")
        with pytest.raises(UnknownEnvironment, match="was deleted"):
            await desk.database.run(chosen.require)
        again = await desk.make("raced")
        assert again.id != info.id
        await desk.database.run((await desk.agents.choose(ANN, "raced", None)).require)
        await desk.live(again.id, "33333333-3333-3333-3333-333333333333")
        with pytest.raises(HasDependents):
            await desk.environments.delete(ANN, "raced")

    at_desk(work)
