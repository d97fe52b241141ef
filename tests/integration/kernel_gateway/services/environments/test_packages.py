"""Packages in sessions: installed from an index of the tests' own where one is declared, refused elsewhere."""

from __future__ import annotations

from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

WAYS = ("%pip install {}", "!pip install {}", "!python3 -m pip install {}", "!pip download --no-deps {}")


def test_without_an_index_pip_says_at_once_what_the_mode_allows_and_what_has_the_package(
    service: RunningService,
) -> None:
    with Rest(service) as rest, rest.session() as session:
        (numpy,) = rest.get("/v1/environments/python/packages?name=numpy")["items"]
        for way in WAYS:
            said = session.run(way.format("no-such-package"))["stdout"]
            assert said.count("ERROR") == 1, said
            assert "so no-such-package cannot be installed here: no environment of this service has it" in said
        said = session.run("!pip --no-color install numpy==0.1 2>&1 >/dev/null")["stdout"].strip()
        assert said == (
            "ERROR: Network mode SANDBOX reaches no package index, so numpy cannot be installed here: "
            f"of this service's environments python ({numpy['version']}) has it"
        )
        assert "already satisfied" in session.run("!pip install numpy")["stdout"]
        command = rest.post(f"{session.path}/commands", command="pip install no-such-package")
        assert "no environment of this service has it" in command["stderr"]
