"""Contexts that are removed or restarted while other code runs or waits, and what outlives a kernel that has some."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing

import pytest

from kernel_gateway.errors import DatabaseUnavailable
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Execution, Submission
from tests.integration.kernel_gateway.services.conftest import Gateway

Test = Callable[[Gateway], Awaitable[None]]
WAIT = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n"
DEFAULT_NAMES = """
x = 21
def double(): return 2 * x
class Box:
    def read(self): return x
box = Box()
"""


def test_names_go_between_two_executions(on_gateway: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        contexts, executions, me = gateway.services.contexts, gateway.services.executions, gateway.me

        async def submit(context_id: str, code: str) -> Execution:
            _, place = await contexts.find(me, session.id, context_id, {})
            return await executions.submit(me, session.id, Submission(code), context=place)

        async def end(execution: Execution) -> Execution:
            return await executions.wait(me, session.id, execution.id)

        kept, gone = [(await contexts.create(me, session.id, "python", "")).id for _ in range(2)]
        for each in (kept, gone):
            assert (await end(await submit(each, "x = 1"))).status == "ok"
        running = await gateway.submit(session, WAIT)
        await gateway.until_running(session, running)
        waiting, refused = await submit(kept, "x"), await submit(gone, "open('ran', 'w')")
        await contexts.restart(me, session.id, kept)
        await contexts.remove(me, session.id, gone)
        assert (await gateway.services.commands.run(me, session.id, CommandRequest("touch go"))).exit_code == 0
        assert (await end(running)).status == "ok"
        lost = await end(waiting)
        assert lost.error is not None
        assert lost.error.name == "NameError"
        assert (await end(refused)).status == "rejected"
        assert await gateway.text(session, "pathlib.Path('ran').exists()") == "False"

    on_gateway(test)


def test_the_default_contexts_names_are_kept_wherever_code_ran_last(on_gateway: Callable[[Test], None]) -> None:
    """A session is hibernated by itself at the end of its time, too: refused, it would end with all that it has."""

    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        contexts, executions, me = gateway.services.contexts, gateway.services.executions, gateway.me
        assert (await gateway.run(session, DEFAULT_NAMES)).status == "ok"
        created = await contexts.create(me, session.id, "python", "")
        _, place = await contexts.find(me, session.id, created.id, {})
        elsewhere = await executions.submit(me, session.id, Submission("x = 'of the context'; y = 2"), context=place)
        assert (await executions.wait(me, session.id, elsewhere.id)).status == "ok"
        hibernated = await gateway.services.hibernation.hibernate(me, session.id)
        assert hibernated.hibernated is not None
        names = {each.name for each in hibernated.hibernated.variables}
        assert names == {"x", "double", "Box", "box"}
        assert await gateway.text(session, "(x, double(), box.read(), 'y' in globals())") == "(21, 42, 21, False)"
        assert await gateway.text(session, "x = 4; (double(), box.read())") == "(8, 4)"

    on_gateway(test)


def test_a_context_that_is_not_stored_is_refused(on_gateway: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        contexts, me = gateway.services.contexts, gateway.me
        other = sqlite3.connect(gateway.services.settings.state_path / "sandcell.db", isolation_level=None)
        with closing(other):
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseUnavailable):
                await contexts.create(me, session.id, "python", "")
            other.execute("ROLLBACK")
        assert await contexts.list(me, session.id) == []
        created = await contexts.create(me, session.id, "python", "")
        assert await contexts.list(me, session.id) == [created]

    on_gateway(test)
