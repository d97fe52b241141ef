"""Records of the audit log."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sandcell.models.model import Model


class AuditRecord(Model):
    """One entry of the audit log. `reason` is a stable word, a colon and a sentence; `detail` depends on the kind.

    Kinds: `api` (a call of an interface; detail has CloudTrail's members, as eventName, userIdentity, errorCode),
    `egress` (events `http`, `connect`, `s3`; detail has method, address, and bytes once it is over), `retention` (event
    `ExpireWorkspace`; detail has when it was last used) and `audit` (event `dropped`: records came faster than they are
    kept; detail has how many, and whether they were allowed; `digest`: a signature for a range of records;
    `chain_broken`: the end of the chain was not as the service had left it).

    `hash` is the record's place in the chain of all; none: it is older than the chain.
    """

    number: int
    at: str
    kind: str
    event: str
    allowed: bool
    reason: str
    target: str
    principal: str | None = None
    session_id: str | None = None
    hash: str | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)


class AuditProblem(Model):
    """What is wrong with the audit log, and with which record; none: with an end of its chain."""

    text: str
    number: int | None = None


class AuditVerification(Model):
    """Whether the database's audit log is as it was written, and how far it was looked at.

    `running`, until it is `whole`, `broken` (`problems` has the first record that is not as it was) or `failed`
    (`error` says why nothing can be said). `records`, from `first` to `last`, are in order; `newest` is where the chain
    ends. `digests` are signatures among them, `outside` records that are older than the chain.
    """

    state: Literal["running", "whole", "broken", "failed"]
    started_at: str
    ended_at: str | None = None
    records: int = 0
    first: int | None = None
    last: int | None = None
    newest: int = 0
    digests: int = 0
    outside: int = 0
    public_key: str = ""
    problems: list[AuditProblem] = msgspec.field(default_factory=list)
    error: str = ""
