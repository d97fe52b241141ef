"""Signing in to the console by an identity provider, in Chromium: a real one, on a site of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.browser.chromium import Page, chromium
from tests.conftest import MakeService
from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, running_provider
from tests.running_service import RunningService

OWN = {"X-Sandcell-Console": "1", "Sec-Fetch-Site": "same-origin"}
ROLES = "administrator groups=platform\nuser groups=data-science\nviewer groups=audit agent-7"
PARTS = "[...document.querySelectorAll('[aria-label=Parts] a')].map(each => each.innerText)"
TEXT = "document.body.innerText"
CLICK = "(name => { const found = [...document.querySelectorAll('button')].find(b => b.innerText.startsWith(name)); \
found?.click(); return !!found })"
LOOK_AT = "(() => { const field = document.querySelector('.who select'); field.value = 'agent-7'; \
field.dispatchEvent(new Event('change', {bubbles: true})) })()"


@pytest.fixture(scope="module")
def team(make_service: MakeService, environments_dir: Path) -> Iterator[RunningService]:
    """A service whose people sign in by a provider; it says `localhost`, so it is another site to a browser."""
    with running_provider(environments_dir.parent / "openid-provider") as issuer:
        yield make_service(
            oidc_issuer=issuer, oidc_client_id=CLIENT_ID, oidc_client_secret=CLIENT_SECRET, oidc_roles=ROLES
        )


async def sign_in_as(page: Page, person: str) -> None:
    """From the console's page to the provider, through its forms, and back."""
    await page.wait_for(f"{CLICK}('Sign in by localhost:')")
    await page.wait_for("location.hostname === 'localhost' && !!document.querySelector('[name=login]')")
    await page.evaluate(
        f"document.querySelector('[name=login]').value = '{person}'; "
        "document.querySelector('[name=password]').value = 'any'; document.querySelector('form').submit()"
    )
    await page.wait_for("location.hostname === '127.0.0.1' || !document.querySelector('[name=login]')")
    await page.wait_for(f"location.hostname === '127.0.0.1' || {CLICK}('Continue')")
    await page.wait_for("location.hostname === '127.0.0.1'")


@pytest.mark.sample("pages")
def test_people_sign_in_by_the_provider_and_have_the_role_it_gives(team: RunningService, tmp_path: Path) -> None:
    asyncio.run(sign_in_by_roles(team, tmp_path))


async def sign_in_by_roles(team: RunningService, directory: Path) -> None:
    with team.client() as admin, team.client(admin.create_token("agent-7").token) as agent:
        with agent.session("python", name="rain in Norway") as session:
            session.run("'22.25 mm'")
            async with chromium(directory) as page:
                await page.visit(team.url)
                await sign_in_as(page, "vera")
                await page.wait_for(f"{TEXT}.includes('vera@example.com looks at')")
                assert await page.evaluate("location.href") == f"{team.url}/"  # no code stays in it
                await page.wait_for(LOOK_AT + " || true")
                await page.wait_for("document.querySelector('tbody a')?.innerText === 'rain in Norway'")
                await page.screenshot(directory / "viewer.png")
                await page.evaluate("document.querySelector('tbody a').click()")
                await page.wait_for("document.querySelector('.cells')?.innerText.includes('22.25 mm')")
                assert not await page.evaluate("!!document.querySelector('.editor')")
                run = f"/v1/sessions/{session.id}/executions"
                assert await ask(page, "POST", run, {"code": "1"}) == 403
                assert await ask(page, "GET", "/v1/tokens", None) == 403
                assert await ask(page, "PUT", "/console/sign-in", {"principal": "admin"}) == 403
                await page.wait_for(f"{CLICK}('Sign out')")
                await page.wait_for("!!document.querySelector('#token')")
                await page.visit(f"{team.url}/?code=made-up&state=made-up")  # anybody's link
                await page.wait_for(f"{TEXT}.includes('did not begin to sign in')")
                assert page.of("Runtime.exceptionThrown") == []
        looked = [each for each in admin.list_audit(principal="agent-7", event="GetSession").items if each.detail]
        assert {"userId": "vera@example.com"} in [each.detail["userIdentity"].get("onBehalfOf") for each in looked]


