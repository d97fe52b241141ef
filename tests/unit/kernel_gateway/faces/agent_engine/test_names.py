"""Addresses as every client writes them become one; names of resources are read back."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import InvalidRequest, NotFound
from kernel_gateway.faces.agent_engine.names import is_addressed, plain_path, read_child, read_place

ENGINE = "projects/p/locations/l/reasoningEngines/1"
IDS = {"project": "p", "location": "l"}


@pytest.mark.parametrize("path", ["/v1beta1/x", "/v1/projects/p", "/v1/reasoningEngines/1", "/v1/reasoningEngines"])
def test_what_is_of_this_face(path: str) -> None:
    assert is_addressed(path)


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1", "/", "/v2/projects/p", "/v1/projectsX", "/api/v1/projects"])
def test_what_is_not(path: str) -> None:
    assert not is_addressed(path)


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        (f"/v1/{ENGINE}", f"/v1beta1/{ENGINE}"),
        (f"/v1beta1/{ENGINE}/sandboxEnvironments/", f"/v1beta1/{ENGINE}/sandboxEnvironments"),
        (f"/v1/{ENGINE}/sandboxEnvironments/2:execute", f"/v1beta1/{ENGINE}/sandboxEnvironments/2/:execute"),
        (f"/v1/{ENGINE}/sandboxEnvironments/2/:execute", f"/v1beta1/{ENGINE}/sandboxEnvironments/2/:execute"),
        ("/v1/reasoningEngines/1", "/v1beta1/projects/-/locations/-/reasoningEngines/1"),
    ],
)
def test_one_address_of_all(path: str, plain: str) -> None:
    assert plain_path(path) == plain


def test_a_place() -> None:
    assert read_place({**IDS, "engine": "12"}).engine("12") == "projects/p/locations/l/reasoningEngines/12"


@pytest.mark.parametrize(
    "ids",
    [
        {**IDS, "project": "a.b"},
        {**IDS, "location": "-x"},
        {**IDS, "project": "p" * 64},
        {**IDS, "engine": "one"},
        {**IDS, "engine": "1" * 20},
        {**IDS, "engine": "1", "sandbox": "٣"},
    ],
)
def test_no_place(ids: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        read_place(ids)


@pytest.mark.parametrize("engine", [ENGINE, "reasoningEngines/1", "projects/other/locations/l/reasoningEngines/1"])
def test_a_template_of_the_engine(engine: str) -> None:
    assert read_child(f"{engine}/sandboxEnvironmentTemplates/7", ENGINE, "template") == "7"


def test_a_template_of_another_engine_is_not_found() -> None:
    with pytest.raises(NotFound):
        read_child("reasoningEngines/2/sandboxEnvironmentTemplates/7", ENGINE, "template")


@pytest.mark.parametrize(
    "name", ["7", "", f"{ENGINE}/sandboxEnvironments/7", f"{ENGINE}/sandboxEnvironmentTemplates/x"]
)
def test_what_is_no_template(name: str) -> None:
    with pytest.raises(InvalidRequest):
        read_child(name, ENGINE, "template")
