"""Contexts that are removed or restarted while other code runs or waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Execution, Submission
from tests.integration.kernel_gateway.services.conftest import Gateway

Test = Callable[[Gateway], Awaitable[None]]
WAIT = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n"


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
