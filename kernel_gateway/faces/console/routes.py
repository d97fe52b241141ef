"""The one table of this face, and its endpoints: the page and its parts, signing in, out, and who is signed in."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Final

import msgspec

from kernel_gateway.errors import InvalidRequest, Unauthorized
from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.browser import ATTEMPT_COOKIE, find_attempt, find_origin, find_secret, make_cookie, takes_html
from kernel_gateway.faces.calls import AdmittedCall
from kernel_gateway.faces.console.pages import list_names, read_document
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.routing import RouteTree
from kernel_gateway.identity.openid import ATTEMPT_SECONDS
from kernel_gateway.identity.principal import Caller
from kernel_gateway.services.clock import rfc3339_or_none
from kernel_gateway.services.credentials.sign_ins import SIGN_IN_SECONDS
from sandcell.models.credentials import Scope

PAGE: Final = "/"
NOTHING_HERE: Final = "there is nothing at this address of the console"


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A token, the code of a link that `sandcell console` made, or what an identity provider sent the browser with."""

    token: str = ""
    link: str = ""
    code: str = ""
    state: str = ""


class Link(msgspec.Struct, forbid_unknown_fields=True):
    """The code of a link that `sandcell console` made."""

    link: str


class LookAt(msgspec.Struct, forbid_unknown_fields=True):
    """The principal to look at; empty: one's own."""

    principal: str


class WhoIsSignedIn(msgspec.Struct):
    """Who is signed in, for what and until when; `person` is who looks at the principal's things, if not its own."""

    principal: str
    administrator: bool
    scope: Scope
    expires_at: str | None
    person: str = ""
    looks_at: tuple[str, ...] = ()


class IdentityProvider(msgspec.Struct):
    """The host of the provider that people may sign in by; empty where there is none."""

    name: str


class ProviderAddress(msgspec.Struct):
    """Where the browser goes to sign in."""

    url: str


class Route(routing.Route[AdmittedCall]):
    """One method at one address."""

    def find_scope(self) -> Scope | None:
        return scopes.find_console_scope(self.name)


async def get_page(call: AdmittedCall) -> Response:
    # VS Code and others ask here whether a Jupyter server wants a password: any page would be the form for one.
    if not takes_html(call.headers):
        raise UnknownRoute("there is nothing at this address but a page for browsers; /v1/openapi.json lists the rest")
    return _answer(call, "index.html")


async def get_frame(call: AdmittedCall, name: str) -> Response:
    return _answer(call, name)


async def get_asset(call: AdmittedCall) -> Response:
    return _answer(call, f"assets/{call.ids['name']}")


async def look_at_link(call: AdmittedCall) -> WhoIsSignedIn:
    """Whom a link signs in, so that the page can ask first: whoever made it may not be who opens it."""
    body: Link = call.body
    return _describe(await call.services.sign_ins.look_at_link(body.link))


async def sign_in(call: AdmittedCall) -> Response:
    """The browser is given a cookie: no script ever reads it. The one it had counts no longer."""
    body: SignIn = call.body
    if [bool(body.token), bool(body.link), bool(body.code and body.state)].count(True) != 1:
        raise InvalidRequest("give a token, the code of a link, or code and state of an identity provider")
    sign_ins = call.services.sign_ins
    if body.token:
        signed_in = await sign_ins.use_token(body.token)
    elif body.link:
        signed_in = await sign_ins.use_link(body.link)
    else:
        vouched = await call.services.provider.finish(find_attempt(call.headers), body.state, body.code)
        signed_in = await sign_ins.use_rights(vouched.name, vouched.rights)
    call.found = signed_in.caller
    await sign_ins.sign_out(find_secret(call.headers))
    cookie = make_cookie(call.headers, signed_in.secret, SIGN_IN_SECONDS)
    return Response(_describe(signed_in.caller, signed_in.looks_at), headers={"Set-Cookie": cookie})


async def get_provider(call: AdmittedCall) -> IdentityProvider:
    return IdentityProvider(call.services.provider.name)


async def begin_sign_in(call: AdmittedCall) -> Response:
    """The browser keeps what is to fit what it comes back with; no script ever reads it."""
    origin = find_origin(call.headers)
    if not origin:
        raise InvalidRequest("only a browser that says which page asks is sent to sign in")
    begun = await call.services.provider.begin(origin)
    cookie = make_cookie(call.headers, begun.kept, int(ATTEMPT_SECONDS), ATTEMPT_COOKIE)
    return Response(ProviderAddress(begun.url), headers={"Set-Cookie": cookie})


