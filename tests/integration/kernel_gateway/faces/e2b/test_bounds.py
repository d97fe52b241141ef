"""What the bounds of this face are, and what is said beyond them; each is in docs/bounds.toml."""

from __future__ import annotations

import base64
import gzip
from contextlib import ExitStack
from typing import Any

from kernel_gateway.faces import calls, forms
from kernel_gateway.faces.e2b import handler, identifiers, interpreter, processes, sandboxes
from kernel_gateway.services.executions.programs import MOST_FOLLOWERS
from kernel_gateway.services.sessions.contexts import MOST_CONTEXTS
from kernels.guest.processes.programs import MAX_INPUT_BYTES, MAX_RUNNING
from kernels.guest.server.program_routes import MAX_SIDE
from tests.integration.kernel_gateway.faces.e2b.owners import Owner


def test_bodies_and_addresses(owner: Owner) -> None:
    for size, status in ((identifiers.LONGEST_PATH, 404), (identifiers.LONGEST_PATH + 1, 400)):
        path = "/" + "x" * 200 * 1 + "/" + "y/" * ((size - 202) // 2) + "z" * (size % 2)
        assert len(path) == size
        answer = owner.data("POST", "/filesystem.Filesystem/Stat", json={"path": path})
        assert answer.status_code == status, answer.text
    large = owner.data("POST", "/filesystem.Filesystem/Stat", content=b"x" * (handler.MOST_RPC_BYTES + 1))
    assert (large.status_code, large.json()["code"]) == (413, "resource_exhausted")
    for number, status in ((calls.MOST_PARAMETERS, 404), (calls.MOST_PARAMETERS + 1, 400)):
        query = "&".join(["path=absent", *(f"a{each}=1" for each in range(number - 1))])
        assert owner.data("GET", f"/files?{query}").status_code == status
    deep = owner.data("POST", "/filesystem.Filesystem/ListDir", json={"path": "/tmp", "depth": 100})
    assert deep.status_code == 400
    for length in (identifiers.LONGEST_KEY, identifiers.LONGEST_KEY + 1):
        assert owner.http.get("/sandboxes", headers={"X-API-Key": "k" * length}).status_code == 401
    for number in (0, sandboxes.MOST_LISTED + 1):
        assert owner.control("GET", f"/v2/sandboxes?limit={number}").status_code == 400
    digits = "1" * (sandboxes.MOST_DIGITS + 1)
    assert owner.control("GET", f"/sandboxes/{owner.id}/metrics?start={digits}").status_code == 400


def test_uploads(owner: Owner) -> None:
    octets = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    bomb = gzip.compress(bytes(120_000_000))
    assert owner.data("POST", "/files?path=bomb", octets, content=bomb).status_code == 413
    assert owner.data("POST", "/files?path=half", octets, content=bomb[:1000]).status_code in {400, 413}
    parts = [("file", (f"many/{number}", b"")) for number in range(forms.MOST_FILES + 1)]
    assert owner.data("POST", "/files", files=parts).status_code == 400
    assert owner.data("POST", "/filesystem.Filesystem/Stat", json={"path": "many"}).status_code == 404


def test_variables(owner: Owner) -> None:
    most: dict[str, str] = {f"V{number}": "" for number in range(sandboxes.MOST_VARIABLES)}
    for variables, taken in (
        (most, True),
        ({**most, "ONE_MORE": ""}, False),
        ({"V": "x" * (sandboxes.MOST_VARIABLES_BYTES - 1)}, True),
        ({"V": "x" * sandboxes.MOST_VARIABLES_BYTES}, False),
        ({"1": "x"}, False),
        ({"A": "x\0"}, False),
    ):
        answer = owner.data("POST", "/execute", json={"code": "1", "env_vars": variables})
        assert answer.status_code == (200 if taken else 400), answer.text


def test_contexts(owner: Owner) -> None:
    made = [owner.data("POST", "/contexts", json={}) for _ in range(MOST_CONTEXTS + 1)]
    assert [each.status_code for each in made] == [200] * MOST_CONTEXTS + [429]
    for each in made[:-1]:
        assert owner.data("DELETE", f"/contexts/{each.json()['id']}").status_code == 200
    assert len(owner.data("GET", "/contexts").json()) == 2
    assert owner.data("DELETE", "/contexts/" + "x" * (interpreter.LONGEST_ID + 1)).status_code == 404


def test_processes(owner: Owner) -> None:
    def refused(*command: str, **more: Any) -> str:
        return str(owner.start(*command, **more)[0].get("code"))

    assert refused("/bin/true", tag="t" * (processes.LONGEST_TAG + 1)) == "invalid_argument"
    assert refused("/bin/true", *["a"] * (processes.MOST_ARGUMENTS + 1)) == "invalid_argument"
    assert refused("/bin/true", pty={"size": {"cols": MAX_SIDE + 1, "rows": 1}}) == "invalid_argument"
    line = ("/bin/sh", "-c", "sleep 1000")
    started = [owner.start(*line, until_start=True, stdin=True) for _ in range(MAX_RUNNING)]
    selected = [{"process": {"pid": each[0]["event"]["start"]["pid"]}} for each in started]
    assert refused("/bin/true") == "resource_exhausted"
    half = {"stdin": base64.b64encode(bytes(MAX_INPUT_BYTES // 2 + 1)).decode()}
    sent = [owner.data("POST", "/process.Process/SendInput", json={**selected[0], "input": half}) for _ in range(3)]
    assert sent[0].status_code == 200
    assert sent[-1].json()["code"] == "resource_exhausted"
    for each in selected:
        body = {**each, "signal": "SIGNAL_SIGKILL"}
        assert owner.data("POST", "/process.Process/SendSignal", json=body).status_code == 200
    assert refused("/bin/true") == "None"


def test_followers(owner: Owner) -> None:
    started = owner.start("/bin/sleep", "1000", until_start=True, tag="followed")
    selected = {"process": {"pid": started[0]["event"]["start"]["pid"]}}
    with ExitStack() as followers:
        statuses = [
            followers.enter_context(owner.stream("Connect", process={"tag": "followed"})).status_code
            for _ in range(MOST_FOLLOWERS + 1)
        ]
        # The one who started it has hung up, which may be noticed a little later.
        assert statuses[: MOST_FOLLOWERS - 1] == [200] * (MOST_FOLLOWERS - 1)
        assert statuses[-1] == 429
        body = {**selected, "signal": "SIGNAL_SIGKILL"}
        assert owner.data("POST", "/process.Process/SendSignal", json=body).status_code == 200
