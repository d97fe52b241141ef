"""What an S3 server and the way to it can say, in our words: which error, whose fault, what to do.

Errors that concern the whole store (credentials, bucket, region, clock) are `StoreUnusable`, one permission is
`PermissionMissing`, what may pass is `StoreUnavailable` or `StoreFull`. No message repeats what a server wrote but its
code and the name of a permission: a server's text may hold anything.
"""

from __future__ import annotations

import re
from typing import Any

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from workspace_sync.errors import (
    ObjectNotFound,
    PermissionMissing,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    StoreUnusable,
)

# Whether what came back is an S3 server's answer at all.
#
# A proxy's page with status 200 would otherwise pass for an empty listing, or for a file that was written. Such an
# answer counts as none.

_MARKS = {
    "DeleteObjects": b"DeleteResult",
    "CopyObject": b"ETag",
    "CreateMultipartUpload": b"UploadId",
    "UploadPartCopy": b"ETag",
    "CompleteMultipartUpload": b"ETag",
}
"""What is in each answer in XML, whatever the server."""
_TAGGED = frozenset({"PutObject", "GetObject", "HeadObject", "UploadPart"})
"""Operations whose answer names the object's ETag."""


def require_s3_answers(client: Any) -> None:
    """From now on this client raises `ResponseParserError` for a success that no S3 server would put so."""
    client.meta.events.register("before-parse.s3", _look)


def etag_of(answer: Any) -> str:
    """The ETag in an answer as botocore gives it, without its quotes; empty when there is none."""
    return str(answer.get("ETag", "")).strip('"')


def _look(operation_model: Any, response_dict: Any, **_: Any) -> None:
    if response_dict["status_code"] >= 300:
        return
    name = operation_model.name
    if name in _TAGGED:
        tags = [value for header, value in response_dict["headers"].items() if header.lower() == "etag"]
        if not any(tag.strip('"') for tag in tags):  # rclone so acknowledges a file that it did not keep
            if operation_model.has_streaming_output:
                response_dict["body"].close()
            raise ResponseParserError(f"an answer to {name} without an ETag")
    elif name in _MARKS:
        body = response_dict["body"]
        if _MARKS[name] not in body and b"<Error" not in body:
            raise ResponseParserError(f"an answer to {name} that is none")


PERMISSIONS = {
    "PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject", "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject", "CopyObject": "s3:PutObject", "UploadPartCopy": "s3:PutObject",
    "GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "ListObjectsV2": "s3:ListBucket",
    "HeadBucket": "s3:ListBucket", "DeleteObject": "s3:DeleteObject", "DeleteObjects": "s3:DeleteObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload", "ListParts": "s3:ListMultipartUploadParts",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
}  # fmt: skip
"""What Amazon asks of a caller for each operation; other servers use the same names."""

