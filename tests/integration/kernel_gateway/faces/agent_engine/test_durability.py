"""What was answered is there after a kill -9 of the service; large files take a bounded part of its memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.kernel_gateway.faces.agent_engine.google import Google, connect, done, refusal
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
FILES_BYTES = 100_000_000


@pytest.mark.sample("kills")
def test_what_was_answered_outlives_a_kill(make_service: MakeService) -> None:
    service = make_service()
    with connect(service) as http:
        google = Google.make(http)
        template = done(http.post(f"/v1/{google.engine}/sandboxEnvironmentTemplates"))["response"]["name"]
        second = done(http.post(f"/v1/{google.engine}/sandboxEnvironments"))["response"]["name"]
        done(http.delete(f"/v1/{second}"))
        google.run("x = 20; open('kept.txt', 'w').write('kept')")
        shown = http.get(f"/v1/{google.sandbox}").json()
    service.kill()
    service.start()
    with connect(service) as http:
        google.http = http
        names = [
            each["name"] for each in http.get(f"/v1/{google.engine}/sandboxEnvironments").json()["sandboxEnvironments"]
        ]
        assert names == [google.sandbox]
        for name in (google.engine, google.sandbox, template, second):
            done(http.get(f"/v1/{name}/operations/create"))
        done(http.get(f"/v1/{second}/operations/delete"))
        assert refusal(http.get(f"/v1/{second}")) == (404, "NOT_FOUND")
        again = http.get(f"/v1/{google.sandbox}").json()
        assert (again["state"], again["expireTime"]) == (shown["state"], shown["expireTime"])
        assert google.run("print(x, open('kept.txt').read())").out == "20 kept\n"
        google.close()


def highest_memory(service: RunningService) -> int:
    """The most that the service has had of it since it began, in bytes."""
    lines = Path(f"/proc/{service.service_pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@pytest.mark.long  # a hundred megabytes each way
def test_a_hundred_megabytes_of_files_go_in_and_come_out(make_service: MakeService) -> None:
    service = make_service()
    content = os.urandom(FILES_BYTES - 2)
    with connect(service) as http:
        google = Google.make(http)
        before = highest_memory(service)
        said = google.run("import hashlib; print(hashlib.sha256(open('in', 'rb').read()).hexdigest())", {"in": content})
        assert said.out.split() == [hashlib.sha256(content).hexdigest()]
        taken = highest_memory(service)
        assert taken - before < 4 * FILES_BYTES, "the body in base64, and what it holds"
        said = google.run("import shutil; shutil.copy('in', 'out')")
        assert said.files == {"out": content}
        assert highest_memory(service) - taken < FILES_BYTES // 4, "it is not in memory whole on its way out"
        google.close()
