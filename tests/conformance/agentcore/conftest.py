"""One service with an access key, the proxy that judges its answers, boto3 clients, and the reports of the scripts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conformance.agentcore import client_environments, service_model
from tests.conformance.agentcore.accounts import CONTROL, KEY, SECRET, SYSTEM, Account, Session
from tests.conformance.agentcore.client_environments import ClientEnvironment
from tests.conformance.agentcore.watching_proxy import Verdicts, WatchingProxy
from tests.conformance.client_environments import read_report
from tests.running_service import RunningService


@pytest.fixture(scope="session")
def client_environment(environments_dir: Path) -> Callable[[str], ClientEnvironment]:
    """A client by its name, installed if it is not there yet."""
    return lambda name: client_environments.installed(name, environments_dir.parent)


@pytest.fixture(scope="session")
def verdicts(client_environment: Callable[[str], ClientEnvironment]) -> Verdicts:
    """What was found in the answers of this run."""
    return Verdicts(service_model.operations(client_environment("boto3_newest").site_packages))


@pytest.fixture(autouse=True)
def every_answer_fits_the_model(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test during which the service sent anything that its model does not have."""
    if "verdicts" not in request.fixturenames:
        yield
        return
    verdicts: Verdicts = request.getfixturevalue("verdicts")
    yield
    assert verdicts.taken() == []


@pytest.fixture(scope="session")
def watch(verdicts: Verdicts) -> Iterator[Callable[[str], WatchingProxy]]:
    """Puts a proxy before a service, by its address; all are stopped at the end."""
    proxies: list[WatchingProxy] = []

    def before(url: str) -> WatchingProxy:
        proxy = WatchingProxy(url, verdicts)
        proxy.start()
        proxies.append(proxy)
        return proxy

    yield before
    for proxy in proxies:
        proxy.stop()


@pytest.fixture(scope="session")
def agentcore_service(make_shared_service: Callable[..., RunningService]) -> RunningService:
    """A service with the administrator's access key; its keep-alives come sooner than any client here gives up.

    On the image `data` too, which has 10 GB otherwise, a workspace is soon full.
    """
    return make_shared_service(
        access_key_id=KEY,
        secret_access_key=SECRET,
        invocations_per_second=1000,
        agentcore_keep_alive_seconds=0.5,
        storage_mb_max=512,
    )


@pytest.fixture(scope="session")
def proxy(agentcore_service: RunningService, watch: Callable[[str], WatchingProxy]) -> WatchingProxy:
    return watch(agentcore_service.url)


@pytest.fixture(scope="session")
def account(proxy: WatchingProxy) -> Account:
    """The administrator's."""
    return Account(proxy.url)


@pytest.fixture(scope="session")
def make_account(agentcore_service: RunningService, proxy: WatchingProxy) -> Callable[[str], Account]:
    """Accounts of other principals, each with a key made over REST."""

    def make(principal: str) -> Account:
        answer = httpx.post(
            f"{agentcore_service.url}/v1/keys",
            json={"principal": principal, "name": "conformance"},
            headers={"Authorization": f"Bearer {agentcore_service.token}"},
            trust_env=False,
        )
        assert answer.status_code == 201, answer.text
        return Account(proxy.url, answer.json()["id"], answer.json()["secret_access_key"])

    return make


@pytest.fixture(scope="session")
def data(account: Account) -> Any:
    """boto3's client of the data plane."""
    return account.client()


@pytest.fixture(scope="session")
def control(account: Account) -> Any:
    """boto3's client of the control plane."""
    return account.client(CONTROL)


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Session]]:
    """Starts sessions through a client; those still there are stopped at the end of the run."""
    started: list[Session] = []

    def begin(client: Any, identifier: str = SYSTEM, **members: Any) -> Session:
        answer = client.start_code_interpreter_session(codeInterpreterIdentifier=identifier, **members)
        started.append(Session(client, answer["sessionId"], identifier))
        return started[-1]

    yield begin
    for session in started:
        if session.show()["status"] == "READY":
            session.stop()


@pytest.fixture(scope="module")
def session(data: Any, start: Callable[..., Session]) -> Session:
    """A session for the tests of a module that leave it as it was."""
    return start(data, name="shared")


@pytest.fixture(scope="session")
def said(
    client_environment: Callable[[str], ClientEnvironment], account: Account, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Any]]:
    """What a client's script reported: its versions, and each step with its verdict. A script runs once."""
    reports: dict[str, dict[str, Any]] = {}

    def report(name: str) -> dict[str, Any]:
        if name not in reports:
            command, home = client_environment(name).command, tmp_path_factory.mktemp(name)
            reports[name] = read_report(command, account.variables, home)
        return reports[name]

    return report


@pytest.fixture(scope="module")
def interpreter(control: Any) -> Iterator[str]:
    """A custom code interpreter, deleted when the module is done."""
    made = control.create_code_interpreter(
        name=f"shared_{uuid.uuid4().hex[:12]}", networkConfiguration={"networkMode": "SANDBOX"}
    )
    yield made["codeInterpreterId"]
    control.delete_code_interpreter(codeInterpreterId=made["codeInterpreterId"])
