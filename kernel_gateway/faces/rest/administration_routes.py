"""The rows of the table of routes that are about credentials and the audit log."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest import administration
from kernel_gateway.faces.rest.parameters import AuditPage, CreateKey, CreateToken, PageOf, RotateToken
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.shapes import AccessKeyInfo, AuditRecord, Page, TokenInfo

ADMIN: Final[Errors] = (e.Forbidden,)
ID: Final[Errors] = (e.NotFound,)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        "/v1/tokens",
        administration.create_token,
        "Create a token, and its principal when new; the answer alone carries the secret",
        TokenInfo,
        201,
        CreateToken,
        errors=ADMIN,
    ),
    Route("GET", "/v1/tokens", administration.tokens, "List tokens", Page[TokenInfo], query=PageOf, errors=ADMIN),
    Route(
        "DELETE",
        "/v1/tokens/{token_id}",
        administration.revoke_token,
        "Revoke a token",
        TokenInfo,
        errors=(*ADMIN, *ID),
    ),
    Route(
        "POST",
        "/v1/tokens/{token_id}/rotate",
        administration.rotate_token,
        "Put another token in place of one, of the same principal, name, scope and lifetime",
        TokenInfo,
        201,
        RotateToken,
        errors=(*ADMIN, *ID, e.Conflict),
    ),
    Route(
        "POST",
        "/v1/keys",
        administration.create_key,
        "Create an access key, and its principal when new; the answer alone carries the secret",
        AccessKeyInfo,
        201,
        CreateKey,
        errors=ADMIN,
    ),
    Route("GET", "/v1/keys", administration.keys, "List access keys", Page[AccessKeyInfo], query=PageOf, errors=ADMIN),
    Route(
        "DELETE",
        "/v1/keys/{key_id}",
        administration.revoke_key,
        "Revoke an access key",
        AccessKeyInfo,
        errors=(*ADMIN, *ID),
    ),
    Route(
        "GET",
        "/v1/audit",
        administration.audit,
        "Look into the audit log, newest first: your own records, an administrator all",
        Page[AuditRecord],
        query=AuditPage,
        errors=ADMIN,
    ),
)
