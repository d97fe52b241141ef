"""The console's documents and its cookie on a real service, as a browser and as somebody else asks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import httpx
import pytest

from tests.running_service import RunningService

OWN = {"X-Sandcell-Console": "1", "Sec-Fetch-Site": "same-origin"}
HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def browser(service: RunningService) -> Iterator[httpx.Client]:
    """Keeps cookies; sends no token."""
    with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as client:
        yield client


def sign_in(browser: httpx.Client, token: str) -> httpx.Response:
    return browser.post("/console/sign-in", json={"token": token}, headers=OWN)


def test_the_page_lets_a_browser_load_nothing_from_elsewhere(browser: httpx.Client) -> None:
    page = browser.get("/", headers=HTML)
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Content-Encoding"] == "gzip"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["X-Frame-Options"] == "DENY"
    policy = dict(each.strip().split(" ", 1) for each in page.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["form-action"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["frame-src"] == "'self'"
    assert "http:" not in page.text
    plain = browser.get("/", headers={**HTML, "Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert plain.text == page.text


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "application/json, text/html;q=0"])
def test_who_does_not_ask_for_html_finds_no_page(browser: httpx.Client, accept: str) -> None:
    answer = browser.get("/", headers={"Accept": accept})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_route")
    assert answer.headers["Vary"] == "Accept"
    assert "Accept" in browser.get("/", headers=HTML).headers["Vary"].split(", ")


def test_what_the_page_names_is_there_and_is_kept(browser: httpx.Client) -> None:
    named = [each.split('"')[0] for each in browser.get("/", headers=HTML).text.split('="/console/')[1:]]
    assert len(named) == 2
    for name in named:
        part = browser.get(f"/console/{name}")
        assert part.status_code == 200
        assert part.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert part.headers["Content-Type"].split(";")[0] in ("text/javascript", "text/css")


@pytest.mark.parametrize("frame", ["output.html", "pdf.html", "prose.html", "plotly.html", "vega.html", "parquet.html"])
def test_a_frame_has_no_origin_and_runs_its_own_script_alone(browser: httpx.Client, frame: str) -> None:
    policy = browser.get(f"/console/{frame}").headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'sha256-")
    assert "same-origin" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "path", ["/console/", "/console/nothing", "/console/assets/nothing.js", "/console/assets/..%2findex.html"]
)
def test_nothing_else_is_there(browser: httpx.Client, path: str) -> None:
    assert browser.get(path).status_code == 404
    assert browser.post("/", headers=OWN).status_code == 405


def test_signed_in_the_page_asks_as_the_principal_until_it_signs_out(
    browser: httpx.Client, service: RunningService
) -> None:
    answer = sign_in(browser, service.token)
    assert answer.status_code == 200
    assert (answer.json()["principal"], answer.json()["scope"]) == ("admin", "admin")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert service.token not in cookie
    assert browser.get("/console/sign-in", headers=OWN).json() == answer.json()
    assert browser.get("/v1/sessions", headers=OWN).status_code == 200
    kept = dict(browser.cookies)
    assert browser.delete("/console/sign-in", headers=OWN).status_code == 204
    assert dict(browser.cookies) == {}
    assert httpx.get(f"{service.url}/v1/sessions", headers=OWN, cookies=kept, trust_env=False).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"X-Sandcell-Console": "1", "Sec-Fetch-Site": "cross-site"},
        {"X-Sandcell-Console": "1", "Sec-Fetch-Site": "same-site"},
        {"X-Sandcell-Console": "1", "Origin": "http://evil.example"},
        {"X-Sandcell-Console": "1", "Origin": "null"},
    ],
)
def test_the_cookie_counts_for_no_other_page(
    browser: httpx.Client, service: RunningService, headers: dict[str, str]
) -> None:
    sign_in(browser, service.token)
    assert browser.get("/v1/sessions", headers=headers).status_code == 401
    assert browser.post("/v1/tokens", json={"principal": "evil"}, headers=headers).status_code == 401
    assert browser.post("/console/sign-in", json={"token": service.token}, headers=headers).status_code == 403
    assert browser.delete("/console/sign-in", headers=headers).status_code == 403
    assert browser.options("/v1/sessions", headers=headers).status_code != 200


def test_no_other_face_takes_the_cookie(browser: httpx.Client, service: RunningService) -> None:
    sign_in(browser, service.token)
    for path in (
        "/api/kernels",
        "/sandboxes",
        "/librechat/v1/files/x",
        "/v1beta1/projects/a/locations/b/reasoningEngines",
    ):
        assert browser.get(path, headers=OWN).status_code in (401, 403), path


def test_a_link_signs_in_once_and_all_of_it_is_on_record(browser: httpx.Client, service: RunningService) -> None:
    name = f"ada-{uuid.uuid4()}"
    with service.client() as admin:
        made = admin.create_token(name, scope="read")
        with service.client(made.token) as ada:
            link = ada.create_console_link().link
        code = link.removeprefix("/#sign-in=")
        for status in (200, 401):
            assert browser.post("/console/sign-in", json={"link": code}, headers=OWN).status_code == status
        assert browser.get("/console/sign-in", headers=OWN).json()["principal"] == name
        assert browser.post("/v1/sessions", json={}, headers=OWN).status_code == 403
        admin.revoke_token(made.id)
        assert browser.get("/console/sign-in", headers=OWN).status_code == 401
        records = admin.list_audit(principal=name).items
    events = [each.event for each in records]
    assert {"CreateConsoleLink", "SignIn", "GetSignIn", "StartSession"} <= set(events)
    assert not any(code in str(each) for each in records)


def test_a_link_says_whom_it_signs_in_and_takes_the_place_of_who_was(
    browser: httpx.Client, service: RunningService
) -> None:
    sign_in(browser, service.token)
    before = dict(browser.cookies)
    name = f"eve-{uuid.uuid4()}"
    with service.client() as admin, service.client(admin.create_token(name, scope="read").token) as eve:
        code = eve.create_console_link().link.removeprefix("/#sign-in=")
    assert browser.post("/console/links", json={"link": code}).status_code == 403
    for _ in range(2):
        seen = browser.post("/console/links", json={"link": code}, headers=OWN)
        assert (seen.status_code, seen.json()["principal"], "Set-Cookie" in seen.headers) == (200, name, False)
    assert browser.get("/console/sign-in", headers=OWN).json()["principal"] == "admin"
    browser.post("/console/sign-in", json={"link": code}, headers=OWN)
    assert browser.get("/console/sign-in", headers=OWN).json()["principal"] == name
    assert browser.post("/console/links", json={"link": code}, headers=OWN).status_code == 401
    assert httpx.get(f"{service.url}/v1/sessions", headers=OWN, cookies=before, trust_env=False).status_code == 401


@pytest.mark.parametrize("secret", ["", "unknown"])
def test_signing_out_clears_a_cookie_that_counts_no_longer(browser: httpx.Client, secret: str) -> None:
    browser.cookies.set("sandcell_console", secret)
    answer = browser.delete("/console/sign-in", headers=OWN)
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("body", [{}, {"token": "x", "link": "y"}, {"token": "wrong"}, {"link": "wrong"}, {"other": 1}])
def test_what_signs_nobody_in_sets_no_cookie(browser: httpx.Client, body: dict[str, object]) -> None:
    answer = browser.post("/console/sign-in", json=body, headers=OWN)
    assert answer.status_code in (400, 401)
    assert "Set-Cookie" not in answer.headers


def test_a_sessions_events_say_what_runs_and_when_it_ends(service: RunningService) -> None:
    began = time.time()
    with service.client() as client:
        session = client.start_session("python")
        client.run(session.id, "1")
        first = next(iter(client.session_events(session.id, after=0)))
        client.restart(session.id)
        client.run(session.id, "2")
        client.stop_session(session.id)
        events = list(client.session_events(session.id))
    assert (first.event, first.data["status"]) == ("execution", "queued")
    assert first.sequence > 1000 * began, "an id of an earlier process would count in this one"
    assert events == events[-1:]
    assert (events[0].event, events[0].data["reason"]) == ("ended", "stopped")
