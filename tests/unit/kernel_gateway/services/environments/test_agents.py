"""Agents: registered, attached, detached and attached again all at once, and what their sessions start from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernel_gateway.errors import AgentDetached, InvalidRequest, NotFound, QuotaReached, UnknownEnvironment
from sandcell.models.environments import AttachAgents, PutAgent
from tests.unit.kernel_gateway.services.environments.conftest import ANN, BEN, Desk

At = Callable[[Callable[[Desk], Any]], Any]
SESSION = "33333333-3333-3333-3333-333333333333"


async def environment_of(desk: Desk, environment: str | None, agent: str | None) -> str:
    return (await desk.agents.choose(ANN, environment, agent)).environment.name


def test_an_agent_is_registered_replaced_shown_listed_and_forgotten(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("lab")
        first = await desk.agents.put(ANN, "bot", PutAgent("lab", "does\nthings"))
        assert (first.environment, first.detached_from, first.description) == (info.id, None, "does\nthings")
        second = await desk.agents.put(ANN, "bot", PutAgent("web"))
        assert (second.environment, second.description) == ("web", "")
        assert second.created_at == first.created_at
        assert await desk.agents.get(ANN, "bot") == second
        await desk.agents.put(ANN, "a.b_c@d-1", PutAgent())
        page = await desk.agents.list(ANN, 1)
        assert [each.name for each in page.items] == ["bot"]
        assert [each.name for each in (await desk.agents.list(ANN, 1, page.next_cursor)).items] == ["a.b_c@d-1"]
        await desk.agents.delete(ANN, "bot")
        for gone in (desk.agents.get(ANN, "bot"), desk.agents.delete(ANN, "bot")):
            with pytest.raises(NotFound, match="there is no such agent"):
                await gone

    at_desk(work)


@pytest.mark.parametrize("name", ["", " ", "-bot", "a b", "a/b", "ü", "x" * 101, "bot\n"])
def test_a_name_that_none_may_have_is_refused(at_desk: At, name: str) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(InvalidRequest, match="an agent's name is"):
            await desk.agents.put(ANN, name, PutAgent())

    at_desk(work)


def test_agents_are_their_principals_own(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("lab")
        await desk.agents.put(ANN, "bot", PutAgent("lab"))
        with pytest.raises(NotFound):
            await desk.agents.get(BEN, "bot")
        with pytest.raises(UnknownEnvironment):
            await desk.agents.put(BEN, "bot", PutAgent(info.id))
        await desk.agents.put(BEN, "bot", PutAgent("web"))
        await desk.agents.put(ANN, "crawler", PutAgent("web"))
        assert (await desk.agents.detach(ANN, "web")).agents == ["crawler"]
        assert (await desk.agents.get(BEN, "bot")).environment == "web", "another's agents are not theirs to detach"
        assert (await desk.agents.dependents(BEN, "web")).agents == ["bot"]

    at_desk(work)


def test_a_session_starts_from_what_is_asked_else_from_the_agents_else_from_python(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("lab")
        await desk.agents.put(ANN, "bot", PutAgent("lab"))
        assert await environment_of(desk, None, None) == "python"
        assert await environment_of(desk, None, "bot") == info.id
        assert await environment_of(desk, "web", "bot") == "web"
        assert await environment_of(desk, "lab", None) == info.id
        for label in ("nobody registered me", "bot2", "x" * 150):
            assert await environment_of(desk, None, label) == "python", "a label, as it always was"
            assert await environment_of(desk, "lab", label) == info.id

    at_desk(work)


def test_an_agent_without_an_environment_starts_nothing_and_hears_what_to_do(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        await desk.agents.put(ANN, "new", PutAgent())
        await desk.agents.put(ANN, "old", PutAgent("web"))
        await desk.agents.detach(ANN, "web")
        for agent, was in (("new", None), ("old", "web")):
            for asked in (None, "python"):
                with pytest.raises(AgentDetached, match="attach it to one") as refused:
                    await desk.agents.choose(ANN, asked, agent)
                assert refused.value.details == {"agent": agent, "detached_from": was}

    at_desk(work)


def test_a_detachment_while_a_session_starts_is_not_overlooked(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        await desk.agents.put(ANN, "bot", PutAgent("web"))
        chosen = await desk.agents.choose(ANN, None, "bot")
        await desk.database.run(chosen.require)
        await desk.agents.detach(ANN, "web")
        with pytest.raises(AgentDetached):
            await desk.database.run(chosen.require)
        await desk.agents.attach(ANN, "web", AttachAgents())
        await desk.database.run(chosen.require)

    at_desk(work)


def test_all_are_detached_and_attached_again_in_one_call_each(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info, other = await desk.make("lab"), await desk.make("other")
        names = [f"bot{number:02}" for number in range(12)]
        for name in names:
            await desk.agents.put(ANN, name, PutAgent("lab"))
        await desk.agents.put(ANN, "elsewhere", PutAgent("other"))
        moved = await desk.agents.detach(ANN, "lab")
        assert (moved.environment, moved.agents, moved.count) == (info.id, names, 12)
        assert (await desk.agents.detach(ANN, "lab")).count == 0
        needs = await desk.agents.dependents(ANN, info.id)
        assert (needs.agents, needs.detached_agents, needs.detached_count) == ([], names, 12)
        await desk.agents.put(ANN, "bot03", PutAgent("other"))
        back = await desk.agents.attach(ANN, "lab", AttachAgents())
        assert back.agents == [name for name in names if name != "bot03"], "who found another stays there"
        assert (await desk.agents.get(ANN, "bot00")).detached_from is None
        assert sorted((await desk.agents.dependents(ANN, other.id)).agents) == ["bot03", "elsewhere"]

    at_desk(work)


def test_agents_move_to_the_one_that_takes_the_place_of_a_deleted_one(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        old = await desk.make("lab")
        await desk.agents.put(ANN, "bot", PutAgent("lab"))
        await desk.agents.detach(ANN, "lab")
        await desk.environments.delete(ANN, "lab")
        with pytest.raises(UnknownEnvironment):
            await desk.agents.attach(ANN, old.id, AttachAgents())
        assert (await desk.agents.dependents(ANN, old.id)).detached_agents == ["bot"]
        new = await desk.make("lab", memory_mb=4_096)
        assert (await desk.agents.attach(ANN, "lab", AttachAgents())).count == 0
        assert (await desk.agents.attach(ANN, "lab", AttachAgents(detached_from=old.id))).agents == ["bot"]
        assert await environment_of(desk, None, "bot") == new.id

    at_desk(work)


def test_agents_of_a_host_environment_that_is_gone_can_be_moved(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        await desk.agents.put(ANN, "bot", PutAgent("web"))
        now = desk.again(hosts={name: one for name, one in desk.hosts.items() if name != "web"})
        with pytest.raises(UnknownEnvironment):
            await now.agents.choose(ANN, None, "bot")
        assert (await now.agents.dependents(ANN, "web")).agents == ["bot"]
        assert (await now.agents.detach(ANN, "web")).agents == ["bot"]
        assert (await now.agents.attach(ANN, "data", AttachAgents("web"))).agents == ["bot"]
        with pytest.raises(UnknownEnvironment):
            await now.agents.dependents(ANN, "web")

    at_desk(work)


@pytest.mark.parametrize("former", ["", "a\0b", "half a pair \ud800", "x" * 1_000])
def test_agents_were_never_attached_to_what_is_no_name(at_desk: At, former: str) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(UnknownEnvironment):
            await desk.agents.attach(ANN, "python", AttachAgents(former))

    at_desk(work)


def test_an_agent_is_not_attached_to_what_is_deleted_meanwhile(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("lab")
        await desk.environments.delete(ANN, "lab")
        for name in ("lab", info.id):
            with pytest.raises(UnknownEnvironment):
                await desk.agents.put(ANN, "bot", PutAgent(name))
        assert (await desk.agents.list(ANN)).items == []

    at_desk(work)


def test_dependents_are_the_agents_and_the_live_sessions(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        info = await desk.make("lab")
        await desk.live(info.id, SESSION)
        await desk.live("python", "44444444-4444-4444-4444-444444444444")
        needs = await desk.agents.dependents(ANN, "lab")
        assert (needs.environment, needs.sessions, needs.session_count, needs.agent_count) == (info.id, [SESSION], 1, 0)
        await desk.end(SESSION)
        assert (await desk.agents.dependents(ANN, "lab")).session_count == 0

    at_desk(work)


def test_a_principal_has_so_many_agents_and_no_more(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        few = desk.again(agents_per_principal=1)
        await few.agents.put(ANN, "one", PutAgent())
        with pytest.raises(QuotaReached, match="you have 1 agents"):
            await few.agents.put(ANN, "two", PutAgent())
        await few.agents.put(ANN, "one", PutAgent("web"))
        await few.agents.put(BEN, "two", PutAgent())

    at_desk(work)


def test_more_than_a_page_of_agents_is_counted_and_moved_whole(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        many = desk.again(agents_per_principal=2_000)
        row = "INSERT INTO agents (id, principal_id, name, description, environment, created, updated)"
        values = f"VALUES (?, '{ANN.id}', ?, '', 'web', 0, 0)"
        every = [(f"{number:04}", f"bot{number:04}") for number in range(1_500)]
        await desk.database.run(lambda c: c.exec_driver_sql(f"{row} {values}", every))
        needs = await many.agents.dependents(ANN, "web")
        assert (len(needs.agents), needs.agent_count) == (1_000, 1_500)
        moved = await many.agents.detach(ANN, "web")
        assert (len(moved.agents), moved.count) == (1_000, 1_500)
        assert (await many.agents.dependents(ANN, "web")).agent_count == 0
        assert (await many.agents.attach(ANN, "data", AttachAgents("web"))).count == 1_500

    at_desk(work)
