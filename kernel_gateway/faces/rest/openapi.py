"""The OpenAPI 3.1 document, made from the table of routes and the types in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from kernel_gateway.faces.responses import JSON
from kernel_gateway.faces.rest.parameters import ErrorBody
from kernel_gateway.faces.rest.resources.service import VERSION
from kernel_gateway.faces.rest.responses import OCTETS, PROMETHEUS, ZIP
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.settings import Settings
from sandcell.models import constraints

REFERENCE = "#/components/schemas/{name}"
BYTES = {"type": "string", "format": "binary"}
TAGS = {name: name for name in ("sessions", "workspaces", "environments", "agents", "tokens", "keys", "audit")}
TAGS |= {"notebooks": "replays", "replays": "replays", "principals": "principals", "admin": "principals"}
Schemas = dict[Any, dict[str, Any]]


def encode_document(table: Sequence[Route], settings: Settings) -> bytes:
    """The document of a service with these settings, as JSON."""
    return json.dumps(describe(table, settings), ensure_ascii=False).encode()


def describe(table: Sequence[Route], settings: Settings | None = None) -> dict[str, Any]:
    """The document as plain values, by default with the usual settings."""
    types = _collect_types(table)
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    by_type = dict(zip(types, schemas, strict=True))
    for name, words in constraints.TOGETHER.items():
        components[name] |= words
    addresses: dict[str, Any] = {}
    for route in table:
        addresses.setdefault(route.path, {})[route.method.lower()] = _describe_operation(route, by_type)
    described = {
        "openapi": "3.1.0",
        "info": {"title": "Sandcell", "version": VERSION, "description": "A self-hosted, stateful code interpreter."},
        "paths": addresses,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }
    found: dict[str, Any] = constraints.fill_in(described, settings or Settings())
    return found


def _collect_types(table: Sequence[Route]) -> list[Any]:
    wanted = [ErrorBody]
    for route in table:
        wanted += [
            each for each in (route.body, route.result, route.dry_run_result) if each is not None and each not in wanted
        ]
    return wanted


def _describe_operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [tag(route)],
        "parameters": [*_describe_path(route), *_describe_query(route), *_describe_headers(route)],
        "responses": _describe_responses(route, schemas),
    }
    if route.body is not None:
        required = any(field.required for field in msgspec.structs.fields(route.body))
        required = required or "oneOf" in constraints.TOGETHER.get(route.body.__name__, {})
        operation["requestBody"] = {"required": required, "content": {JSON: {"schema": schemas[route.body]}}}
    if route.uploads:
        operation["requestBody"] = {"required": False, "content": {OCTETS: {"schema": BYTES}, "*/*": {"schema": BYTES}}}
    if route.public:
        operation["security"] = []
    return operation


def tag(route: Route) -> str:
    """The group a route is shown in."""
    parts = route.path.split("/")
    return TAGS.get(parts[2], "operations") if len(parts) > 2 else "operations"


def _describe_path(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": constraints.BY_NAME.get(name, constraints.ID)}
        for name in route.parameters
    ]


def _describe_query(route: Route) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(route.query)["$defs"][route.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": each}
        for name, each in schema["properties"].items()
    ]


def _describe_headers(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "description": text, "schema": _describe_header(name)}
        for name, text in route.headers.items()
    ]


def _describe_header(name: str) -> dict[str, Any]:
    return constraints.BY_NAME.get(name, {"type": "string"})


def _describe_responses(route: Route, schemas: Schemas) -> dict[str, Any]:
    responses = {str(route.status): _describe_success(route, schemas, "done")}
    if route.accepted:
        responses["202"] = _describe_success(route, schemas, "accepted; the work goes on")
    if route.dry_run_result is not None:
        content = {JSON: {"schema": schemas[route.dry_run_result]}}
        responses["200"] = {"description": "the dry run's answer", "content": content}
    responses |= {str(status): {"description": text} for status, text in route.bare.items()}
    errors: dict[int, list[str]] = {}
    for error in route.raises:
        codes = errors.setdefault(error.status, [])
        if error.code not in codes:
            codes.append(error.code)
    for status, codes in sorted(errors.items()):
        described = "error: " + ", ".join(f"`{code}`" for code in codes)
        responses[str(status)] = {"description": described, "content": {JSON: {"schema": schemas[ErrorBody]}}}
    return responses


def _describe_success(route: Route, schemas: Schemas, description: str) -> dict[str, Any]:
    if route.status == 204:
        return {"description": description}
    if route.method == "HEAD":
        return {"description": description}
    schema = BYTES if route.media in (OCTETS, ZIP, PROMETHEUS) else schemas[route.result]
    more = {media: {"schema": BYTES} for media in route.more_media}
    return {"description": description, "content": {route.media: {"schema": schema}, **more}}
