"""Rules that settings keep beyond the range of each: between them, and of what their texts may be. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernel_gateway.client_address import networks
from kernel_gateway.endpoints import endpoints
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.hosts import Hosts
from kernel_gateway.identity.access_key import KEY_ID, SEALING_KEY, SECRET
from kernel_gateway.redact_patterns import Patterns
from kernel_gateway.syslog_address import SyslogAddress

if TYPE_CHECKING:
    from kernel_gateway.settings import Settings


def consistent(settings: Settings) -> Settings:
    """The settings, if they go together; else SettingInvalid."""
    optional = ("environments_file", "audit_file", "tls_cert", "tls_key")
    for name in ("data_dir", "run_dir", *optional):
        value = getattr(settings, name)
        if not value.startswith("/") and (value or name not in optional):
            raise SettingInvalid(f"{name} must be an absolute path")
    _require_door(settings)
    try:
        endpoints(settings.egress_private)
    except ValueError as error:
        raise SettingInvalid(f"egress_private: {error}") from None
    try:
        networks(settings.trusted_proxies)
    except ValueError as error:
        raise SettingInvalid(f"trusted_proxies: {error}") from None
    try:
        Patterns.of_lines(settings.redact_patterns)
    except ValueError as error:
        raise SettingInvalid(f"redact_patterns: {error}") from None
    _require_sinks(settings)
    _require_modes(settings.made_network_modes)
    _require_uids(settings)
    for default, most in (
        ("execution_timeout_seconds", "execution_timeout_max_seconds"),
        ("session_timeout_seconds", "session_timeout_max_seconds"),
        ("memory_mb", "memory_mb_max"),
        ("storage_mb", "storage_mb_max"),
    ):
        if getattr(settings, default) > getattr(settings, most):
            raise SettingInvalid(f"{default} must not be larger than {most}")
    if bool(settings.access_key_id) != bool(settings.secret_access_key):
        raise SettingInvalid("access_key_id and secret_access_key are given together or not at all")
    _require_key(settings)
    if not re.fullmatch(r"[0-9]{12}", settings.agentcore_account_id):
        raise SettingInvalid("agentcore_account_id must be 12 digits")
    if settings.token and len(settings.token) < 8:
        raise SettingInvalid("token must have at least 8 characters")
    return settings


def _require_uids(settings: Settings) -> None:
    for name in ("service_uid", "viewer_uid"):
        if 0 <= getattr(settings, name) - settings.uid_base < settings.uid_ranges * 65_536:
            raise SettingInvalid(f"{name} must not be one of the uids that sandboxes get: see uid_base and uid_ranges")
    if settings.viewer_uid == settings.service_uid:
        raise SettingInvalid("viewer_uid must be another than service_uid")


def _require_door(settings: Settings) -> None:
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingInvalid("tls_cert and tls_key are given together or not at all")
    try:
        Hosts.of_setting(settings.allowed_hosts, settings.host)
    except ValueError as error:
        raise SettingInvalid(f"allowed_hosts: {error}") from None


def _require_sinks(settings: Settings) -> None:
    try:
        if settings.audit_syslog:
            SyslogAddress.of_text(settings.audit_syslog)
    except ValueError as error:
        raise SettingInvalid(f"audit_syslog: {error}") from None
    url = settings.audit_http_url
    if url and not re.fullmatch(r"https?://[^\s/?#@]+([/?][^\s#]*)?", url):
        raise SettingInvalid("audit_http_url must be http://host/path or https://host/path, without a user's name")


def _require_modes(text: str) -> None:
    modes = text.split(",")
    if not set(modes) <= {"SANDBOX", "PUBLIC"} or len(set(modes)) != len(modes):
        raise SettingInvalid(f"made_network_modes must be SANDBOX, PUBLIC or SANDBOX,PUBLIC, not {text!r}")


def _require_key(settings: Settings) -> None:
    """What clients and signatures can carry; a secret is in no message."""
    if settings.access_key_id and not KEY_ID.fullmatch(settings.access_key_id):
        raise SettingInvalid("access_key_id must be 3 to 128 letters, digits, - and _")
    if settings.secret_access_key and not SECRET.fullmatch(settings.secret_access_key):
        raise SettingInvalid("secret_access_key must be 8 to 256 printable ASCII characters without blanks")
    if settings.secrets_key and not SEALING_KEY.fullmatch(settings.secrets_key):
        raise SettingInvalid("secrets_key must be 64 hexadecimal digits, as `openssl rand -hex 32` makes them")
