"""A principal's requests have a rate, over all faces together; what is open to everybody has none."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.running_service import RunningService

KEY, SECRET = "AKIDOFTHEADMIN", "SECRETOFTHEADMIN"


def test_looking_has_a_rate_on_every_face(make_service: Callable[..., RunningService]) -> None:
    service = make_service(requests_per_second=0.1, access_key_id=KEY, secret_access_key=SECRET)
    bearer = {"Authorization": f"Bearer {service.token}"}
    signed = AWSRequest(method="GET", url=f"{service.url}/code-interpreters/aws.codeinterpreter.v1")
    SigV4Auth(Credentials(KEY, SECRET), "bedrock-agentcore", "eu-central-1").add_auth(signed)
    with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as http:
        assert http.get("/v1/sessions", headers=bearer).status_code == 200
        again = http.get("/v1/sessions", headers=bearer)
        assert (again.status_code, again.json()["error"]["code"]) == (429, "rate_limited")
        assert 1 <= int(again.headers["Retry-After"]) <= 10
        assert http.get("/api/kernels", headers=bearer).status_code == 429
        google = http.get("/v1/projects/p/locations/l/reasoningEngines", headers=bearer)
        assert (google.status_code, google.json()["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
        throttled = http.get("/code-interpreters/aws.codeinterpreter.v1", headers=dict(signed.headers.items()))
        assert (throttled.status_code, throttled.headers["x-amzn-ErrorType"]) == (429, "ThrottlingException")
        assert http.get("/v1/sessions", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert [http.get("/healthz").status_code for _ in range(5)] == [200] * 5
    service.stop()
