"""The console's pages for operators in Chromium: environments and who needs them; tokens, quotas, the audit log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.browser.chromium import DEADLINE_SECONDS, Page, chromium
from tests.browser.test_console import TEXT, sign_in
from tests.conftest import MakeService
from tests.doubles.faulty_s3 import FaultyS3, Reset
from tests.doubles.package_index import PackageIndex, package_index
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.running_service import RunningService

OPENED = "[...document.querySelectorAll('dialog')].at(-1)"
FILL = """((label, value) => {
  const own = [...document.querySelectorAll('label')].find(each => each.innerText.startsWith(label));
  const field = own?.control ?? document.querySelector(`[aria-label="${label}"]`);
  if (!field) return false;
  field.value = value;
  field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true}));
  return true;
})"""
PRESS = (
    "(name => { const found = [...document.querySelectorAll('button')].find(b => (b.ariaLabel ?? b.innerText) === name \
&& !b.disabled); found?.click(); return !!found })"
)


NAMES = "[...document.querySelectorAll('tbody th')].map(each => each.innerText).join(', ')"


async def go(page: Page, address: str) -> None:
    await page.evaluate(f"location.hash = {address!r}")


async def fill(page: Page, label: str, value: str) -> None:
    """Write into the field of that label, or choose."""
    await page.wait_for(f"{FILL}({label!r}, {value!r})")


async def press(page: Page, name: str) -> None:
    """Press the button of that name once there is one that can be pressed."""
    await page.wait_for(f"{PRESS}({name!r})")


async def agree(page: Page, name: str) -> str:
    """Press the button of that name, and agree to what the browser asks then; the question."""
    before = len(page.of("Page.javascriptDialogOpening"))
    await page.wait_for(f"{PRESS.replace('found?.click()', 'found && setTimeout(() => found.click())')}({name!r})")
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(asked := page.of("Page.javascriptDialogOpening")) == before:
            await asyncio.sleep(0.02)
    await page.ask("Page.handleJavaScriptDialog", accept=True)
    return str(asked[-1]["message"])


@pytest.mark.sample("pages")
def test_environments_and_who_needs_them(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(looks_after_an_environment(service, tmp_path))


async def looks_after_an_environment(service: RunningService, directory: Path) -> None:
    name = f"rain_{uuid.uuid4().hex[:8]}"
    agents = [f"{name}-{each}" for each in ("planner", "writer")]
    async with chromium(directory) as page:
        with service.client() as client:
            await sign_in(page, service)
            await go(page, "#/environments")
            await press(page, "New environment")
            await fill(page, "Name", name)
            await press(page, "Make")
            await page.wait_for(f"document.querySelector('h1')?.innerText === {name!r}")
            await page.wait_for(f"{TEXT}.includes('Nobody: no agent')")
            await fill(page, "Search packages", "ipykern")
            await page.wait_for("document.querySelector('.narrow tbody tr')?.innerText.startsWith('ipykernel')")
            (made,) = [each for each in client.list_environments(kind="made").items if each.name == name]
            for each in agents:
                client.put_agent(each, environment=made.id)
            with client.session(made.id) as session:
                await go(page, "#/")
                await page.wait_for(
                    f"[...document.querySelectorAll('tbody td')].some(each => each.innerText === {name!r})"
                )
                await go(page, f"#/sessions/{session.id}")
                await page.wait_for(f"document.querySelector('.facts')?.innerText.startsWith('{name} · ')")
                await go(page, "#/environments")
                row = f"[...document.querySelectorAll('tbody tr')].find(each => each.innerText.includes({name!r}))"
                await page.wait_for(f"{row}?.cells[8].innerText === '2'")
                await page.evaluate(f"{row}.querySelector('a').click()")
                await page.wait_for(f"{TEXT}.includes('2 agents')")
                await page.wait_for(f"{TEXT}.includes({agents[1]!r})")
                await page.screenshot(directory / "environment.png")
                await press(page, "Delete")
                await page.wait_for(f"{OPENED}?.innerText.includes('It cannot be deleted while somebody needs it')")
                assert await page.evaluate(f"{OPENED}.innerText.includes({agents[0]!r})")
                assert await page.evaluate(f"{OPENED}.querySelector('[type=submit]').disabled")
                await press(page, "Cancel")
                assert session.id
            await press(page, "Disassociate all agents")
            await page.wait_for(f"{TEXT}.includes('2 disassociated agents')")
            assert client.get_agent(agents[0]).environment is None
            await press(page, "Re-associate all agents")
            await page.wait_for(f"{TEXT}.includes('2 agents associated again.')")
            assert client.get_agent(agents[0]).environment == made.id
            await press(page, "Disassociate all agents")
            await page.wait_for(f"{TEXT}.includes('2 disassociated agents')")
            await page.wait_for(f"!/live session/.test({TEXT})")
            await press(page, "Delete")
            await page.wait_for(f"{OPENED}?.innerText.includes('Nobody needs it.')")
            await page.evaluate(f"{OPENED}.querySelector('[type=submit]').click()")
            await page.wait_for("location.hash === '#/environments'")
            await page.wait_for(f"!!document.querySelector('tbody') && !{TEXT}.includes({name!r})")
        assert page.of("Runtime.exceptionThrown") == []


def status_of(service: RunningService, token: str, path: str) -> int:
    """How a request with that token is answered."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(service.url + path, headers=headers, timeout=120, trust_env=False).status_code


