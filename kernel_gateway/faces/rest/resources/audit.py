"""The audit log; whose records a caller sees is for the services to decide."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import AuditPage
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.storage.audit import AuditFilter
from sandcell.models.audit import AuditRecord, AuditVerification
from sandcell.models.model import Page


async def list_audit_records(call: Call) -> Page[AuditRecord]:
    query = call.query
    wanted = AuditFilter(
        session_id=query.session_id,
        principal=query.principal,
        kind=query.kind,
        event=query.event,
        error_code=query.error_code,
        allowed=query.allowed,
        since=query.since.timestamp() if query.since else None,
        until=query.until.timestamp() if query.until else None,
    )
    return await call.services.audit.list(call.principal, wanted, query.limit, query.cursor)


async def verify_audit_log(call: Call) -> AuditVerification:
    return await call.services.audit_check.begin(call.principal)


async def get_audit_verification(call: Call) -> AuditVerification:
    return await call.services.audit_check.get(call.principal)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/audit",
        list_audit_records,
        name="listAuditRecords",
        event="LookupEvents",
        summary="Look into the audit log, newest first: your own records, an administrator all",
        result=Page[AuditRecord],
        query=AuditPage,
        errors=(e.Forbidden,),
    ),
    Route(
        "POST",
        "/v1/audit/verification",
        verify_audit_log,
        name="verifyAuditLog",
        event="VerifyAuditLog",
        summary="Begin to verify that the audit log is as it was written, unless that goes on",
        result=AuditVerification,
        status=202,
        looks=True,
        errors=(e.Forbidden,),
    ),
    Route(
        "GET",
        "/v1/audit/verification",
        get_audit_verification,
        name="getAuditVerification",
        event="GetAuditVerification",
        summary="How far the verification that was begun last is, or what it found",
        result=AuditVerification,
        errors=(e.Forbidden, e.NotFound),
    ),
)
