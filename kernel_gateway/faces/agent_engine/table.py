"""The one table of this face: every address once, as `names.plain_path` writes it. Pure."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.agent_engine import (
    engines,
    execution,
    operations,
    requests,
    sandboxes,
    snapshots,
    templates,
)
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.inputs import Execute
from kernel_gateway.faces.routing import RouteTree
from sandcell.models.credentials import Scope


@dataclass(frozen=True)
class Route(routing.Route[Call]):
    """One method at one address; its name is Google's of the method, and the event's in the audit log.

    `carries_files`: its body may be as large as a payload. `note` is a line for the docs.
    """

    _: KW_ONLY
    carries_files: bool = False
    note: str = ""

    def find_scope(self) -> Scope:
        return scopes.find_agent_engine_scope(self.name)

    @property
    def read_only(self) -> bool:
        return routing.is_read_only(self.method)


ENGINES: Final = "/v1beta1/projects/{project}/locations/{location}/reasoningEngines"
ENGINE: Final = f"{ENGINES}/{{engine}}"
SANDBOXES: Final = f"{ENGINE}/sandboxEnvironments"
SANDBOX: Final = f"{SANDBOXES}/{{sandbox}}"
TEMPLATES: Final = f"{ENGINE}/sandboxEnvironmentTemplates"
TEMPLATE: Final = f"{TEMPLATES}/{{template}}"
SNAPSHOTS: Final = f"{ENGINE}/sandboxEnvironmentSnapshots"
SNAPSHOT: Final = f"{SNAPSHOTS}/{{snapshot}}"
OPERATION: Final = "operations/{operation}"

TABLE: Final[tuple[Route, ...]] = (
    Route("POST", ENGINES, engines.create_engine, name="CreateReasoningEngine", body=requests.CreateEngine),
    Route("GET", ENGINES, engines.list_engines, name="ListReasoningEngines"),
    Route("GET", ENGINE, engines.get_engine, name="GetReasoningEngine"),
    Route("DELETE", ENGINE, engines.delete_engine, name="DeleteReasoningEngine", body=requests.DeleteEngine),
    Route("GET", f"{ENGINE}/{OPERATION}", operations.get_engine_operation, name="GetReasoningEngineOperation"),
    Route("POST", SANDBOXES, sandboxes.create_sandbox, name="CreateSandboxEnvironment", body=requests.CreateSandbox),
    Route("GET", SANDBOXES, sandboxes.list_sandboxes, name="ListSandboxEnvironments"),
    Route("GET", SANDBOX, sandboxes.get_sandbox, name="GetSandboxEnvironment"),
    Route("DELETE", SANDBOX, sandboxes.delete_sandbox, name="DeleteSandboxEnvironment"),
    Route("GET", f"{SANDBOX}/{OPERATION}", operations.get_sandbox_operation, name="GetSandboxEnvironmentOperation"),
    Route(
        "POST",
        f"{SANDBOX}/:execute",
        execution.execute,
        name="ExecuteSandboxEnvironment",
        body=Execute,
        carries_files=True,
        note="code, files, and `execute_bash`",
    ),
    Route("POST", f"{SANDBOX}/:pause", sandboxes.pause_sandbox, name="PauseSandboxEnvironment"),
    Route("POST", f"{SANDBOX}/:resume", sandboxes.resume_sandbox, name="ResumeSandboxEnvironment"),
    Route(
        "POST",
        f"{SANDBOX}/:snapshot",
        snapshots.create_snapshot,
        name="SnapshotSandboxEnvironment",
        body=requests.CreateSnapshot,
    ),
    Route("GET", SNAPSHOTS, snapshots.list_snapshots, name="ListSandboxEnvironmentSnapshots"),
    Route("GET", SNAPSHOT, snapshots.get_snapshot, name="GetSandboxEnvironmentSnapshot"),
    Route("DELETE", SNAPSHOT, snapshots.delete_snapshot, name="DeleteSandboxEnvironmentSnapshot"),
    Route(
        "GET",
        f"{SNAPSHOT}/{OPERATION}",
        operations.get_snapshot_operation,
        name="GetSandboxEnvironmentSnapshotOperation",
    ),
    Route(
        "POST",
        TEMPLATES,
        templates.create_template,
        name="CreateSandboxEnvironmentTemplate",
        body=requests.CreateTemplate,
    ),
    Route("GET", TEMPLATES, templates.list_templates, name="ListSandboxEnvironmentTemplates"),
    Route("GET", TEMPLATE, templates.get_template, name="GetSandboxEnvironmentTemplate"),
    Route("DELETE", TEMPLATE, templates.delete_template, name="DeleteSandboxEnvironmentTemplate"),
    Route(
        "GET",
        f"{TEMPLATE}/{OPERATION}",
        operations.get_template_operation,
        name="GetSandboxEnvironmentTemplateOperation",
    ),
)
ADDRESSES: Final = RouteTree(TABLE)
