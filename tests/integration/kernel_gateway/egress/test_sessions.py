"""The whole way, from a program in a session to a server on an internet of the tests' own, in every network mode."""

from __future__ import annotations

import errno
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandcell import Client, Session
from tests.doubles.internet import (
    CARRIER,
    HOUSE,
    HOUSE_6,
    HOUSE_PRIVATE,
    INDEX,
    METADATA,
    NAME_SERVER,
    OTHER,
    PACKAGE,
    PRIVATE,
    SITE,
    SITE_6,
    UNIQUE_LOCAL,
    Internet,
    ServiceInHouse,
)
from tests.integration.kernel_gateway.server.rest import Rest

ENVIRONMENTS = """
[public]
image = "python"
network = "PUBLIC"

[listed]
image = "python"
network = "ALLOWLIST"
allow = [
    {host = "site.example", port = 80, methods = ["GET"], path_prefix = "/public"},
    {host = "*.site.example", port = 8080},
    "other.example:443",
    "six.example:80",
    "private.example:80", "loopback.example:8080", "house.example:8080", "metadata.example:80", "rebinding.example:80",
    "127.0.0.1:8080", "169.254.169.254:80", "192.168.77.1:80", "81.2.69.10:8080", "mirror.internal:8080",
]
"""

PRELUDE = """
import os, socket, ssl, subprocess, sys, time, urllib.error, urllib.request

def get(url, data=None, method=None):
    try:
        context = ssl.create_default_context(cafile='/workspace/ca.pem')
        request = urllib.request.Request(url, data, method=method)
        return urllib.request.urlopen(request, timeout=120, context=context).read().decode()
    except urllib.error.HTTPError as error:
        return f'{error.code} {error.reason}'
    except OSError as error:
        return repr(error)

def say(data, more=b''):
    with socket.create_connection(('127.0.0.1', 3128), 20) as one:
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        return b''.join(iter(lambda: one.recv(65536), b'')).decode()

def connect(authority):
    return say(f'CONNECT {authority} HTTP/1.1\\r\\nHost: {authority}\\r\\n\\r\\n'.encode()).splitlines()[0]
"""


class Place:
    """An internet, a service in its house, and sessions of every mode, started when first asked for."""

    def __init__(self, internet: Internet, service: ServiceInHouse) -> None:
        self.internet = internet
        self.client: Client = service.client()
        self._service = service
        self._sessions: dict[str, Session] = {}

    def __getitem__(self, environment: str) -> Callable[[str], str]:
        """What a program prints in the session of this environment."""
        if environment not in self._sessions:
            self._sessions[environment] = self.start(environment)
        session = self._sessions[environment]

        def run(program: str) -> str:
            result = session.run(program, timeout_seconds=60)
            assert result.ok, result.text
            return str(result.stdout).strip()

        return run

    def start(self, environment: str) -> Session:
        session = Session(self.client, self.client.start_session(environment))
        pem = self.internet.authority.cert_pem.bytes().decode()
        assert session.run(f"{PRELUDE}\nwritten = open('/workspace/ca.pem', 'w').write({pem!r})").ok
        return session

    def audited(self, environment: str) -> list[tuple[str, str]]:
        """Target and word of what was refused."""
        with Rest(self._service) as rest:
            found = rest.get(f"/v1/audit?session_id={self._sessions[environment].id}&allowed=false&limit=1000")["items"]
        return [(one["target"], one["reason"].partition(":")[0]) for one in found]


@contextmanager
def opened(runtime: str, environments_dir: Path) -> Iterator[Place]:
    data_dir = Path(tempfile.mkdtemp(prefix="scdata", dir="/tmp"))
    data_dir.chmod(0o755)
    (data_dir / "environments.toml").write_text(ENVIRONMENTS)
    internet = Internet()
    settings = {
        "environments_dir": environments_dir,
        "environments_file": data_dir / "environments.toml",
        "runtime": runtime,
        "egress_private": "mirror.internal:8080",
        "invocations_per_second": 1000,
    }
    service = internet.service(data_dir / "data", settings)
    try:
        service.start()
        place = Place(internet, service)
        yield place
        place.client.close()
    finally:
        service.stop()
        internet.close()
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture(scope="module", params=["runc", "runsc"])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def whole(runtime: str, environments_dir: Path) -> Iterator[Place]:
    with opened(runtime, environments_dir) as place:
        yield place


