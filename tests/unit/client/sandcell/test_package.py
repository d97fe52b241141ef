"""What `import sandcell` gives, under which names, and what it does not load."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sandcell

REPOSITORY = Path(__file__).parent.parent.parent.parent.parent


def loaded_by(statement: str) -> set[str]:
    """The packages that another process has loaded after this statement."""
    program = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.filterwarnings("ignore:.* this name goes with the next release:DeprecationWarning")
def test_every_public_name_is_there() -> None:
    of_another_name = {"LiveSession": "Session", "AsyncLiveSession": "AsyncSession", "Output": None}  # a union
    for name in sandcell.__all__:
        assert getattr(getattr(sandcell, name), "__name__", None) == of_another_name.get(name, name)
    assert set(sandcell.__all__) <= set(dir(sandcell))
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = sandcell.nothing_of_the_kind


def test_shapes_and_help_load_no_http_client() -> None:
    assert "httpx" not in loaded_by("import sandcell.models.sessions")
    assert "httpx" not in loaded_by("import sandcell.cli.main")
    assert "httpx" in loaded_by("from sandcell import Client")


def test_the_client_loads_nothing_of_the_service() -> None:
    loaded = loaded_by("from sandcell import AsyncClient; from sandcell.cli.sessions import running")
    assert loaded & {"kernel_gateway", "kernels", "workspace_sync", "tornado", "zmq", "sqlalchemy", "botocore"} == set()


@pytest.mark.parametrize("name", ["Session", "AsyncSession"])
def test_the_former_names_of_sessions_warn_at_every_use(name: str) -> None:
    former = name.replace("Session", "LiveSession")
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match=f"{former} is {name} now") as caught:
            assert getattr(sandcell, former) is getattr(sandcell, name)
        assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:.* this name goes with the next release:DeprecationWarning")
def test_the_former_name_gives_the_same_and_warns() -> None:
    sys.modules.pop("kernel_gateway.client", None)
    with pytest.warns(DeprecationWarning, match="the package sandcell now"):
        former = importlib.import_module("kernel_gateway.client")
    assert {name: getattr(former, name) for name in sandcell.__all__} == {
        name: getattr(sandcell, name) for name in sandcell.__all__
    }


def test_client_and_service_are_of_one_version() -> None:
    service, client = (
        tomllib.loads((REPOSITORY / each / "pyproject.toml").read_text())["project"] for each in ("", "client")
    )
    assert f"sandcell=={client['version']}" in service["dependencies"]
    assert (service["version"], service["requires-python"]) == (client["version"], client["requires-python"])
    assert (REPOSITORY / "client/LICENSE").read_text() == (REPOSITORY / "LICENSE").read_text()
