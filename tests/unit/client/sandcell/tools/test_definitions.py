"""The tools' schemas, their checks, and that descriptions say what holds in an environment."""

from __future__ import annotations

import jsonschema
import pytest

from sandcell.errors import InvalidRequest
from sandcell.models.environments import EnvironmentInfo
from sandcell.models.network import EndpointInfo, Network
from sandcell.tools import definitions, manifest
from sandcell.tools.definitions import BY_NAME, TOOLS

SAMPLES = {
    "run_python": {"code": "1"},
    "run_shell": {"command": "ls", "timeout_seconds": 3},
    "install_packages": {"packages": ["humanize==4.13", "numpy"]},
    "write_file": {"path": "a", "content": "b", "encoding": "base64"},
    "read_file": {"path": "a", "offset": 3, "max_output_bytes": 5_000},
    "start_session": {"session": "b", "environment": "data"},
}


def environment(network: Network) -> EnvironmentInfo:
    return EnvironmentInfo("python", "", "", 2_048, 1.158, 512, network)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_takes_what_is_taken_and_refuses_what_is_refused(tool: definitions.Tool) -> None:
    schema = definitions.make_schema(tool, 900)
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    good = SAMPLES.get(tool.name, {})
    checker.validate(good)
    definitions.parse_arguments(tool, good)
    for wrong in ({**good, "unknown": 1}, {**good, "session": ""}, {**good, "session": 1}):
        assert not checker.is_valid(wrong)
        with pytest.raises(InvalidRequest, match=f"arguments of {tool.name}"):
            definitions.parse_arguments(tool, wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("run_python", {}),
        ("run_python", {"code": "1", "timeout_seconds": 0}),
        ("install_packages", {"packages": []}),
        ("install_packages", {"packages": ["--index-url=http://evil.example"]}),
        ("read_file", {"path": "a", "offset": -1}),
        ("write_file", {"path": "a", "content": "b", "encoding": "latin-1"}),
    ],
)
def test_what_is_refused(name: str, wrong: dict[str, object]) -> None:
    assert not jsonschema.Draft202012Validator(definitions.make_schema(BY_NAME[name], 900)).is_valid(wrong)
    with pytest.raises(InvalidRequest):
        definitions.parse_arguments(BY_NAME[name], wrong)


@pytest.mark.parametrize(
    ("network", "said", "index", "opens"),
    [
        (Network("SANDBOX"), "Network: none; code reaches no host.", "no index to reach", False),
        (Network("SANDBOX", index_url="https://pypi.example/"), "Network: none", "from https://pypi.example/", False),
        (Network("PUBLIC"), "the public internet", "from PyPI", True),
        (Network("ALLOWLIST", [EndpointInfo("a.example", 443)]), "only a.example:443.", "from PyPI", True),
    ],
)
def test_constraints_are_the_environments(network: Network, said: str, index: str, opens: bool) -> None:
    tools = {each["name"]: each for each in manifest.make_manifest(environment(network), 900, 30_000)}
    assert list(tools) == [tool.name for tool in TOOLS]
    description = tools["run_python"]["description"]
    assert said in description
    assert "2,048 MB of memory, 1.158 vCPU; a call may take 900 s" in description
    assert "512 MB" in description
    assert index in tools["install_packages"]["description"]
    assert tools["run_python"]["annotations"]["openWorldHint"] is opens
    assert tools["write_file"]["annotations"]["openWorldHint"] is False
    assert tools["run_python"]["constraints"]["network"]["mode"] == network.mode
    assert tools["run_python"]["input_schema"]["properties"]["timeout_seconds"]["maximum"] == 900