@pytest.fixture
def place(whole: Place) -> Place:
    whole.internet.clear()
    return whole


PIP = f"""
done = subprocess.run(
    [sys.executable, '-m', 'pip', 'install', '--no-color', '--cert', '/workspace/ca.pem', '{PACKAGE}'],
    capture_output=True, text=True,
)
print(done.returncode, done.stdout, done.stderr)
"""


def test_in_public_pip_installs_a_package(place: Place) -> None:
    said = place["public"](PIP)
    assert said.startswith("0 "), said
    assert place["public"]("import sandcell_sample\nprint(sandcell_sample.GREETING)") == "installed"
    assert place.internet.reached() == {INDEX}
    assert {visit.host for visit in place.internet.visits} == {"pypi.org", "files.pythonhosted.org"}


def test_in_sandbox_pip_fails_at_once_and_names_the_mode(place: Place) -> None:
    said = place["python"](PIP)
    assert said.startswith("1 ")
    assert "Network mode SANDBOX reaches no package index, so sandcell-sample cannot be installed here" in said
    assert "Retrying" not in said
    assert (place.internet.visits, place.internet.looked_up) == ([], [])


def test_in_allowlist_pip_fails_and_names_the_mode(place: Place) -> None:
    said = place["listed"](PIP.replace("'--no-color'", "'--no-color', '--retries', '1'"))
    assert "403 Network mode ALLOWLIST: pypi.org:443 is not among the declared endpoints" in said
    assert place.internet.looked_up == []


def test_in_public_any_public_address_is_reached_by_name_number_and_version_6(place: Place) -> None:
    for url, address in {
        "http://site.example/a?b": SITE,
        "https://site.example/": SITE,
        f"http://{SITE}:8080/": SITE,
        "http://other.example/": OTHER,
        "http://six.example/": SITE_6,
        f"http://[{SITE_6}]:8080/": SITE_6,
        f"https://{SITE}/": SITE,
    }.items():
        assert f"{address} says hello to " in place["public"](f"print(get({url!r}))"), url
    posted = place["public"]("print(get('http://site.example/x', b'much' * 50_000))")
    assert posted.count("much") == 50_000


def test_in_allowlist_what_is_declared_is_reached_and_nothing_else(place: Place) -> None:
    for url, said in {
        "http://site.example/public/x?y": f"{SITE} says hello",
        "http://www.site.example:8080/anything": f"{SITE} says hello",
        "https://other.example/": f"{OTHER} says hello",
        "http://six.example/": f"{SITE_6} says hello",
    }.items():
        assert said in place["listed"](f"print(get({url!r}))"), url
    place.internet.clear()
    for call, word in {
        "get('http://site.example/')": "path",
        "get('http://site.example/publicity')": "path",
        "get('http://site.example/public/../x')": "unclear_path",
        "get('http://site.example/public/%2e%2e/x')": "unclear_path",
        "get('http://site.example/public/', b'data')": "method",
        "get('http://site.example/public/', method='DELETE')": "method",
        "get('http://site.example:8080/')": "not_declared",
        "get('http://www.site.example/')": "not_declared",
        "get('https://site.example/')": "not_declared",
        "get('http://other.example/')": "not_declared",
        f"get('http://{SITE}/public/')": "not_declared",
        "get('http://secret-in-a-name.evil.example/')": "not_declared",
        "connect('site.example:80')": "no_tunnel",
    }.items():
        said = place["listed"](f"print({call})")
        assert "403 Network mode ALLOWLIST: " in said, (call, said)
        assert f"({word})" in said, (call, said)
    assert place.internet.visits == []
    assert place.internet.looked_up == []


