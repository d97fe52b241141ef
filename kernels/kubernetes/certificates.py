"""The keys of one sandbox: an authority that signs two certificates, the guest's and the gateway's, and is forgotten.

So no key opens more than one sandbox's life: the next one of the same session has others. They lie in the sandbox's
Secret, of which the pod is shown the guest's half; a gateway that takes up a sandbox reads its own half there.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

GUEST_FILES: Final = ("ca.crt", "guest.crt", "guest.key")
"""What the pod is shown."""
_LIFE: Final = timedelta(days=15)
"""A little more than the longest life of a session."""
_SKEW: Final = timedelta(minutes=5)
"""How far the clocks of nodes may be behind."""


def make(name: str, now: datetime | None = None) -> dict[str, bytes]:
    """Certificates and keys, in PEM, for the sandbox of this name: `ca.crt` and those of `guest` and `gateway`."""
    now = now or datetime.now(UTC)
    authority = ec.generate_private_key(ec.SECP256R1())
    title = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"sandcell {name}")])
    root = _begin(title, title, authority.public_key(), now).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    made = {"ca.crt": _encode(root.sign(authority, hashes.SHA256()))}
    for end, use in (("guest", ExtendedKeyUsageOID.SERVER_AUTH), ("gateway", ExtendedKeyUsageOID.CLIENT_AUTH)):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, end)])
        request = _begin(subject, title, key.public_key(), now)
        request = request.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        request = request.add_extension(x509.ExtendedKeyUsage([use]), critical=True)
        request = request.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        made[f"{end}.crt"] = _encode(request.sign(authority, hashes.SHA256()))
        made[f"{end}.key"] = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    return made


def open_context(keys: Mapping[str, bytes]) -> ssl.SSLContext:
    """The gateway's half, for connections to the guest; raises ValueError when it is none."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=keys["ca.crt"].decode("ascii"))
        with _in_memory(keys["gateway.crt"] + keys["gateway.key"]) as path:
            context.load_cert_chain(path)
    except (KeyError, UnicodeDecodeError, ssl.SSLError) as error:
        raise ValueError(f"the sandbox's keys cannot be used: {error}") from None
    return context


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A file on no disk: the library reads keys from files alone."""
    descriptor = os.memfd_create("sandcell-keys", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _encode(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