async def look_at_principal(call: AdmittedCall) -> WhoIsSignedIn:
    body: LookAt = call.body
    secret = find_secret(call.headers)
    call.found = caller = await call.services.sign_ins.look_at(secret, body.principal)
    return _describe(caller, await call.services.sign_ins.list_looked_at(secret))


async def get_sign_in(call: AdmittedCall) -> WhoIsSignedIn:
    return _describe(call.caller, await call.services.sign_ins.list_looked_at(find_secret(call.headers)))


async def sign_out(call: AdmittedCall) -> Response:
    """The cookie goes also when it counts no longer, and stays while the database cannot be told."""
    sign_ins, secret = call.services.sign_ins, find_secret(call.headers)
    with contextlib.suppress(Unauthorized):
        call.found = await sign_ins.authenticate(secret)  # for the audit log
    await sign_ins.sign_out(secret)
    return Response(headers={"Set-Cookie": make_cookie(call.headers, "", 0)})


def _answer(call: AdmittedCall, name: str) -> Response:
    if name not in list_names():
        raise UnknownRoute(NOTHING_HERE)
    document = read_document(name)
    if "gzip" in call.headers.get("Accept-Encoding", ""):
        return Response(document.compressed, headers={**document.headers, "Content-Encoding": "gzip"})
    return Response(document.content, headers=document.headers)


def _describe(caller: Caller, looks_at: tuple[str, ...] = ()) -> WhoIsSignedIn:
    principal = caller.principal
    return WhoIsSignedIn(
        principal.name,
        principal.admin,
        caller.scope,
        rfc3339_or_none(caller.expires),
        principal.looked_at_by,
        looks_at,
    )


TABLE: Final = (
    Route("GET", PAGE, get_page, name="GetConsole", summary="The console"),
    *(
        Route(
            "GET",
            f"/console/{name}",
            partial(get_frame, name=name),
            name=operation,
            summary=f"The frame in which it shows {what}",
        )
        for name, operation, what in (
            ("output.html", "GetConsoleFrame", "HTML that a sandbox put out"),
            ("pdf.html", "GetConsolePdfFrame", "PDFs"),
            ("prose.html", "GetConsoleProseFrame", "Markdown and formulas"),
            ("plotly.html", "GetConsolePlotlyFrame", "figures of Plotly"),
            ("vega.html", "GetConsoleVegaFrame", "charts of Vega and Vega-Lite"),
            ("parquet.html", "GetConsoleParquetFrame", "rows of Parquet files, which it reads"),
            ("widgets.html", "GetConsoleWidgetsFrame", "Jupyter's widgets as their kernel describes them"),
        )
    ),
    Route("GET", "/console/assets/{name}", get_asset, name="GetConsoleAsset", summary="Its scripts and styles"),
    Route(
        "POST",
        "/console/sign-in",
        sign_in,
        name="SignIn",
        summary="Sign in by a token, a link that counts once, or an identity provider; the answer sets a cookie",
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
    Route(
        "GET",
        "/console/provider",
        get_provider,
        name="GetIdentityProvider",
        summary="The identity provider that people may sign in by",
    ),
    Route(
        "POST",
        "/console/provider",
        begin_sign_in,
        name="BeginSignIn",
        summary="Where the browser goes to sign in by it; the answer sets a cookie for ten minutes",
        looks=True,
    ),
    Route(
        "PUT",
        "/console/sign-in",
        look_at_principal,
        name="LookAtPrincipal",
        summary="Look at what is of another principal that the role names, or of one's own again",
        body=LookAt,
        looks=True,
    ),
    Route("GET", "/console/sign-in", get_sign_in, name="GetSignIn", summary="Who is signed in"),
    Route("DELETE", "/console/sign-in", sign_out, name="SignOut", summary="Sign out", status=204),
)
ADDRESSES: Final = RouteTree(TABLE)


def list_routes() -> list[tuple[str, str, str, str]]:
    """Method, address, success and summary of every route, for the docs."""
    return [(each.method, each.path, str(each.status), each.summary) for each in TABLE]
