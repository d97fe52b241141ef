"""Leases over plain HTTP: the header that names one, and what others are answered."""

from __future__ import annotations

import httpx
import pytest

from sandcell.models.leases import LONGEST_LEASE_SECONDS


def test_a_lease_is_taken_named_shown_and_given_back(http: httpx.Client, session_id: str) -> None:
    lease, runs = f"/v1/sessions/{session_id}/lease", f"/v1/sessions/{session_id}/executions"
    assert http.get(lease).status_code == 404
    taken = http.post(lease, json={"seconds": 60, "name": "Ada"})
    assert taken.status_code == 200
    mine = {"Sandcell-Lease": taken.json()["id"]}
    assert http.get(lease).json() == {"holder": "Ada", "expires_at": taken.json()["expires_at"], "id": None}

    refused = http.post(runs, json={"code": "1", "on_busy": "reject"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_busy")
    assert refused.json()["error"]["lease"]["holder"] == "Ada"
    assert refused.json()["error"]["retry_after_seconds"] > 0
    assert http.post(f"/v1/sessions/{session_id}/commands", json={"command": "true"}).status_code == 409
    assert http.post(lease, json={"seconds": 60}).status_code == 409

    shown = http.get(f"/v1/sessions/{session_id}").json()
    assert shown["lease"] == {"holder": "Ada", "expires_at": taken.json()["expires_at"], "id": None}
    waiting = http.post(runs, json={"code": "print(0)", "wait": False}).json()
    assert waiting["why"].startswith("Ada has this session to themselves until ")
    assert http.get(f"{runs}/{waiting['id']}").json()["why"] == waiting["why"]

    assert http.post(runs, json={"code": "print(1)", "wait": True}, headers=mine).json()["stdout"] == "1\n"
    assert http.post(lease, json={"seconds": 120}, headers=mine).json()["id"] == taken.json()["id"]
    assert http.delete(lease).status_code == 204
    assert http.delete(lease).status_code == 204
    assert http.post(runs, json={"code": "print(2)", "wait": True}).json()["stdout"] == "2\n"
    ran = http.get(f"{runs}/{waiting['id']}").json()
    assert (ran["status"], ran["why"]) == ("ok", None)
    assert http.get(f"/v1/sessions/{session_id}").json()["lease"] is None

    notes = http.get(f"/v1/sessions/{session_id}/notes").json()["items"]
    assert notes[0]["text"] == "**Session started** in `python`."
    assert [each["kind"] for each in notes[-2:]] == ["lease", "lease"]
    assert notes[-1]["text"] == "**The lease of `Ada` ended.** It was given back."
    last = http.get(f"/v1/sessions/{session_id}/notes?newest_first=true&limit=1").json()
    assert (last["items"], last["next_cursor"] is None) == (notes[-1:], False)


@pytest.mark.parametrize("body", [{"seconds": 0}, {"seconds": LONGEST_LEASE_SECONDS + 1}, {"minutes": 1}, {"name": 1}])
def test_a_lease_that_makes_no_sense_is_refused(http: httpx.Client, session_id: str, body: dict[str, object]) -> None:
    answer = http.post(f"/v1/sessions/{session_id}/lease", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
