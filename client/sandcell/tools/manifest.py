"""What the tools can and cannot do in an environment, in words for a model and as data for programs. Pure.

Everything here is read from the environment: what it says of network, memory, time and files is what holds.
"""

from __future__ import annotations

from typing import Any, Final

from sandcell.models.environments import EnvironmentInfo
from sandcell.models.network import Network
from sandcell.models.workspaces import WORKSPACE
from sandcell.tools.definitions import TOOLS, Tool, make_schema

MOST_ENDPOINTS: Final = 10
"""Hosts that a description names."""
WITH_FILES: Final = ("write_file", "read_file", "list_files")


def describe_tool(tool: Tool, environment: EnvironmentInfo, most_seconds: float, output_bytes: int) -> str:
    """The tool's description with the constraints that concern it."""
    parts = [tool.description]
    if tool.runs_code:
        parts += [describe_network(environment.network), _describe_resources(environment, most_seconds)]
    if tool.name == "install_packages":
        parts.append(_describe_index(environment.network))
    if tool.runs_code or tool.name in WITH_FILES:
        parts.append(
            f"Files: only those below /workspace last ({environment.storage_mb:,} MB in all); the image is read-only."
        )
    if tool.name in ("run_python", "run_shell", "replay"):
        parts.append(f"Output: {output_bytes:,} bytes of text are shown unless you ask for more.")
    return "\n".join(parts)


def describe_network(network: Network) -> str:
    """How far code reaches."""
    if network.mode == "PUBLIC":
        return "Network: the public internet; no private addresses."
    if network.mode == "SANDBOX":
        return "Network: none; code reaches no host."
    named = ", ".join(f"{each.host}:{each.port}" for each in network.allow[:MOST_ENDPOINTS])
    more = len(network.allow) - MOST_ENDPOINTS
    return f"Network: only {named}{f' and {more} more' if more > 0 else ''}."


def installs(network: Network) -> bool:
    """Whether pip can reach a package index."""
    return network.mode != "SANDBOX" or bool(network.index_url)


def _describe_index(network: Network) -> str:
    if network.index_url:
        return f"Packages: from {network.index_url}."
    return "Packages: from PyPI, as far as the network allows." if installs(network) else "Packages: no index to reach."


def _describe_resources(environment: EnvironmentInfo, most_seconds: float) -> str:
    return (
        f"Resources: {environment.memory_mb:,} MB of memory, {environment.vcpus:g} vCPU; a call may take "
        f"{most_seconds:,.0f} s. Environment: {environment.name}."
    )


def make_annotations(tool: Tool, network: Network) -> dict[str, Any]:
    """MCP's hints on a tool."""
    return {
        "title": tool.title,
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent or tool.read_only,
        "openWorldHint": tool.runs_code and network.mode != "SANDBOX",
    }


def make_constraints(environment: EnvironmentInfo, most_seconds: float, output_bytes: int) -> dict[str, Any]:
    """The constraints as data."""
    network = environment.network
    return {
        "environment": environment.name,
        "network": {
            "mode": network.mode,
            "allow": [f"{each.host}:{each.port}" for each in network.allow],
            "index_url": network.index_url or None,
        },
        "memory_mb": environment.memory_mb,
        "vcpus": environment.vcpus,
        "storage_mb": environment.storage_mb,
        "timeout_seconds_max": most_seconds,
        "output_bytes": output_bytes,
        "workspace": WORKSPACE,
    }


def make_manifest(environment: EnvironmentInfo, most_seconds: float, output_bytes: int) -> list[dict[str, Any]]:
    """Every tool: name, title, description, JSON schema of its arguments, annotations, constraints."""
    constraints = make_constraints(environment, most_seconds, output_bytes)
    return [
        {
            "name": tool.name,
            "title": tool.title,
            "description": describe_tool(tool, environment, most_seconds, output_bytes),
            "input_schema": make_schema(tool, most_seconds),
            "annotations": make_annotations(tool, environment.network),
            "constraints": constraints,
        }
        for tool in TOOLS
    ]
