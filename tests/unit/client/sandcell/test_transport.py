"""How the client verifies a server."""

from __future__ import annotations

import ssl

from sandcell.transport import make_verification


def test_an_address_without_tls_costs_no_reading_of_authorities_and_trusts_none() -> None:
    for url in ("http://127.0.0.1:8899", "HTTP://sandcell.example"):
        nobody = make_verification(url)
        assert isinstance(nobody, ssl.SSLContext)
        assert nobody.cert_store_stats()["x509"] == 0
        assert (nobody.verify_mode, nobody.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_every_other_address_is_verified_by_the_authorities() -> None:
    for url in ("https://sandcell.example", "HTTPS://sandcell.example", "sandcell.example"):
        assert make_verification(url) is True
