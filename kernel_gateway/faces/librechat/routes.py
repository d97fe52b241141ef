"""The one table of this face: methods, addresses, names in the audit log."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final
from urllib.parse import unquote

from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.librechat import execution, files, requests
from kernel_gateway.faces.librechat.places import Call
from kernel_gateway.faces.routing import RouteTree
from sandcell.models.credentials import Scope


@dataclass(frozen=True)
class Route(routing.Route[Call]):
    """One method at one address. `uploads`: its body is handed on as it came, and may be as large as a payload."""

    _: KW_ONLY
    uploads: bool = False

    def find_scope(self) -> Scope:
        return scopes.find_librechat_scope(self.name)


V1: Final = "/librechat/v1"
FILE: Final = "{storage_id}/{file_id}"
TABLE: Final = (
    Route(
        "POST",
        f"{V1}/exec",
        execution.execute_code,
        name="ExecuteCode",
        summary="Run code as a program of its own",
        body=requests.ExecuteCode,
    ),
    Route(
        "POST",
        f"{V1}/exec/programmatic",
        execution.execute_programmatic,
        name="ExecuteProgrammatic",
        summary="Code that calls the client's tools: not supported",
        body=requests.Anything,
    ),
    Route(
        "POST", f"{V1}/upload", files.upload_file, name="UploadFile", summary="Upload files, all or none", uploads=True
    ),
    Route(
        "POST",
        f"{V1}/upload/batch",
        files.upload_files,
        name="UploadFiles",
        summary="Upload files, each by itself",
        uploads=True,
    ),
    Route("GET", f"{V1}/files/{{storage_id}}", files.list_files, name="ListFiles", summary="The files of a session"),
    Route("DELETE", f"{V1}/files/{FILE}", files.delete_file, name="DeleteFile", summary="Delete a file"),
    Route(
        "GET",
        f"{V1}/sessions/{{storage_id}}/objects/{{file_id}}",
        files.stat_file,
        name="StatFile",
        summary="What is known of a file, when it was changed last",
    ),
    Route("GET", f"{V1}/download/{FILE}", files.download_file, name="DownloadFile", summary="Download a file"),
)
ADDRESSES: Final = RouteTree(TABLE, decode=unquote)


def list_routes() -> list[tuple[str, str, str, str]]:
    """Method, address, success and summary of every route, for the docs."""
    return [(each.method, each.path, str(each.status), each.summary) for each in TABLE]
