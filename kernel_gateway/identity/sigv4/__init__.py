"""Requests signed with AWS Signature Version 4, as a server verifies them. Pure: no I/O, and the clock is passed in.

`read_claim` reads what a request says of its signature, `require_timely` whether that is of this time, and `verify`
whether the signature is right, once the body's hash is known. All raise `SignatureProblem`, which says with AWS's own
code and a sentence why a request is refused.
"""

from kernel_gateway.identity.sigv4.canonical import EMPTY_BODY, UNSIGNED_PAYLOAD, parse_parameters
from kernel_gateway.identity.sigv4.claim import SERVICE, Claim, read_claim
from kernel_gateway.identity.sigv4.problem import SignatureProblem
from kernel_gateway.identity.sigv4.request import SignedRequest
from kernel_gateway.identity.sigv4.verification import SKEW_SECONDS, require_timely, verify

__all__ = [
    "EMPTY_BODY",
    "SERVICE",
    "SKEW_SECONDS",
    "UNSIGNED_PAYLOAD",
    "Claim",
    "SignatureProblem",
    "SignedRequest",
    "parse_parameters",
    "read_claim",
    "require_timely",
    "verify",
]
