"""Calls that two gateways have a part in: copies from a workspace that is at one to one that is at another.

The source's gateway has the store hold what the source has now, then asks the target's with the caller's own
credentials, marked, so that it goes no further. Both read the source in the store that all gateways share.
"""

from __future__ import annotations

from typing import Final

from tornado.httpclient import AsyncHTTPClient, HTTPError, HTTPRequest
from tornado.httputil import HTTPHeaders, HTTPServerRequest

from kernel_gateway.client_address import MARK, make_marked_headers
from kernel_gateway.errors import SessionElsewhere
from kernel_gateway.faces.responses import JSON, Response
from kernel_gateway.faces.rest.calls import Call
from workspace_sync import TransferLimits

CONNECT_SECONDS: Final = 2.0
_OF_THE_BODY: Final = ("Content-Length", "Content-Type", "Transfer-Encoding", "Content-Encoding", "Expect")
_ANSWERED: Final = ("Retry-After", "WWW-Authenticate")


def is_passed_on(call: Call) -> bool:
    """Whether another gateway asks."""
    return call.services.gateways.lease is not None and MARK in call.headers


async def copy_elsewhere(call: Call, target_id: str) -> Response | None:
    """The answer of the gateway that the target is at, if that is another that lives; None: it is to be made here."""
    gateways, source_id = call.services.gateways, call.ids["workspace_id"]
    home = await gateways.find("workspace", target_id) if gateways.lease is not None else None
    if home is None or not home.alive or gateways.is_self(home):
        return None
    if is_passed_on(call):  # to the source's gateway, or by that: then it goes no further
        source = await gateways.find("workspace", source_id)
        if source is None or not gateways.is_self(source):
            return None
    await call.services.datasets.bring_up_to_date(call.principal, source_id)
    return await call.pass_on(home.address)


async def ask_again(request: HTTPServerRequest, gateway_id: str, address: str, body: bytes) -> Response:
    """The same request with a body of JSON; raises SessionElsewhere where there is no answer."""
    headers = HTTPHeaders()
    for name, value in make_marked_headers(request, gateway_id):
        headers.add(name, value)
    for name in _OF_THE_BODY:
        headers.pop(name, None)
    headers["Content-Type"] = JSON
    client = AsyncHTTPClient(force_instance=True)
    try:
        answer = await client.fetch(
            HTTPRequest(
                f"{address}{request.uri}",
                method=str(request.method),
                headers=headers,
                body=body,
                connect_timeout=CONNECT_SECONDS,
                request_timeout=TransferLimits().attempt_seconds + CONNECT_SECONDS,
                follow_redirects=False,
                decompress_response=False,
            ),
            raise_error=False,
        )
    except (OSError, HTTPError) as error:
        raise SessionElsewhere(f"the gateway that has the target did not answer: {error}; try again") from None
    finally:
        client.close()
    kept = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
    return Response(answer.body, answer.code, {"Content-Type": JSON, **kept})
