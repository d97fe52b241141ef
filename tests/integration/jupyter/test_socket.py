"""The socket: both framings on one live kernel, what belongs to whom, and how a client comes back."""

from __future__ import annotations

import pytest

from tests.integration.jupyter.conftest import Face
from tests.integration.jupyter.wire import is_status, reply_of, result_of, text_of


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
@pytest.mark.parametrize("who", ["owner", "guest"])
def test_a_person_works_on_with_the_agents_variables(request: pytest.FixtureRequest, who: str, v1: bool) -> None:
    face: Face = request.getfixturevalue(who)
    with face.wire(v1=v1) as wire:
        info = wire.finished(wire.send("shell", "kernel_info_request", {}))
        assert reply_of(info)["content"]["language_info"]["name"] == "python"
        messages = wire.run("print('hello'); agents_variable + 1")
    assert text_of(messages) == "hello\n"
    assert result_of(messages) == "42"
    assert reply_of(messages)["content"]["status"] == "ok"
    assert [each["content"]["execution_state"] for each in messages if is_status(each)] == ["busy", "idle"]
