"""Attach tokens: whose they are, when they end, and the command that makes them."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from sandcell import SandcellError
from sandcell.cli.main import sandcell
from tests.integration.kernel_gateway.faces.jupyter.conftest import Face
from tests.running_service import RunningService


def test_a_token_is_shown_once(owner: Face, service: RunningService) -> None:
    with service.client() as client:
        made = client.create_attach_token(owner.kernel_id, name="Ada", ttl_seconds=60, can=["restart"])
        listed = {each.id: each for each in client.list_attach_tokens(owner.kernel_id, limit=1000).items}
    assert made.token is not None
    assert made.token.startswith("sandcell_attach_")
    assert made.token not in repr(made)
    shown = listed[made.id]
    assert (shown.token, shown.name, shown.can, shown.revoked_at) == (None, "Ada", ["restart"], None)
    assert shown.expires_at > shown.created_at


@pytest.mark.parametrize(
    "body",
    [
        {"ttl_seconds": 59},
        {"ttl_seconds": 604_801},
        {"ttl_seconds": "1h"},
        {"can": ["delete"]},
        {"name": "x" * 201},
        {"name": "a\nb"},
        {"nonsense": 1},
    ],
)
def test_what_makes_no_sense_is_refused(owner: Face, body: dict[str, object]) -> None:
    answer = owner.http.post(f"/v1/sessions/{owner.kernel_id}/attach-tokens", json=body, headers=bearer(owner.token))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_they_are_the_sessions_owners(owner: Face, guest: Face, service: RunningService) -> None:
    with service.client() as client:
        stranger = client.create_token("someone-else").token
        made = client.create_attach_token(owner.kernel_id)
    assert stranger is not None
    address = f"{owner.url}/v1/sessions/{owner.kernel_id}/attach-tokens"
    for token, status in ((stranger, 404), (guest.token, 401)):
        headers = bearer(token)
        assert httpx.post(address, json={}, headers=headers).status_code == status
        assert httpx.get(address, headers=headers).status_code == status
        assert httpx.delete(f"{address}/{made.id}", headers=headers).status_code == status
    assert httpx.delete(f"{address}/none", headers=bearer(owner.token)).status_code == 404


def test_the_command_makes_lists_and_revokes(owner: Face, service: RunningService, tmp_path: Path) -> None:
    place = ["--url", service.url, "--token", service.token]

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner(env={"XDG_STATE_HOME": str(tmp_path)}).invoke(sandcell, ["attach-token", *words, *place])
        return done.exit_code, done.stdout

    status, token = run(owner.kernel_id, "--ttl", "15m", "--can", "restart", "--name", "Eve")
    assert status == 0
    assert httpx.get(f"{owner.url}/api/kernels", params={"token": token.strip()}).status_code == 200
    _, listed = run(owner.kernel_id, "--list", "--json")
    (made,) = [each for each in json.loads(listed) if each["name"] == "Eve"]
    assert made["can"] == ["restart"]
    assert run(owner.kernel_id, "--revoke", made["id"])[0] == 0
    assert httpx.get(f"{owner.url}/api/kernels", params={"token": token.strip()}).status_code == 401
    for bad in ("1y", "30", "8d", "-5m", ""):
        assert run(owner.kernel_id, "--ttl", bad)[0] == 2


def test_a_session_that_has_ended_gets_none(service: RunningService) -> None:
    with service.client() as client:
        with client.session("python") as session:
            made = session.create_attach_token()
        with pytest.raises(SandcellError) as refused:
            client.create_attach_token(session.id)
        assert refused.value.code == "session_terminated"
        assert [each.id for each in client.list_attach_tokens(session.id).items] == [made.id]
    assert httpx.get(f"{service.url}/api/kernels", headers=bearer(made.token or "")).status_code == 401


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
