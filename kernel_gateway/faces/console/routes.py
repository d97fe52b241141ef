"""The one table of this face, and its endpoints: the page and its parts, signing in, out, and who is signed in."""

from __future__ import annotations

from typing import Final

import msgspec

from kernel_gateway.errors import InvalidRequest, Unauthorized
from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.browser import find_secret, make_cookie, takes_html
from kernel_gateway.faces.calls import AdmittedCall
from kernel_gateway.faces.console.pages import list_names, read_document
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.routing import RouteTree
from kernel_gateway.identity.principal import Caller
from kernel_gateway.services.clock import rfc3339_or_none
from kernel_gateway.services.credentials.sign_ins import SIGN_IN_SECONDS
from sandcell.models.credentials import Scope

PAGE: Final = "/"
NOTHING_HERE: Final = "there is nothing at this address of the console"


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A token, or the code of a link that `sandcell console` made."""

    token: str = ""
    link: str = ""


class Link(msgspec.Struct, forbid_unknown_fields=True):
    """The code of a link that `sandcell console` made."""

    link: str


class WhoIsSignedIn(msgspec.Struct):
    """Who is signed in, for what and until when."""

    principal: str
    administrator: bool
    scope: Scope
    expires_at: str | None


class Route(routing.Route[AdmittedCall]):
    """One method at one address."""

    def find_scope(self) -> Scope | None:
        return scopes.find_console_scope(self.name)


async def get_page(call: AdmittedCall) -> Response:
    # VS Code and others ask here whether a Jupyter server wants a password: any page would be the form for one.
    if not takes_html(call.headers):
        raise UnknownRoute("there is nothing at this address but a page for browsers; /v1/openapi.json lists the rest")
    return _answer(call, "index.html")


async def get_output_frame(call: AdmittedCall) -> Response:
    return _answer(call, "output.html")


async def get_asset(call: AdmittedCall) -> Response:
    return _answer(call, f"assets/{call.ids['name']}")


async def look_at_link(call: AdmittedCall) -> WhoIsSignedIn:
    """Whom a link signs in, so that the page can ask first: whoever made it may not be who opens it."""
    body: Link = call.body
    return _describe(await call.services.sign_ins.look_at_link(body.link))


async def sign_in(call: AdmittedCall) -> Response:
    """The browser is given a cookie: no script ever reads it. The one it had counts no longer."""
    body: SignIn = call.body
    if bool(body.token) == bool(body.link):
        raise InvalidRequest("give a token, or the code of a link")
    sign_ins = call.services.sign_ins
    signed_in = await (sign_ins.use_token(body.token) if body.token else sign_ins.use_link(body.link))
    call.found = signed_in.caller
    sign_ins.sign_out(find_secret(call.headers))
    cookie = make_cookie(call.headers, signed_in.secret, SIGN_IN_SECONDS)
    return Response(_describe(signed_in.caller), headers={"Set-Cookie": cookie})


async def get_sign_in(call: AdmittedCall) -> WhoIsSignedIn:
    return _describe(call.caller)


async def sign_out(call: AdmittedCall) -> Response:
    """The cookie goes also when it counts no longer, as after a restart of the service."""
    sign_ins, secret = call.services.sign_ins, find_secret(call.headers)
    try:
        call.found = await sign_ins.authenticate(secret)  # for the audit log
    except Unauthorized:
        pass
    finally:
        sign_ins.sign_out(secret)  # also while the database does not answer
    return Response(headers={"Set-Cookie": make_cookie(call.headers, "", 0)})


def _answer(call: AdmittedCall, name: str) -> Response:
    if name not in list_names():
        raise UnknownRoute(NOTHING_HERE)
    document = read_document(name)
    if "gzip" in call.headers.get("Accept-Encoding", ""):
        return Response(document.compressed, headers={**document.headers, "Content-Encoding": "gzip"})
    return Response(document.content, headers=document.headers)


def _describe(caller: Caller) -> WhoIsSignedIn:
    return WhoIsSignedIn(caller.principal.name, caller.principal.admin, caller.scope, rfc3339_or_none(caller.expires))


TABLE: Final = (
    Route("GET", PAGE, get_page, name="GetConsole", summary="The console"),
    Route(
        "GET",
        "/console/output.html",
        get_output_frame,
        name="GetConsoleFrame",
        summary="The frame in which it shows HTML that a sandbox put out",
    ),
    Route("GET", "/console/assets/{name}", get_asset, name="GetConsoleAsset", summary="Its scripts and styles"),
    Route(
        "POST",
        "/console/sign-in",
        sign_in,
        name="SignIn",
        summary="Sign in by a token, or by a link that counts once; the answer sets a cookie",
        body=SignIn,
    ),
    Route(
        "POST",
        "/console/links",
        look_at_link,
        name="LookAtConsoleLink",
        summary="Whom a link would sign in; it counts on",
        body=Link,
        looks=True,
    ),
    Route("GET", "/console/sign-in", get_sign_in, name="GetSignIn", summary="Who is signed in"),
    Route("DELETE", "/console/sign-in", sign_out, name="SignOut", summary="Sign out", status=204),
)
ADDRESSES: Final = RouteTree(TABLE)


def list_routes() -> list[tuple[str, str, str, str]]:
    """Method, address, success and summary of every route, for the docs."""
    return [(each.method, each.path, str(each.status), each.summary) for each in TABLE]
