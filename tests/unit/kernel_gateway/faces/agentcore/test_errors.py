"""Every error of the service as AWS's: a shape that clients know, its status, members as the model has them."""

from __future__ import annotations

import pytest
from botocore.loaders import Loader

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as f
from kernel_gateway.faces.agentcore.errors import STATUS, UNKNOWN_OPERATION, VALIDATION, make_refusal
from kernel_gateway.identity.sigv4 import SignatureProblem
from tests.unit.kernel_gateway.faces.made_errors import make_error

MODEL = Loader().load_service_model("bedrock-agentcore", "service-2")["shapes"]


@pytest.mark.parametrize("kind", e.every_error(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_shape_of_the_model(kind: type[e.GatewayError]) -> None:
    found = make_refusal(make_error(kind))
    assert found.message
    assert found.status == STATUS[found.shape] or issubclass(kind, f.MethodNotAllowed)
    if found.shape == UNKNOWN_OPERATION:
        return
    shape = MODEL[found.shape]
    assert shape["error"]["httpStatusCode"] == found.status
    assert set(shape.get("required", [])) <= set(found.body()) <= set(shape["members"])
    if found.shape == VALIDATION:
        assert found.reason in MODEL["ValidationExceptionReason"]["enum"]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (e.SessionTerminated, "ResourceNotFoundException"),
        (e.UnknownEnvironment, "ResourceNotFoundException"),
        (e.SessionLimit, "ServiceQuotaExceededException"),
        (e.QuotaReached, "ServiceQuotaExceededException"),
        (e.NoSpace, "ServiceQuotaExceededException"),
        (e.RateLimited, "ThrottlingException"),
        (e.QueueFull, "ThrottlingException"),
        (e.HasDependents, "ConflictException"),
        (e.Forbidden, "AccessDeniedException"),
        (e.ShuttingDown, "InternalServerException"),
        (e.PayloadTooLarge, "ValidationException"),
    ],
)
def test_which_shape(kind: type[e.GatewayError], shape: str) -> None:
    assert make_refusal(make_error(kind)).shape == shape


def test_reasons_and_fields() -> None:
    assert make_refusal(f.MalformedJson("no JSON")).reason == "CannotParse"
    assert make_refusal(e.IdempotencyConflict("again")).reason == "IdempotentParameterMismatchException"
    named = make_refusal(e.InvalidRequest("name: too long", field="name"))
    assert named.body()["fieldList"] == [{"name": "name", "message": "name: too long"}]
    assert "fieldList" not in make_refusal(e.InvalidRequest("nothing named")).body()


def test_when_to_come_again_is_said_in_milliseconds() -> None:
    assert make_refusal(e.RateLimited("later", retry_after_seconds=0.25)).headers == {"x-amz-retry-after": "250"}
    assert make_refusal(e.RateLimited("later", retry_after_seconds=0)).headers == {"x-amz-retry-after": "1"}


def test_signatures_keep_aws_codes() -> None:
    found = make_refusal(SignatureProblem("InvalidSignatureException", "it does not match"))
    assert (found.shape, found.status, found.body()) == (
        "InvalidSignatureException",
        403,
        {"message": "it does not match"},
    )