@pytest.mark.sample("pages")
def test_a_token_is_made_shown_once_used_and_revoked(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(makes_a_token(service, tmp_path))


async def make_token(page: Page, name: str) -> str:
    """One of a new principal of that name; it shows still."""
    await go(page, "#/operations/tokens")
    await press(page, "New token")
    await fill(page, "Principal", name)
    await fill(page, "What it is for", f"the agent of {name}")
    await press(page, "Make")
    await page.wait_for(f"{OPENED}?.innerText.includes('It is shown this once')")
    token: str = await page.evaluate(f"{OPENED}.querySelector('input').value")
    return token


async def makes_a_token(service: RunningService, directory: Path) -> None:
    name = f"eve-{uuid.uuid4().hex[:8]}"
    async with chromium(directory) as page:
        await sign_in(page, service)
        token = await make_token(page, name)
        assert status_of(service, token, "/v1/sessions") == 200
        assert status_of(service, token, "/v1/tokens") == 403
        await press(page, "Done")
        await page.wait_for(f"{TEXT}.includes('the agent of {name}') && !document.querySelector('dialog')")
        assert token not in await page.evaluate("document.documentElement.outerHTML")
        with (
            service.client() as client,
            client.session("python", name="of the administrator"),
            service.client(token) as theirs,
            theirs.session("python", name=f"{name}'s own") as session,
        ):
            await go(page, "#/")
            await fill(page, "Whose sessions", "everybody")
            row = f"[...document.querySelectorAll('tbody tr')].find(each => each.innerText.includes({name!r}))"
            await page.wait_for(f"{row}?.cells[2].innerText === {name!r} && !{row}.querySelector('a')")
            await page.wait_for(f"{NAMES}.includes('of the administrator')")
            await fill(page, "Principal", name)
            await page.wait_for(f"{NAMES}.endsWith('s own') && !{NAMES}.includes(',')")
            await fill(page, "Principal", "")
            await page.wait_for(f"{NAMES}.includes('of the administrator')")
            await page.evaluate(f"{row}.querySelector('input').click()")
            await agree(page, "Stop 1")
            await page.wait_for(f"!{row}")
            assert session.refresh().status == "TERMINATED"
        await go(page, "#/operations/tokens")
        question = await agree(page, f"Revoke the agent of {name}")
        assert name in question
        await page.wait_for(f"!{TEXT}.includes('the agent of {name}')")
        assert status_of(service, token, "/v1/sessions") == 401

        await go(page, "#/operations/principals")
        await press(page, f"Quota of {name}")
        await fill(page, "Live sessions at most", "7")
        await press(page, "Set")
        row = f"[...document.querySelectorAll('tbody tr')].find(each => each.innerText.startsWith({name!r}))?.innerText"
        await page.wait_for(f"{row}?.includes('0 of 7')")
        await agree(page, f"Disable {name}")
        await page.wait_for(f"{row}?.includes('Disabled')")

        await go(page, "#/operations/audit")
        await press(page, "Verify")
        await page.wait_for(f"{TEXT}.includes('Nothing was changed, removed or added: records 1 to ')")
        await fill(page, "Principal", name)
        await fill(page, "Outcome", "false")
        await press(page, "Look")
        await page.wait_for("[...document.querySelectorAll('tbody tr')].length === 1")
        await page.wait_for("document.querySelector('tbody').innerText.includes('ListTokens')")
        await page.evaluate("document.querySelector('summary').click()")
        await page.wait_for("document.querySelector('tbody pre').innerText.includes('scope_missing')")
        await page.screenshot(directory / "audit.png")
        await go(page, "#/operations/metrics")
        await page.wait_for("document.querySelectorAll('.curve polyline').length > 3")
        assert await page.evaluate("document.querySelector('.curve').innerText.startsWith('Live sessions')")
        await go(page, "#/operations/host")
        await page.wait_for("document.querySelector('tbody')?.innerText.includes('user namespaces')")
        with service.client() as client:
            found = {each.name: each for each in client.check_host().items}
        assert all(each.ok for each in found.values() if each.required)
        assert found["store"].detail.endswith(" answers")
        assert await page.evaluate("document.querySelectorAll('tbody tr').length") == len(found)
        await page.screenshot(directory / "host.png")
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_sessions_are_found_put_in_order_and_stopped_together(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(finds_sessions(service, tmp_path))


async def finds_sessions(service: RunningService, directory: Path) -> None:
    team = uuid.uuid4().hex[:8]
    async with chromium(directory) as page:
        with (
            service.client() as client,
            client.session("python", name="sun", agent=f"planner-{team}", labels={"team": team}) as sun,
            client.session("python", name="rain", labels={"team": team}) as rain,
            client.session("python", name="a very long name " * 10),
        ):
            await sign_in(page, service)
            await page.wait_for(f"{NAMES}.includes('a very long name')")
            assert await page.evaluate("document.querySelector('tbody th').offsetWidth") < 300
            await press(page, f"team={team}")
            await page.wait_for(f"{NAMES} === 'rain, sun'")  # the newest first
            await press(page, "Session")
            await press(page, "Session")
            await page.wait_for(f"{NAMES} === 'sun, rain'")
            sorted_by = (
                "[...document.querySelectorAll('[aria-sort]')].map(each => `${each.innerText} ${each.ariaSort}`)"
            )
            assert await page.evaluate(sorted_by) == ["Session descending"]
            await press(page, f"planner-{team}")
            await page.wait_for(f"{NAMES} === 'sun'")
            await fill(page, "Search sessions", team)
            await page.wait_for(f"{NAMES} === 'sun, rain'")
            await page.evaluate("document.querySelector('thead input').click()")
            await agree(page, "Stop 2")
            await page.wait_for(
                f"{TEXT}.includes('No session fits.') || {TEXT}.includes('No session of yours is live.')"
            )
            assert {each.refresh().status for each in (sun, rain)} == {"TERMINATED"}
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_who_may_only_look_has_no_pages_of_operators(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(only_looks(service, tmp_path))


async def only_looks(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client:
            token = client.create_token(f"mallory-{uuid.uuid4().hex[:8]}", scope="read").token
            other = client.create_token(f"mallory-{uuid.uuid4().hex[:8]}", scope="admin").token
        assert status_of(service, other or "", "/v1/doctor") == 403
        await page.visit(service.url)
        await fill(page, "Token", token or "")
        await press(page, "Sign in")
        await page.wait_for("document.querySelector('h1')?.innerText === 'Sessions'")
        await go(page, "#/operations/tokens")
        await page.wait_for("document.querySelector('h1')?.innerText === 'Operations'")
        await page.wait_for("document.querySelector('tbody')?.innerText.startsWith('mallory-')")
        parts = "[...document.querySelectorAll('[aria-label=Parts] a')].map(each => each.innerText)"
        assert await page.evaluate(parts) == ["Usage", "Audit log", "Store"]
        await go(page, "#/environments")
        await page.wait_for("document.querySelector('tbody')?.innerText.includes('python')")
        assert not await page.evaluate(f"{TEXT}.includes('New environment')")
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
def test_what_is_refused_is_said_and_a_revoked_token_signs_out(service: RunningService, tmp_path: Path) -> None:
    asyncio.run(is_refused(service, tmp_path))


async def is_refused(service: RunningService, directory: Path) -> None:
    async with chromium(directory) as page:
        with service.client() as client:
            name = f"eve-{uuid.uuid4().hex[:8]}"
            token = client.create_token(name)
            client.set_quota(name, 1)
            with service.client(token.token) as theirs:
                session = theirs.start_session("python")
                await page.visit(service.url)
                await fill(page, "Token", token.token or "")
                await press(page, "Sign in")
                await press(page, "New session")
                await press(page, "Start")
                await page.wait_for("document.querySelector('dialog [role=alert]')?.innerText.includes('session')")
                theirs.stop_session(session.id)
                await press(page, "Start")  # asked again, once there is room
                await page.wait_for("location.hash.startsWith('#/sessions/')")
                await page.wait_for("!!document.querySelector('.menu')")
                client.revoke_token(token.id)
                await page.wait_for(f"{TEXT}.includes('You were signed out. Sign in again to go on.')")
                client.disable_principal(name)
        assert page.of("Runtime.exceptionThrown") == []


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with package_index() as index:
        yield index


@pytest.mark.sample("pages")
@pytest.mark.long
def test_packages_are_built_while_one_reads_the_log(
    make_service: MakeService, index: PackageIndex, tmp_path: Path
) -> None:
    file = tmp_path / "environments.toml"
    file.write_text(f'[indexed]\nimage = "python"\nindex_url = "{index.url}"\n')
    service = make_service(environments_file=file, added_packages_images="indexed")
    asyncio.run(builds(service, index, tmp_path))


async def make_with(page: Page, name: str, package: str) -> None:
    await go(page, "#/environments")
    await press(page, "New environment")
    await fill(page, "Name", name)
    await fill(page, "Made from", "indexed")
    await fill(page, "Python packages to add", package)
    await press(page, "Make")
    await page.wait_for(f"document.querySelector('h1')?.innerText === {name!r}")


async def builds(service: RunningService, index: PackageIndex, directory: Path) -> None:
    """One is ready in the end, of which the log came while it was built; of another the index has no package."""
    state = "document.querySelector('.state')?.innerText"
    log = "(document.querySelector('.log')?.innerText ?? '')"
    index.add("tiny-sample", sample="GREETING = 'installed'")
    async with chromium(directory) as page:
        await sign_in(page, service)
        index.held.clear()
        await make_with(page, "weather", "tiny-sample==1.0")
        await page.wait_for(f"{state} === 'Building'")
        await page.wait_for(f"{log}.length > 0 && {log} !== 'Nothing was printed yet.'")
        before = await page.evaluate(log)
        await page.screenshot(directory / "building.png")
        index.held.set()
        await page.wait_for(f"{state} === 'Ready'")
        await page.wait_for(f"{log}.includes('Successfully installed tiny-sample-1.0')")
        assert before in await page.evaluate(log)
        await page.wait_for(f"{TEXT}.includes('Python packages added\\ntiny-sample==1.0')")
        await fill(page, "Search packages", "tiny")
        await page.wait_for("document.querySelector('.narrow tbody tr')?.innerText.startsWith('tiny-sample')")

        await make_with(page, "broken", "there-is-no-such-package-of-this-name==1.0")
        await page.wait_for(f"{state} === 'Failed'")
        await page.wait_for(f"{log}.includes('there-is-no-such-package')")
        assert await page.evaluate("document.querySelector('.parts .problem').innerText.length > 10")
        await page.screenshot(directory / "failed.png")
        assert page.of("Runtime.exceptionThrown") == []


@pytest.mark.sample("pages")
@pytest.mark.long
def test_pools_and_what_waits_for_a_store_that_is_away(make_service: MakeService, tmp_path: Path) -> None:
    file = tmp_path / "environments.toml"
    file.write_text("[python]\nwarm = 1\n")
    key, secret = ACCESS_KEY
    with s3_server("rclone", tmp_path / "s3") as endpoint, FaultyS3(endpoint) as store:
        service = make_service(
            extra_environment={"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret},
            store=f"s3://{BUCKET}/here?endpoint_url={store.endpoint}",
            environments_file=file,
            flush_deadline_seconds=2,
            sweep_interval_seconds=1,
        )
        asyncio.run(waits_for_the_store(service, store, tmp_path))


async def waits_for_the_store(service: RunningService, store: FaultyS3, directory: Path) -> None:
    row = "document.querySelector('tbody tr')"
    async with chromium(directory) as page:
        with service.client() as client:
            await sign_in(page, service)
            await go(page, "#/operations/pools")
            await page.wait_for(f"{row}?.cells[1].innerText === '1'")  # one is ready
            lives, ends = client.start_session("python", name="lives"), client.start_session("python")
            await page.wait_for(f"Number({row}.cells[4].innerText) > 0")  # and has served a session
            await go(page, "#/operations/store")
            await page.wait_for(f"{TEXT}.includes('Nothing of ended sessions waits in the spool.')")
            store.fail(Reset())
            for each in (lives, ends):
                client.run(each.id, "open('late.txt', 'w').write('kept too')")
            client.stop_session(ends.id)
            await page.wait_for(f"{TEXT}.includes('The files of 1 ended session are in the spool')")
            await page.wait_for(f"{row}?.innerText.startsWith('lives')")
            await page.wait_for(f"{row}.innerText.includes('does not answer')")
            await page.screenshot(directory / "store.png")
            store.heal()
            await page.wait_for(f"{TEXT}.includes('Nothing of ended sessions waits in the spool.')")
            await page.wait_for(f"{TEXT}.includes('are in the store.')")
            client.stop_session(lives.id)
        assert page.of("Runtime.exceptionThrown") == []