@pytest.mark.sample("pages")
def test_users_run_code_and_administrators_operate(team: RunningService, tmp_path: Path) -> None:
    asyncio.run(run_and_operate(team, tmp_path))


async def run_and_operate(team: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        for person, operates in (("uma", False), ("ada", True)):
            await page.ask("Network.clearBrowserCookies")  # the provider's, too
            await page.visit("about:blank")
            await page.visit(team.url)
            await sign_in_as(page, person)
            await page.wait_for(f"document.querySelector('.who')?.innerText === '{person}@example.com'")
            await page.wait_for(f"{TEXT}.includes('New session')")
            assert await ask(page, "POST", "/v1/sessions", {"environment": "python"}) == 201
            assert await ask(page, "GET", "/v1/principals", None) == (200 if operates else 403)
            await page.evaluate("location.hash = '#/operations/usage'")
            await page.wait_for(f"{PARTS}.length > 0")
            assert ("Principals" in await page.evaluate(PARTS)) is operates
        assert page.of("Runtime.exceptionThrown") == []


async def ask(page: Page, method: str, path: str, body: object) -> int:
    """The status of what the console's page would get, as who is signed in there."""
    given = f", body: {json.dumps(json.dumps(body))}" if body is not None else ""
    headers = "{'X-Sandcell-Console': '1', 'Content-Type': 'application/json'}"
    options = f"{{method: '{method}', headers: {headers}{given}}}"
    await page.evaluate(f"fetch({json.dumps(path)}, {options}).then(answer => window.said = answer.status)")
    status = await page.wait_for("window.said")
    await page.evaluate("delete window.said")
    return int(status)


def walk(person: str, service: RunningService, browser: httpx.Client) -> dict[str, str]:
    """As a browser goes through the provider without a window; what comes back to the console's page."""
    begun = browser.post(f"{service.url}/console/provider", headers={**OWN, "Origin": service.url}).json()
    answer = browser.get(begun["url"], follow_redirects=True)
    for form in ({"prompt": "login", "login": person, "password": "any"}, {"prompt": "consent"}):
        action = answer.text.split('action="', 1)[1].split('"', 1)[0]
        answer = browser.post(httpx.URL(str(answer.url)).join(action), data=form)
        while answer.is_redirect and (place := answer.next_request) and place.url.host == "localhost":
            answer = browser.send(place)
        if answer.is_redirect:
            break
    assert answer.next_request is not None, answer.text
    return dict(answer.next_request.url.params)


def finish(service: RunningService, browser: httpx.Client, back: dict[str, str]) -> httpx.Response:
    given = {"code": back["code"], "state": back["state"]}
    return browser.post(f"{service.url}/console/sign-in", json=given, headers=OWN)


def test_a_code_counts_once_in_the_browser_that_asked_and_for_somebody_with_a_role(team: RunningService) -> None:
    with httpx.Client(timeout=120, trust_env=False) as browser, httpx.Client(timeout=120, trust_env=False) as another:
        back = walk("ada", team, browser)
        assert finish(team, another, back).status_code == 401
        assert finish(team, browser, {**back, "state": "x" * 43}).status_code == 401
        signed_in = finish(team, browser, back)
        assert (signed_in.json()["principal"], signed_in.json()["administrator"]) == ("ada@example.com", True)
        assert browser.get(f"{team.url}/v1/principals", headers=OWN).status_code == 200
        assert finish(team, browser, back).status_code == 401  # the provider takes it once
    for person, said in (("nobody", "gives you no role here"), ("mallory", "is verified")):
        with httpx.Client(timeout=120, trust_env=False) as browser:
            refused = finish(team, browser, walk(person, team, browser))
            assert refused.status_code == 403
            assert said in refused.json()["error"]["message"]
            assert browser.get(f"{team.url}/console/sign-in", headers=OWN).status_code == 401