NEVER = {
    f"http://{METADATA}/latest/meta-data/": "metadata_address",
    "http://metadata.example/": "metadata_address",
    "http://[fd00:ec2::254]/": "metadata_address",
    f"http://{PRIVATE}/": "private_address",
    f"http://[{UNIQUE_LOCAL}]/": "private_address",
    f"http://{CARRIER}/": "shared_address",
    "http://private.example/": "private_address",
    "http://carrier.example/": "shared_address",
    "http://local6.example/": "private_address",
    "http://10.99.0.1/": "private_address",
    "http://127.0.0.2:8080/": "loopback_address",
    "http://loopback.example:8080/": "loopback_address",
    "http://loopback6.example:8080/": "loopback_address",
    "http://mapped.example:8080/": "loopback_address",
    f"http://{HOUSE}:8080/": "host_address",
    f"http://[{HOUSE_6}]:8080/": "host_address",
    f"http://{HOUSE_PRIVATE}:8080/": "private_address",
    "http://house.example:8080/": "host_address",
    "http://house6.example:8080/": "host_address",
    "http://0x7f.2:8080/": "odd_address",
    "http://0xa9fea9fe/": "odd_address",
    "http://2852039166/": "odd_address",
    "http://0251.0376.0251.0376/": "odd_address",
    "http://169.254.43518/": "odd_address",
    f"http://[::ffff:{METADATA}]/": "metadata_address",
    "http://[::ffff:a9fe:a9fe]/": "metadata_address",
    "http://[64:ff9b::a9fe:a9fe]/": "metadata_address",
    "http://[2002:a9fe:a9fe::1]/": "transition_address",
    "http://mirror.internal/": "private_address",
    "http://nowhere.example/": "not_resolved",
}


def authority(url: str) -> str:
    """Host and port of one of these URLs."""
    host = url.removeprefix("http://").partition("/")[0]
    return host if host.endswith(":8080") else f"{host}:80"


@pytest.mark.parametrize("way", ["plain", "tunnel"])
def test_what_is_not_public_is_reached_in_no_mode(place: Place, way: str) -> None:
    calls = {url: f"get({url!r})" if way == "plain" else f"connect({authority(url)!r})" for url in NEVER}
    program = f"print([{', '.join(calls.values())}])"
    for environment in ("public", "listed"):
        for url, said in zip(NEVER, eval(place[environment](program)), strict=True):
            word = said.rpartition("(")[2].rstrip(")")
            assert word in {NEVER[url], "not_declared" if environment == "listed" else NEVER[url]}, (url, said)
    assert place.internet.visits == []


def test_the_operator_s_own_endpoint_is_reached_at_its_port(place: Place) -> None:
    for environment in ("public", "listed"):
        assert f"{PRIVATE} says hello to mirror.internal:8080" in place[environment](
            "print(get('http://mirror.internal:8080/'))"
        )
    assert "(private_address)" in place["public"](f"print(get('http://{PRIVATE}:8080/'))")
    assert place.internet.reached() == {PRIVATE}


def test_redirects_are_followed_by_the_program_and_decided_again(place: Place) -> None:
    for to in (f"http://{METADATA}/", "http://loopback.example:8080/", f"http://{HOUSE}:8080/", "http://0x7f.2/"):
        said = place["public"](f"print(get('http://site.example/?to={to}'))")
        assert said.startswith("403 Network mode PUBLIC: "), (to, said)
    assert place.internet.reached() == {SITE}


def test_a_name_that_changes_its_answer_is_decided_on_each_time(place: Place) -> None:
    place.internet.names["rebinding.example"] = [[SITE], ["127.0.0.1"], [METADATA], [HOUSE]]
    said = [place["public"]("print(get('http://rebinding.example/'))") for _ in range(4)]
    assert f"{SITE} says hello" in said[0]
    assert ["loopback_address" in said[1], "metadata_address" in said[2], "host_address" in said[3]] == [True] * 3
    assert place.internet.reached() == {SITE}
    assert place.internet.looked_up.count("rebinding.example") == 4


