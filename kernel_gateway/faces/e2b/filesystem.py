"""envd's remote procedures on files: stat, list, make, move, remove."""

from __future__ import annotations

import contextlib
from typing import Final

from kernel_gateway.errors import Conflict, InvalidRequest, NotFound
from kernel_gateway.faces.e2b import answers
from kernel_gateway.faces.e2b.calls import Call
from kernel_gateway.faces.e2b.connect import read_user
from kernel_gateway.faces.e2b.identifiers import resolve_path
from kernel_gateway.faces.responses import Response

DEEPEST: Final = 64
"""Levels of one listing."""


def _resolve(call: Call, path: str) -> str:
    return resolve_path(path, read_user(call.headers.get("Authorization", "")))


async def stat_file(call: Call) -> Response:
    found = await call.services.sandbox_files.stat(call.principal, call.session_id, _resolve(call, call.body.path))
    return Response({"entry": answers.describe_entry(found)})


async def list_directory(call: Call) -> Response:
    depth = call.body.depth or 1
    if depth > DEEPEST:
        raise InvalidRequest(f"depth is at most {DEEPEST}")
    path = _resolve(call, call.body.path)
    if (await call.services.sandbox_files.stat(call.principal, call.session_id, path)).kind != "directory":
        raise InvalidRequest(f"path is not a directory: {path}")
    found = await call.services.sandbox_files.list(call.principal, call.session_id, path, depth)
    return Response({"entries": [answers.describe_entry(each) for each in found]})


async def make_directory(call: Call) -> Response:
    made = await call.services.sandbox_files.make_directory(
        call.principal, call.session_id, _resolve(call, call.body.path)
    )
    return Response({"entry": answers.describe_entry(made)})


async def move_file(call: Call) -> Response:
    moved = await call.services.sandbox_files.move(
        call.principal, call.session_id, _resolve(call, call.body.source), _resolve(call, call.body.destination)
    )
    return Response({"entry": answers.describe_entry(moved)})


async def remove_file(call: Call) -> Response:
    path = _resolve(call, call.body.path)
    if path == "/":
        raise Conflict("the root directory is not removed")
    with contextlib.suppress(NotFound):  # as envd has it: then it is not there either
        await call.services.sandbox_files.remove(call.principal, call.session_id, path)
    return Response({})
