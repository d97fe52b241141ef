"""Every example of the docs runs as it stands, in an environment that has the framework, with a model on a script."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import client_environments
from tests.conformance.mcp import client_environments as mcp_environments
from tests.conformance.tools import scripted_model
from tests.running_service import RunningService

REPOSITORY = Path(__file__).parent.parent.parent.parent
PAGE = (REPOSITORY / "docs/reference/tools.md").read_text()
MCP_PAGE = (REPOSITORY / "docs/reference/mcp.md").read_text()
EXAMPLES = {
    "OpenAI, Responses": "model_sdks",
    "OpenAI, Chat Completions": "model_sdks",
    "Anthropic": "model_sdks",
    "LangChain and LangGraph": "langchain",
    "smolagents": "smolagents",
    "pydantic-ai": "pydantic_ai",
    "LlamaIndex": "llama_index",
    "Agno": "agno",
    "Strands": "strands",
    "AutoGen": "autogen",
    "google-adk": "google_adk",
}
"""The environment in which each section's example runs."""


def find_block(page: str, section: str, language: str) -> str:
    """The first block of a section in a language."""
    text = page.split(f"## {section}\n")[1]
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def make_variables(service: RunningService, model: str, package: Path = REPOSITORY / "client") -> dict[str, str]:
    """What a program finds the service, the scripted model and the client by."""
    return {
        **os.environ,
        "PATH": f"{REPOSITORY / '.venv/bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(package),
        "SANDCELL_URL": service.url,
        "SANDCELL_TOKEN": service.token,
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_API_BASE": f"{model}/v1",  # LlamaIndex's name for it
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": model,
        "GOOGLE_API_KEY": "none",
        "NO_PROXY": "127.0.0.1",
    }


def run(program: str, place: Path, service: RunningService, model: str, home: Path) -> str:
    command = [str(place / "bin/python"), "-c", program]
    return client_environments.run_script(command, make_variables(service, model), home)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with scripted_model.serve() as address:
        yield address


@pytest.mark.sample("clients")
@pytest.mark.timeout(900)
@pytest.mark.sample(1)
@pytest.mark.parametrize("section", EXAMPLES)
def test_an_example_of_the_docs(
    service: RunningService, environments_dir: Path, model: str, tmp_path: Path, section: str
) -> None:
    pins = Path(__file__).parent / "clients" / EXAMPLES[section]
    place = client_environments.installed(pins, environments_dir.parent / "tools-clients")
    printed = run(find_block(PAGE, section, "python"), place, service, model, tmp_path)
    assert printed.rstrip().splitlines()[-1] == "It is 45."


@pytest.mark.timeout(900)
@pytest.mark.long
def test_the_program_of_the_page_on_mcp(
    service: RunningService, environments_dir: Path, model: str, tmp_path: Path
) -> None:
    place = mcp_environments.installed("sdk_1", environments_dir.parent)
    printed = run(find_block(MCP_PAGE, "A program", "python"), place, service, model, tmp_path)
    assert printed == find_block(MCP_PAGE, "A program", "text")
