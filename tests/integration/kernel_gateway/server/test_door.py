"""The way in: HTTPS by a certificate that is renewed while the service runs, and the names it answers to."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from kernel_gateway.errors import StartRefused
from kernel_gateway.server.tls import Certificate
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.running_service import RunningService

SERVICE_UID = 1_199_999_999


def write(authority: trustme.CA, directory: Path, name: str = "localhost") -> trustme.LeafCert:
    """Write a certificate and its key as a renewal does: new files that take the place of the old ones."""
    issued = authority.issue_cert("127.0.0.1", name)
    for file, content in (
        ("cert.pem", b"".join(each.bytes() for each in issued.cert_chain_pems)),
        ("key.pem", issued.private_key_pem.bytes()),
    ):
        fresh = directory / f".{file}"
        fresh.write_bytes(content)
        fresh.chmod(0o600)
        os.chown(fresh, SERVICE_UID, SERVICE_UID)
        fresh.replace(directory / file)
    return issued


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def certificates(authority: trustme.CA, short_directory: Path) -> Path:
    """A directory as root would keep it: closed on the way, its files the service's."""
    directory = short_directory / "closed" / "tls"
    directory.mkdir(parents=True)
    (short_directory / "closed").chmod(0o700)
    write(authority, directory)
    return directory


@pytest.fixture(scope="module")
def secure(make_service: Callable[..., RunningService], certificates: Path) -> Iterator[RunningService]:
    settings = {"tls_cert": certificates / "cert.pem", "tls_key": certificates / "key.pem"}
    service = make_service(**settings, allowed_hosts="sandcell.example.com")
    yield service
    assert service.stop() == 0


def served(service: RunningService, authority: trustme.CA) -> bytes:
    """The certificate that a handshake brings, checked."""
    context = ssl.create_default_context(cafile=None)
    authority.configure_trust(context)
    with (
        socket.create_connection(("127.0.0.1", httpx.URL(service.url).port or 0), timeout=120) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
    ):
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_it_serves_https_and_nothing_else(secure: RunningService, authority: trustme.CA) -> None:
    assert secure.url.startswith("https://127.0.0.1:")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    assert httpx.get(f"{secure.url}/readyz", verify=context, timeout=120).status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{secure.url.replace('https', 'http')}/readyz", timeout=120)
    with pytest.raises(httpx.ConnectError, match="verify"):
        httpx.get(f"{secure.url}/readyz", timeout=120)
    saved = secure.data_dir / "config/sandcell/client.toml"
    assert f'url = "{secure.url}"' in saved.read_text()


def test_a_renewed_certificate_holds_at_once_and_a_broken_one_never(
    secure: RunningService, authority: trustme.CA, certificates: Path
) -> None:
    first = served(secure, authority)
    write(authority, certificates)
    second = served(secure, authority)
    assert second != first
    (certificates / "key.pem").write_text("half a key")
    assert served(secure, authority) == second
    eventually(lambda: any("certificate_unusable" in line for line in secure.output))
    write(authority, certificates)
    assert served(secure, authority) not in (first, second)


def test_only_names_that_were_given_are_answered(secure: RunningService, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with httpx.Client(base_url=secure.url, verify=context, timeout=120) as http:
        token = {"Authorization": f"Bearer {secure.token}"}
        for host, status in (("sandcell.example.com", 200), ("127.0.0.1", 200), ("evil.example", 421)):
            for path in ("/healthz", "/v1/sessions", "/api/kernels", "/sandboxes-of-nobody"):
                answer = http.get(path, headers={"Host": host, **token})
                assert (answer.status_code == 421) is (status == 421), (host, path, answer.text)
        refused = http.get("/readyz", headers={"Host": "evil.example:8899"})
        assert refused.json()["error"]["code"] == "misdirected_request"
        assert "allowed_hosts" in refused.json()["error"]["message"]
        assert http.get("/readyz").status_code == 200, "the connection goes on"
        assert http.get(f"/librechat/{secure.token}/v1/x", headers={"Host": "evil.example"}).status_code == 421
        assert http.get("/last-of-these").status_code == 401
    eventually(lambda: any("/last-of-these" in line for line in secure.output))
    assert not any(secure.token in line for line in secure.output if "/librechat/" in line)


def test_without_names_given_a_page_with_a_name_of_its_own_gets_nothing(service: RunningService) -> None:
    with httpx.Client(base_url=service.url, timeout=120) as http:
        rebound = {"Host": "evil.example:8899"}
        for path in ("/healthz", "/readyz", "/v1/openapi.json", "/v1/sessions", "/api", "/nothing"):
            assert http.get(path, headers=rebound).status_code == 421, path
        assert http.post("/v1/sessions", headers=rebound, json={}).status_code == 421
        guessed = {**rebound, "Authorization": "Bearer guessed-by-a-page"}
        for path, status in (("/healthz", 421), ("/v1/openapi.json", 421), ("/v1/sessions", 401), ("/nothing", 401)):
            assert http.get(path, headers=guessed).status_code == status, path
        for host in ("localhost:1", "127.0.0.1", "[::1]", "sandcell:8899", "sandcell.internal"):
            assert http.get("/readyz", headers={"Host": host}).status_code == 200, host
        proxied = {"Host": "sandcell.example.com", "Authorization": f"Bearer {service.token}"}
        assert http.get("/v1/sessions", headers=proxied).status_code == 200


def test_what_is_no_pair_of_certificate_and_key_stops_the_start(authority: trustme.CA, tmp_path: Path) -> None:
    write(authority, tmp_path)
    files = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    assert Certificate(*files).context is not None
    shutil.copy(tmp_path / "key.pem", tmp_path / "former")
    write(authority, tmp_path)
    with pytest.raises(StartRefused, match="tls_key"):
        Certificate(files[0], str(tmp_path / "former"))
    with pytest.raises(StartRefused, match="No such file"):
        Certificate(files[0], str(tmp_path / "nothing"))
    sealed = tmp_path / "sealed"
    encrypt = ["openssl", "rsa", "-aes128", "-passout", "pass:word", "-in", files[1], "-out", str(sealed)]
    ecdsa = ["openssl", "ec", *encrypt[2:]]
    assert any(subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in (ecdsa, encrypt))
    with pytest.raises(StartRefused, match="tls_key"):
        Certificate(files[0], str(sealed))