_NAMED = re.compile(r"perform: ((?:s3|kms):[A-Za-z]{3,40})\b")
"""The permission in the text of Amazon's refusals, more exact than what an operation asks for: of a key, for one."""
WAITS = "what waits is kept and retried"
ABSENT = frozenset({"NoSuchKey", "404", "NotFound"})
"""Codes of an object that is not there."""
_FORBIDDEN = frozenset({"AccessDenied", "403", "Forbidden", "AllAccessDisabled", "UnauthorizedAccess"})
_FULL = frozenset({"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"})
_BUSY = frozenset({
    "SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded",
    "OperationAborted", "ServiceUnavailable", "InternalError", "TemporaryRedirect",
})  # fmt: skip
_DAMAGED = frozenset({"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "IncompleteBody"})
_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301"})
_UNUSABLE = {
    "NoSuchBucket": "there is no such bucket. Create it or correct its name",
    "InvalidBucketName": "this is no name of a bucket. Correct it",
    "InvalidAccessKeyId": "it does not know the access key id. Correct AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the secret access key is not that of the access key id. Correct AWS_SECRET_ACCESS_KEY",
    "InvalidToken": "it does not know the session token. Correct AWS_SESSION_TOKEN",
    "400": "it refuses without a word, as for credentials that have expired and for another region. Check both",
    "RequestTimeTooSkewed": "this host's clock differs too much from the store's. Set it",
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"),
        f"the credentials have expired. Renew them; {WAITS}",
    ),
}
_SILENCE: tuple[tuple[type[Exception], str], ...] = (
    (boto.SSLError, "the way to it is not secure (TLS). Check endpoint_url and the server's certificate"),
    (boto.ProxyConnectionError, "the proxy on the way to it does not answer. Check HTTP_PROXY, HTTPS_PROXY, NO_PROXY"),
    (boto.EndpointConnectionError, "nothing answers there. Check endpoint_url, and that the server runs"),
    (boto.ConnectTimeoutError, "nothing answers there. Check endpoint_url, and that the server runs"),
    (boto.ReadTimeoutError, "its answer takes too long"),
    (ResponseParserError, "what answers does not speak S3, or broke off. Check endpoint_url"),
)
_UNOBTAINABLE = (
    boto.CredentialRetrievalError, boto.TokenRetrievalError, boto.UnauthorizedSSOTokenError, boto.SSOError,
    boto.ConfigNotFound, boto.ConfigParseError, boto.ProfileNotFound, boto.RefreshWithMFAUnsupportedError,
)  # fmt: skip


class Translated:
    """Lets only our errors out of the block; `where` says which store. A class, since each request enters two."""

    __slots__ = ("_key", "_where")

    def __init__(self, where: str, key: str = "") -> None:
        self._where = where
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        if isinstance(error, boto.ClientError):
            raise explain_refusal(self._where, error, self._key) from error
        if isinstance(error, boto.BotoCoreError | boto.HTTPClientError | ResponseParserError):
            raise explain_silence(self._where, error) from error


def read_code(error: boto.ClientError) -> str:
    """The S3 error code of an answer that says no."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def explain_refusal(where: str, error: boto.ClientError, key: str = "") -> StoreError:
    """Our error for an answer that says no."""
    response: Any = error.response
    code = read_code(error)
    meta = response.get("ResponseMetadata", {})
    if code in _REGION:
        return _explain_region(where, response)
    named = _NAMED.search(str(response.get("Error", {}).get("Message", "")))
    if code in _FORBIDDEN and named:
        return explain_missing(where, [named[1]], key)
    return explain_code(where, code, int(meta.get("HTTPStatusCode", 0)), error.operation_name, key)


def explain_code(where: str, code: str, status: int, operation: str, key: str = "") -> StoreError:
    """Our error for an S3 error code and an HTTP status; 0 for an error inside an answer."""
    if code in _FORBIDDEN:
        return explain_missing(where, [PERMISSIONS.get(operation, f"s3:{operation}")], key)
    if code in _UNUSABLE:
        return StoreUnusable(f"{where}: {_UNUSABLE[code]} ({code})")
    kind, advice = _kind(code, status, operation)
    return kind(f"{where}: {code}" + (f" for {key!a}" if key else "") + advice)


def _kind(code: str, status: int, operation: str) -> tuple[type[StoreError], str]:
    if code in ABSENT:
        return ObjectNotFound, ""
    if status == 507 or code in _FULL:
        return StoreFull, ". Free space in it; what waits is written then"
    if code in _DAMAGED:
        return StoreUnavailable, ". What was sent arrived damaged; it is sent again"
    if status == 501 or code == "NotImplemented":
        return StoreRefused, f". This server does not know {operation}"
    if status == 429 or status >= 500 or code in _BUSY:
        return StoreUnavailable, f". It answers, but cannot serve now; {WAITS}"
    return StoreRefused, ". Check the bucket's name, the credentials and what they allow"


def explain_missing(where: str, permissions: list[str], key: str = "") -> PermissionMissing:
    """These permissions are missing."""
    named = " and ".join(filter(None, (", ".join(permissions[:-1]), permissions[-1])))
    allow = "it" if len(permissions) == 1 else "them"
    about = f" for {key!a}" if key else ""
    return PermissionMissing(
        f"{where}: the credentials do not allow {named}{about}. Allow {allow} for the bucket and the keys below the"
        " prefix, in the policy of the user or of the bucket",
        tuple(permissions),
    )


def explain_silence(where: str, error: Exception) -> StoreError:
    """Our error when no answer came, or none was asked for."""
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
        return StoreUnusable(
            f"{where}: no credentials were found, or half of them. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if isinstance(error, _UNOBTAINABLE):
        return StoreUnusable(
            f"{where}: the credentials cannot be had ({type(error).__name__}). Check AWS_PROFILE and the files and"
            f" services that they come from; {WAITS}"
        )
    if isinstance(error, (boto.NoRegionError, boto.InvalidRegionError)):
        return StoreUnusable(f"{where}: no region is known, or a wrong one. Name it with region= in the store's URL")
    if isinstance(error, boto.ParamValidationError):
        return StoreRefused(f"{where}: it cannot be asked for that. Check the bucket's name")
    for kind, why in _SILENCE:
        if isinstance(error, kind):
            return StoreUnavailable(f"{where} does not answer: {why} ({type(error).__name__}); {WAITS}")
    return StoreUnavailable(f"{where} does not answer: it broke off ({type(error).__name__}); {WAITS}")


def _explain_region(where: str, response: Any) -> StoreUnusable:
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region = str(response.get("Error", {}).get("Region") or headers.get("x-amz-bucket-region") or "")
    known = region if region.replace("-", "").isalnum() and len(region) < 40 else ""
    return StoreUnusable(
        f"{where}: the bucket is in another region. "
        + (f"Add region={known} to the store's URL" if known else "Name it with region= in the store's URL")
    )
