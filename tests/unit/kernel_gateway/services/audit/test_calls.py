"""Calls of interfaces in the audit log: CloudTrail's names, who sees which, filters, floods of refusals, the file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import Forbidden
from kernel_gateway.services.audit import feed as audit_feed
from kernel_gateway.services.audit import log
from kernel_gateway.services.audit.api_call import AGENTCORE, CLIENT_GONE, REST, ApiCall
from kernel_gateway.storage import audit as stored
from kernel_gateway.storage.audit import AuditFilter
from tests.unit.kernel_gateway.services.audit.test_log import ADMIN, ME, OTHER, Opened, on


def call(name: str = "StartSession", **values: Any) -> ApiCall:
    return ApiCall(
        event_name=name,
        **{"event_source": REST, "request_id": "r-1", "read_only": False, "principal": ME, **values},
    )


async def events(opened: Opened, **wanted: Any) -> list[str]:
    return [each.event for each in await opened.all(ADMIN, AuditFilter(**wanted))]


@pytest.mark.parametrize("moment", [1_772_960_430.7883625, 1_743_703_805.9490714, 1_797_951_892.0084126])
def test_a_call_has_one_time_by_a_clock_that_has_more_than_microseconds_too(tmp_path: Path, moment: float) -> None:
    async def check(opened: Opened) -> None:
        opened.clock.advance(moment - opened.clock.now())
        opened.audit.call(call())
        [found] = await opened.all()
        assert opened.clock.now() == moment
        assert found.detail["eventTime"] == found.at

    on(tmp_path, check)


def test_a_call_is_kept_in_cloudtrails_names(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.audit.call(
            call(
                "InvokeCodeInterpreter",
                event_source=AGENTCORE,
                access_key_id="SCAKABCDEFGHIJKLMNOP",
                source_ip="192.0.2.1",
                user_agent="Boto3/1.44",
                target="POST /code-interpreters/x/tools/invoke",
                session_id="s-1",
                request_parameters={"name": "executeCode", "arguments": {"code": {"characters": 3}}},
                response_elements={"sessionId": "s1"},
                seconds=0.0125,
            )
        )
        [found] = await opened.all(ME)
        assert (found.kind, found.event, found.allowed, found.reason) == ("api", "InvokeCodeInterpreter", True, "")
        assert (found.session_id, found.principal) == ("s-1", "me")
        assert found.detail == {
            "eventTime": found.at,
            "eventSource": "bedrock-agentcore.amazonaws.com",
            "eventName": "InvokeCodeInterpreter",
            "userIdentity": {
                "type": "Principal",
                "principalId": ME.id,
                "userName": "me",
                "accessKeyId": "SCAKABCDEFGHIJKLMNOP",
            },
            "sourceIPAddress": "192.0.2.1",
            "userAgent": "Boto3/1.44",
            "requestParameters": {"name": "executeCode", "arguments": {"code": {"characters": 3}}},
            "responseElements": {"sessionId": "s1"},
            "requestID": "r-1",
            "readOnly": False,
            "additionalEventData": {
                "address": "POST /code-interpreters/x/tools/invoke",
                "sessionId": "s-1",
                "httpStatus": 200,
                "milliseconds": 12.5,
            },
        }

    on(tmp_path, check)


def test_a_refused_caller_is_kept_with_what_was_claimed(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.audit.call(
            call(
                principal=None,
                access_key_id="AKIA\nFORGED" + "x" * 5_000,
                status=403,
                error_code="UnrecognizedClientException",
                error_message="no such key",
                user_agent="\x1b[2J",
            )
        )
        [found] = await opened.all()
        assert (found.allowed, found.reason) == (False, "UnrecognizedClientException: no such key")
        identity = found.detail["userIdentity"]
        assert identity["type"] == "Unknown"
        assert identity["accessKeyId"].startswith("AKIA\\nFORGEDxxx")
        assert (found.detail["errorCode"], found.detail["userAgent"]) == ("UnrecognizedClientException", "\\x1b[2J")
        assert await opened.all(ME) == []

    on(tmp_path, check)


def test_filters_by_event_principal_and_error(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.audit.call(call("A"))
        opened.audit.call(call("B", principal=OTHER, error_code="not_found", error_message="no"))
        opened.audit.call(call("C", principal=OTHER, error_code="not_found_either", error_message="no"))
        opened.audit.call(call("D", error_code=CLIENT_GONE))
        opened.say("x", allowed=False)
        assert await events(opened, event="A") == ["A"]
        assert await events(opened, error_code="not_found") == ["B"]
        assert await events(opened, error_code="not%") == []
        assert await events(opened, principal="o") == await events(opened, principal=OTHER.id) == ["C", "B"]
        assert await events(opened, principal="nobody") == []
        assert await events(opened, allowed=False, kind="api") == ["C", "B"], "who leaves is not refused"
        assert [each.event for each in await opened.all(ME, AuditFilter(principal="me"))] == ["connect", "D", "A"]
        with pytest.raises(Forbidden):
            await opened.all(ME, AuditFilter(principal="o"))

    on(tmp_path, check)


def test_a_page_looks_through_so_many_records_and_names_the_next(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(stored, "MOST_LOOKED_THROUGH", 10)

    async def check(opened: Opened) -> None:
        for number in range(35):
            opened.audit.call(call("rare" if number in (2, 3) else "often"))
        found, pages, cursor = [], 0, None
        while True:
            page = await opened.audit.list(ADMIN, AuditFilter(event="rare"), 1, cursor)
            found += [each.number for each in page.items]
            pages, cursor = pages + 1, page.next_cursor
            if cursor is None:
                break
        assert found == [4, 3]
        assert pages <= 35 // 10 + 3
        assert (await opened.audit.list(ADMIN, AuditFilter(), 1000)).next_cursor is not None

    on(tmp_path, check)


def test_a_caller_who_makes_up_sessions_gets_no_more_refusals_kept(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        for number in range(log.MOST_REFUSALS_AT_ONCE + 50):
            opened.audit.call(call(session_id=f"made-up-{number}", error_code="not_found", error_message="no"))
        assert opened.audit.call(call("Allowed")), "what is allowed has room of its own"
        assert opened.audit.call(call(principal=OTHER, error_code="not_found")), "and so have others"
        [dropped] = await opened.all(wanted=AuditFilter(kind="audit"))
        assert (dropped.detail, dropped.principal) == ({"records": 50, "allowed": False}, "me")

    on(tmp_path, check)


def test_parameters_that_are_too_large_are_left_out_and_who_called_stays(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.audit.call(call(request_parameters={"x": ["y" * 300] * 1_000}))
        [found] = await opened.all()
        assert found.detail["requestParameters"] is None
        assert found.detail["omitted_bytes"] > 300_000
        assert found.detail["userIdentity"]["userName"] == "me"

    on(tmp_path, check)


def test_the_same_records_are_lines_of_the_file(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        await opened.audit.open()
        opened.audit.call(call("A"))
        opened.audit.call(call("B", error_code="not_found", error_message="line\nbreak"))
        opened.say("example.com:443")
        kept = [each.detail for each in await opened.all(wanted=AuditFilter(kind="api"))]
        await opened.audit.close()
        lines = [json.loads(each) for each in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
        assert [each["eventName"] for each in lines] == ["A", "B", "connect"]
        assert [{k: v for k, v in each.items() if k not in {"chain", "hash"}} for each in lines[:2]] == kept[::-1]
        assert [each["chain"]["number"] for each in lines] == [1, 2, 3]
        assert lines[1]["errorMessage"] == "line\\nbreak"

    on(tmp_path, check)


def test_no_file_is_written_when_none_are_kept(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        await opened.audit.open()
        opened.audit.call(call())
        await opened.audit.close()
        assert list(tmp_path.glob("**/*.jsonl")) == []

    on(tmp_path, check, audit_files=0)


def test_a_file_that_cannot_be_written_delays_nothing_and_gets_its_lines_later(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(audit_feed, "RETRY_SECONDS", 0.01)

    async def check(opened: Opened) -> None:
        await opened.audit.open()
        path = tmp_path / "state" / "audit.jsonl"
        path.unlink()
        path.mkdir()
        writer = asyncio.create_task(opened.audit.run())
        opened.audit.call(call("A"))
        assert await events(opened) == ["A"]
        await asyncio.sleep(0.1)
        path.rmdir()
        opened.audit.call(call("B"))
        assert await events(opened) == ["B", "A"]
        writer.cancel()
        await asyncio.wait([writer])
        await opened.audit.close()
        assert [json.loads(each)["eventName"] for each in path.read_text().splitlines()] == ["A", "B"]

    on(tmp_path, check)