@pytest.mark.parametrize("environment", ["python", "listed", "public"])
def test_past_the_proxy_there_is_nothing(place: Place, environment: str) -> None:
    program = f"""
def attempt(what):
    try:
        return what()
    except OSError as error:
        return type(error).__name__, error.errno

def datagram(address, family=socket.AF_INET):
    one = socket.socket(family, socket.SOCK_DGRAM)
    one.settimeout(2)
    one.sendto(bytes.fromhex('00010100000100000000000004736974650765786d706c650000010001'), (address, 53))
    return one.recv(512)

print([attempt(one) for one in (
    lambda: socket.create_connection(({SITE!r}, 80), 3),
    lambda: socket.create_connection(({SITE_6!r}, 80), 3),
    lambda: socket.create_connection(({METADATA!r}, 80), 3),
    lambda: socket.create_connection(({HOUSE!r}, 8080), 3),
    lambda: datagram({NAME_SERVER!r}),
    lambda: datagram({SITE_6!r}, socket.AF_INET6),
    lambda: socket.getaddrinfo('site.example', 80),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300),
)])
"""
    answers = eval(place[environment](program))
    assert {number for _, number in answers[:6]} <= {errno.ENETUNREACH, errno.EHOSTUNREACH}
    assert answers[6] == ("gaierror", socket.EAI_AGAIN)
    assert answers[7:] == [("PermissionError", 1)] * 2
    assert (place.internet.visits, place.internet.looked_up) == ([], [])


@pytest.mark.parametrize("environment", ["python", "listed", "public"])
def test_a_server_in_the_sandbox_itself_is_reached_directly(place: Place, environment: str) -> None:
    program = """
import http.server, threading
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
server.RequestHandlerClass.log_message = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
print(['ca.pem' in get(f'http://{host}:{server.server_port}/') for host in ('localhost', '127.0.0.1')])
server.shutdown()
"""
    assert place[environment](program) == "[True, True]"


def test_a_tunnel_is_cut_when_its_session_ends(place: Place) -> None:
    session = place.start("public")
    program = """
one = socket.create_connection(('127.0.0.1', 3128))
one.sendall(b'CONNECT site.example:8080 HTTP/1.1\\r\\nHost: site.example:8080\\r\\n\\r\\n')
print(one.recv(4096))
"""
    assert "200 " in session.run(program).stdout
    give_up = time.monotonic() + 120
    while place.internet.connected == 0 and time.monotonic() < give_up:
        time.sleep(0.02)
    assert place.internet.connected == 1
    session.stop()
    while place.internet.connected and time.monotonic() < give_up:
        time.sleep(0.02)
    assert place.internet.connected == 0


SMUGGLED = {
    "two lengths": b"POST http://site.example/ HTTP/1.1\r\nHost: site.example\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://169.254.169.254/ HTTP/1.1\r\n\r\n",
    "two hosts": b"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\nHost: metadata.example\r\n\r\n",
    "another host": b"GET http://site.example/ HTTP/1.1\r\nHost: metadata.example\r\n\r\n",
    "a folded field": b"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\nX: a\r\n b\r\n\r\n",
    "bare line feeds": b"GET http://site.example/ HTTP/1.1\nHost: site.example\n\n",
    "a user": b"GET http://site.example@169.254.169.254/ HTTP/1.1\r\nHost: site.example\r\n\r\n",
    "a huge head": b"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
}


def test_smuggled_and_huge_heads_reach_nobody(place: Place) -> None:
    for what, data in SMUGGLED.items():
        said = place["public"](f"print(say({data!r}).splitlines()[0])")
        assert said.startswith(("HTTP/1.1 400 Network mode PUBLIC: ", "HTTP/1.1 431 Network mode PUBLIC: ")), (
            what,
            said,
        )
    assert place.internet.visits == []


def test_what_programs_say_to_the_proxy_stays_there(place: Place) -> None:
    data = (
        b"GET http://site.example/ HTTP/1.1\r\nHost: site.example\r\nProxy-Authorization: Basic c2VjcmV0\r\n"
        b"Proxy-Connection: keep-alive\r\nConnection: X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nX-Kept: yes\r\n\r\n"
    )
    assert "200 OK" in place["public"](f"print(say({data!r}))")
    [visit] = place.internet.visits
    assert visit.headers == {"Host": "site.example", "X-Kept": "yes", "Connection": "close"}


def test_every_decision_is_on_record_with_its_reason(place: Place) -> None:
    place["public"](f"get('http://site.example/?secret=1'), get('http://{METADATA}/x')")
    refused = place.audited("public")
    assert (f"http://{METADATA}:80/x", "metadata_address") in refused
    assert not any("secret" in target for target, _ in refused)
