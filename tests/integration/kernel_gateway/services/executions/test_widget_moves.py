"""Widgets that executions show are moved over the service: their callbacks run, and all of it is on record."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import httpx
import pytest

from sandcell import Client, Conflict, Forbidden, InvalidRequest, NotFound, ServiceUnavailable, Session
from sandcell.models.executions import Execution, WidgetMoved
from tests.integration.kernel_gateway.services.executions.test_inspection import until_there
from tests.running_service import RunningService

CODE = """
import ipywidgets as w
level, shown, go = w.IntSlider(value=3, max=10), w.Label(), w.Button(description='Go')
def follow(change):
    shown.value = f'is {change.new}'
    print('moved to', change.new)
level.observe(follow, 'value')
go.on_click(lambda _: print('clicked'))
hidden = w.IntText()
print(hidden.model_id)
w.VBox([level, shown, go])
"""
STATE = "application/vnd.jupyter.widget-state+json"


@pytest.fixture(scope="module")
def shown(session: Session) -> Execution:
    """An execution that shows widgets."""
    run = session.submit(CODE)
    return session.wait(run.id)


def models_of(execution: Execution) -> dict[str, tuple[str, dict[str, Any]]]:
    """Id and values of each widget that an execution shows, by the names of their models."""
    (output,) = [each for each in execution.outputs if STATE in each.get("data", {})]
    found = output["data"][STATE]["state"]
    return {each["model_name"]: (name, each["state"]) for name, each in found.items()}


def test_a_slider_moves_and_its_callback_runs(session: Session, shown: Execution) -> None:
    slider, _ = models_of(shown)["IntSliderModel"]
    label, _ = models_of(shown)["LabelModel"]
    moved = session.move_widget(shown.id, slider, {"value": 7})
    told = [each.data for each in moved.events if each.event == "widget"]
    assert {"model_id": label, "state": {"value": "is 7"}} in told
    assert "moved to 7\n" in [each.data.get("text") for each in moved.events]
    assert session.run("level.value").text == "7"
    until = time.monotonic() + 60
    while not (stored := session.get_execution(shown.id)).late or models_of(stored)["LabelModel"][1]["value"] != "is 7":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert models_of(stored)["IntSliderModel"][1]["value"] == 7
    assert [each["text"] for each in stored.late] == ["moved to 7\n"]
    assert b"moved to 7" in session.notebook()


def test_a_button_is_clicked(session: Session, shown: Execution) -> None:
    button, _ = models_of(shown)["ButtonModel"]
    moved = session.move_widget(shown.id, button, event="click")
    assert "clicked\n" in [each.data.get("text") for each in moved.events]


def test_only_what_is_shown_moves_and_only_its_values(session: Session, shown: Execution, http: httpx.Client) -> None:
    slider, _ = models_of(shown)["IntSliderModel"]
    hidden = shown.stdout.strip()
    for model in (hidden, "no-such-widget"):
        with pytest.raises(NotFound):
            session.move_widget(shown.id, model, {"value": 1})
    with pytest.raises(NotFound):
        session.move_widget("00000000-0000-0000-0000-000000000000", slider, {"value": 1})
    for state in ({"_model_name": "x"}, {"absent": 1}, {}):
        with pytest.raises(InvalidRequest):
            session.move_widget(shown.id, slider, state)
    address = f"/v1/sessions/{session.id}/executions/{shown.id}/widgets"
    for value, status in (("[[1]]", 400), ("9" * 5_000, 400), (f'"{"x" * 70_000}"', 413)):
        body = f'{{"model_id": "{slider}", "state": {{"value": {value}}}}}'
        refused = http.post(address, content=body, headers={"Content-Type": "application/json"})
        assert refused.status_code == status, refused.text
    assert session.run("level.value").error is None


def test_while_code_runs_or_another_has_the_session_nothing_moves(session: Session, shown: Execution) -> None:
    slider, _ = models_of(shown)["IntSliderModel"]
    running = session.submit("print('begun', flush=True); import time; time.sleep(600)")
    next(each for each in session.events(running.id) if each.event == "stream")
    with pytest.raises(Conflict) as caught:
        session.move_widget(shown.id, slider, {"value": 1})
    assert caught.value.code == "session_busy"
    session.interrupt_execution(running.id)
    session.wait(running.id)
    lease = session.take_lease()
    with pytest.raises(Conflict):
        session.move_widget(shown.id, slider, {"value": 1})
    session.move_widget(shown.id, slider, {"value": 1}, lease=lease.id)
    session.give_back_lease()


def test_a_callback_that_does_not_end_is_interrupted(session: Session, shown: Execution) -> None:
    session.run("go.on_click(lambda _: __import__('time').sleep(600))")
    button, _ = models_of(shown)["ButtonModel"]
    slider, _ = models_of(shown)["IntSliderModel"]
    with ThreadPoolExecutor(1) as others:
        clicked = others.submit(click, session, shown.id, button)
        until = time.monotonic() + 15  # its own patience is longer
        while "being moved" not in (said := refusal(session, shown.id, slider)) and time.monotonic() < until:
            time.sleep(0.05)
        while not wait([clicked], timeout=1).done:  # the kernel may not have begun with the callback before the first
            session.interrupt()
        assert clicked.result().generation == 1
    assert "being moved" in said
    assert session.run("1 + 1").text == "2"


def test_an_interrupt_reaches_a_callback_that_waited_for_a_completion(session: Session, shown: Execution) -> None:
    slow = "__import__('time').sleep(600)"
    session.run("go._click_handlers.callbacks.clear()")  # those of other tests
    session.run(f"go.on_click(lambda _: (open('begun', 'w').close(), {slow}))")
    session.run(f"class Slow:\n    def __dir__(self): open('looked', 'w').close(); {slow}\nslow = Slow()")
    button, _ = models_of(shown)["ButtonModel"]
    with pytest.raises(ServiceUnavailable):
        session.complete("slow.a", timeout=0.5)
    until_there(session, "looked")
    with ThreadPoolExecutor(1) as others:
        clicked = others.submit(click, session, shown.id, button)
        time.sleep(1)  # or it may wait for nothing, and shows less
        session.interrupt()  # of the completion: the callback is next
        until_there(session, "begun")
        session.interrupt()
        assert clicked.result().generation == 1


def click(session: Session, execution_id: str, model_id: str) -> WidgetMoved:
    """Also where another move was there first."""
    while True:
        try:
            return session.move_widget(execution_id, model_id, event="click")
        except Conflict as error:
            if "being moved" not in error.message:
                raise


def refusal(session: Session, execution_id: str, model_id: str) -> str:
    """What is said to who moves something now; nothing where it is moved."""
    try:
        session.move_widget(execution_id, model_id, {"value": 2})
    except Conflict as error:
        return error.message
    return ""


def test_who_may_only_read_moves_nothing(
    session: Session, shown: Execution, service: RunningService, client: Client
) -> None:
    slider, _ = models_of(shown)["IntSliderModel"]
    token = client.create_token("admin", "looks", scope="read").token
    with Client(service.url, token) as reader, pytest.raises(Forbidden, match="scope run"):
        reader.move_widget(session.id, shown.id, slider, {"value": 9})


def test_others_are_told_of_a_move_and_find_what_came_of_it_at_once(session: Session, client: Client) -> None:
    first = session.wait(session.submit(CODE).id)
    other = session.run("w.HBox([shown])")  # a part of what that shows
    slider, _ = models_of(first)["IntSliderModel"]
    session.move_widget(first.id, slider, {"value": 9})
    found = session.get_execution(first.id)
    assert models_of(found)["LabelModel"][1]["value"] == "is 9"
    assert [each["text"] for each in found.late] == ["moved to 9\n"]
    assert models_of(session.get_execution(other.id))["LabelModel"][1]["value"] == "is 9"
    untold = {first.id, other.id}
    for each in client.session_events(session.id, after=0):
        untold -= {each.data["execution_id"]} if each.event == "late" else set()
        if not untold:
            break
