"""Every setting of the service: the fields of `Settings` are the one table that files, variables, flags and docs share.

Sources, later ones win: defaults, the TOML file (`--config` or `SANDCELL_CONFIG`; flat keys), `SANDCELL_<NAME>`
variables, flags. An unknown name or a value out of range is an error. The unit is in the name (`_seconds`, `_bytes`,
`_mb`). Nothing else in the service reads the process's environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import quote

from kernel_gateway.client_address import parse_networks
from kernel_gateway.endpoints import parse_endpoints
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.hosts import Hosts, read_gateway_address
from kernel_gateway.identity.access_key import KEY_ID, SEALING_KEY, SECRET
from kernel_gateway.identity.openid import is_safe_address
from kernel_gateway.identity.roles import parse_roles
from kernel_gateway.package_sources import parse_apt_sources
from kernel_gateway.redact_patterns import Patterns
from kernel_gateway.setting import PREFIX, Setting, setting
from kernel_gateway.syslog_address import SyslogAddress

# Rules that settings keep beyond the range of each: between them, and of what their texts may be. Pure.


def check_consistency(settings: Settings) -> Settings:
    """The settings, if they go together; else SettingInvalid."""
    optional = ("environments_file", "audit_file", "tls_cert", "tls_key")
    for name in ("data_dir", "run_dir", *optional):
        value = getattr(settings, name)
        if not value.startswith("/") and (value or name not in optional):
            raise SettingInvalid(f"{name} must be an absolute path")
    _require_door(settings)
    parsers: dict[str, Callable[[str], object]] = {
        "egress_private": parse_endpoints,
        "apt_sources": parse_apt_sources,
        "trusted_proxies": parse_networks,
        "redact_patterns": Patterns.of_lines,
        "oidc_roles": parse_roles,
    }
    for name, parse in parsers.items():
        try:
            parse(getattr(settings, name))
        except ValueError as error:
            raise SettingInvalid(f"{name}: {error}") from None
    _require_addresses(settings)
    _require_gateway(settings)
    _require_modes(settings.made_network_modes)
    _require_images(settings.added_packages_images)
    _require_uids(settings)
    for default, most in (
        ("execution_timeout_seconds", "execution_timeout_max_seconds"),
        ("session_timeout_seconds", "session_timeout_max_seconds"),
        ("memory_mb", "memory_mb_max"),
        ("storage_mb", "storage_mb_max"),
    ):
        if getattr(settings, default) > getattr(settings, most):
            raise SettingInvalid(f"{default} must not be larger than {most}")
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


def _require_addresses(settings: Settings) -> None:
    _require_provider(settings)
    try:
        if settings.audit_syslog:
            SyslogAddress.of_text(settings.audit_syslog)
    except ValueError as error:
        raise SettingInvalid(f"audit_syslog: {error}") from None
    for name in ("audit_http_url", "otlp_endpoint"):
        url = getattr(settings, name)
        if url and not re.fullmatch(r"https?://[^\s/?#@]+([/?][^\s#]*)?", url):
            raise SettingInvalid(f"{name} must be http://host/path or https://host/path, without a user's name")


def _require_provider(settings: Settings) -> None:
    if not settings.oidc_issuer:
        return
    if not is_safe_address(settings.oidc_issuer) or re.search(r"[\s?#@]", settings.oidc_issuer):
        raise SettingInvalid("oidc_issuer must be https://host/path, without a user's name, a query or a fragment")
    if not settings.oidc_client_id or not settings.oidc_roles.strip() or not settings.oidc_principal_claim:
        raise SettingInvalid("with oidc_issuer go oidc_client_id, oidc_principal_claim and oidc_roles")
    if "openid" not in settings.oidc_scopes.split():
        raise SettingInvalid("oidc_scopes must name openid")


def _require_gateway(settings: Settings) -> None:
    """What several gateways need in common, and what only a service that is alone can do yet."""
    if not settings.gateway_address:
        return
    read_gateway_address(settings.gateway_address)
    if not settings.database.startswith("postgres"):
        raise SettingInvalid("gateway_address needs a database that gateways can share: PostgreSQL, see database")
    if not settings.store:
        raise SettingInvalid("gateway_address needs a store that gateways can share: see store")
    if not settings.secrets_key:
        raise SettingInvalid("gateway_address needs secrets_key, the same at every gateway")
    if settings.added_packages_images:
        raise SettingInvalid("gateway_address and added_packages_images do not go together: images lie on one host")


def _require_modes(text: str) -> None:
    modes = text.split(",")
    if not set(modes) <= {"SANDBOX", "PUBLIC"} or len(set(modes)) != len(modes):
        raise SettingInvalid(f"made_network_modes must be SANDBOX, PUBLIC or SANDBOX,PUBLIC, not {text!r}")


def _require_images(text: str) -> None:
    if not re.fullmatch(r"(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,99}(,[A-Za-z0-9][A-Za-z0-9._-]{0,99})*)?", text):
        raise SettingInvalid("added_packages_images must be names of environments with commas between, or *")


def _require_key(settings: Settings) -> None:
    """What clients and signatures can carry; a secret is in no message."""
    if bool(settings.access_key_id) != bool(settings.secret_access_key):
        raise SettingInvalid("access_key_id and secret_access_key are given together or not at all")
    if settings.access_key_id and not KEY_ID.fullmatch(settings.access_key_id):
        raise SettingInvalid("access_key_id must be 3 to 128 letters, digits, - and _")
    if settings.secret_access_key and not SECRET.fullmatch(settings.secret_access_key):
        raise SettingInvalid("secret_access_key must be 8 to 256 printable ASCII characters without blanks")
    if settings.secrets_key and not SEALING_KEY.fullmatch(settings.secrets_key):
        raise SettingInvalid("secrets_key must be 64 hexadecimal digits, as `openssl rand -hex 32` makes them")


CONFIG_VARIABLE = "SANDCELL_CONFIG"
CLIENT_VARIABLES = ("SANDCELL_URL", "SANDCELL_SESSION")
"""Variables with our prefix that belong to the client and the command line, not to the service."""

DAY = 86_400
TWO_WEEKS = 14 * DAY
MEGABYTE = 1_000_000


def default_data_dir() -> str:
    """`/var/lib/sandcell` for root, else the XDG data directory."""
    if os.geteuid() == 0:
        return "/var/lib/sandcell"
    base = os.environ.get("XDG_DATA_HOME", "")
    return str((Path(base) if base.startswith("/") else Path.home() / ".local/share") / "sandcell")


@dataclass(frozen=True)
class Settings:
    """The settings as read once at start. Secrets do not show in `repr`."""

    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(8899, "port to listen on; 0 takes a free one", low=0, high=65_535)
    tls_cert: str = setting("", "PEM file of the certificate and its chain, to serve HTTPS; empty: HTTP")
    tls_key: str = setting("", "PEM file of tls_cert's key, unencrypted, readable for service_uid")
    allowed_hosts: str = setting(
        "", "names that requests may be addressed to, a,b,*.c, or *; empty: those that no public DNS has", lines=True
    )
    trusted_proxies: str = setting(
        "", "addresses and networks of proxies that say in X-Forwarded-For for whom they ask, with commas between"
    )
    data_dir: str = setting(
        default_data_dir, "absolute directory for the database, environments, sandboxes and local store"
    )
    environments_dir: str = setting("", "where built environments lie; empty: under data_dir")
    run_dir: str = setting("/run/sandcell", "short absolute directory for the sandboxes' sockets")
    store: str = setting("", "where workspaces are durable, file:///dir or s3://bucket/prefix; empty: under data_dir")
    database: str = setting(
        "", "postgresql://user:password@host/name, or sqlite:////file; empty: SQLite under data_dir", secret=True
    )
    gateway_address: str = setting(
        "", "where other gateways of the same database reach this one, http://host:port; empty: it is the only service"
    )
    gateway_lease_seconds: float = setting(
        4.0, "time after which others take over from a gateway that is not heard of", low=1, high=300
    )
    runtime: str = setting(
        "runc", "runtime of environments that name none: runc, crun, runsc, or another installed one"
    )
    kubernetes_config: str = setting(
        "",
        "kubeconfig of the cluster that the runtime kubernetes makes pods in; empty: the one that the service runs in",
    )
    kubernetes_namespace: str = setting("sandcell", "namespace of these pods; several services may share one")
    kubernetes_registry: str = setting("sandcell.local", "what the names of images begin with in that cluster")
    kubernetes_classes: str = setting(
        "", "RuntimeClass of pods by image, python=gvisor; images without one get the cluster's default", lines=True
    )
    kubernetes_user_namespaces: bool = setting(default=False, help="a user namespace for each pod: for nodes with such")
    kubernetes_claims: bool = setting(default=False, help="pods by claims of agent-sandbox, for clusters that have it")
    kubernetes_port_forward: bool = setting(default=False, help="pods are reached through the API server")
    environments_file: str = setting(
        "", "TOML file of environments; empty: environments.toml under data_dir, if it is there"
    )
    token: str = setting("", "the first administrator's bearer token; empty: one is made and printed", secret=True)
    access_key_id: str = setting("", "the first administrator's access key id, for faces that sign requests")
    secret_access_key: str = setting("", "the secret of access_key_id", secret=True)
    oidc_issuer: str = setting(
        "", "OpenID Connect provider that people sign in to the console by, https://host/path; empty: none"
    )
    oidc_client_id: str = setting("", "what that provider knows this service as")
    oidc_client_secret: str = setting("", "the secret of oidc_client_id; empty: a public client", secret=True)
    oidc_scopes: str = setting("openid profile email", "scopes that are asked for, with blanks between")
    oidc_principal_claim: str = setting("email", "claim that names the principal; email counts when it is verified")
    oidc_roles: str = setting(
        "",
        "who has which role: lines of ROLE CLAIM=VALUE [PRINCIPAL ...], the role viewer, user or administrator",
        lines=True,
    )
    secrets_key: str = setting(
        "", "key that stored secrets are sealed with, 64 hexadecimal digits; empty: a file under data_dir", secret=True
    )

    agentcore_environment: str = setting(
        "",
        "the environment that `aws.codeinterpreter.v1` is on the AgentCore face; empty: `data` where it is built, else"
        " `python`",
    )
    e2b_environment: str = setting(
        "python", "the environment that E2B's own templates (`base`, `code-interpreter-v1` ...) stand for"
    )
    librechat_environment: str = setting("python", "the environment that LibreChat's code runs in; `data` has more")
    agentcore_account_id: str = setting("000000000000", "the account in ARNs of the AgentCore face: 12 digits")
    agentcore_keep_alive_seconds: float = setting(10.0, "time between signs of life of a tool", low=0.1, high=60)
    # Below the 60 s after which boto3 sends a request again whose answer has not begun, proxies in between as well.
    agentcore_hold_seconds: float = setting(
        20.0, "how long an invocation's answer waits for its result before it begins without", low=0, high=55
    )
    agentcore_stop_wait_seconds: float = setting(
        50.0, "how long a session that is stopped waits for invocations that clients wait for", low=0, high=900
    )
    mcp_environment: str = setting("python", "the environment of sessions started over MCP, unless a client names one")
    mcp_output_bytes: int = setting(
        30_000, "text of one tool's result over MCP, unless a call asks for more", low=1_000, high=1_000_000
    )
    mcp_idle_seconds: float = setting(
        3_600.0, "an MCP session that is not used for so long ends, with the sandboxes it started", low=1, high=DAY
    )
    mcp_sessions_per_principal: int = setting(
        50, "MCP sessions of one principal; with one more, the one unused for longest ends", low=1, high=10_000
    )
    mcp_origins: str = setting(
        "", "origins of web pages that may use /mcp besides the service's own, as https://a.example,https://b.example"
    )
    mcp_authorization_servers: str = setting(
        "", "what hands out tokens for /mcp, for its OAuth metadata: URLs, parted by commas"
    )

    agent_engine_environment: str = setting(
        "",
        "the environment that sandboxes of the Agent Engine face are made from; empty: `data` where it is built, else"
        " `python`",
    )
    agent_engine_ttl_seconds: int = setting(
        TWO_WEEKS, "how long a sandbox of the Agent Engine face lives that no ttl is asked for", low=1, high=TWO_WEEKS
    )

    execution_timeout_seconds: float = setting(900.0, "an execution's timeout without one", low=0.1, high=DAY)
    execution_timeout_max_seconds: float = setting(
        900.0, "longest execution timeout one may ask for", low=0.1, high=DAY
    )
    command_timeout_seconds: float = setting(
        900.0, "a foreground command's timeout, also the longest", low=0.1, high=28_800
    )
    task_timeout_seconds: float = setting(
        28_800.0, "a background command's timeout, also the longest", low=0.1, high=28_800
    )
    program_unfollowed_seconds: float = setting(600.0, "time that a shell goes on unfollowed", low=1, high=28_800)
    interrupt_grace_seconds: float = setting(
        5.0, "time an interrupted kernel has before it is killed", low=0.1, high=60
    )
    session_timeout_seconds: int = setting(
        28_800, "a session's time-to-live when none is asked for", low=1, high=TWO_WEEKS
    )
    session_timeout_max_seconds: int = setting(TWO_WEEKS, "longest time-to-live one may ask for", low=1, high=TWO_WEEKS)
    idle_timeout_seconds: int = setting(900, "a session's idle timeout when none is asked for", low=1, high=TWO_WEEKS)
    keep_variables: str = setting(
        "on_idle", "when variables are written for the kernel after one that dies", choices=("off", "on_idle", "each")
    )
    hibernate_seconds: int = setting(
        0, "idle time after which a session gives up its sandbox until its next use; 0: never", low=0, high=TWO_WEEKS
    )
    state_ttl_seconds: int = setting(TWO_WEEKS, "how long a hibernated session is kept", low=1, high=TWO_WEEKS)
    hibernated_sessions: int = setting(100, "hibernated sessions that one principal may have", low=0, high=1_000_000)
    hibernated_mb: int = setting(
        10_240,
        "what one principal's hibernated sessions, and variables of lost sandboxes, may take of store and disk",
        low=0,
        high=10**9,
    )
    checkpoints_per_session: int = setting(
        20, "checkpoints that one session may have; of automatic ones the oldest go", low=0, high=1_000
    )
    checkpoints_mb: int = setting(
        10_240, "what the checkpoints of one principal may take in the store, files included", low=0, high=10**9
    )

    memory_mb: int = setting(
        2_048, "memory of a sandbox; vCPUs are memory / 1,769 MB unless declared", low=1_769, high=10_240
    )
    memory_warn_percent: int = setting(
        85, "share of its memory from which a session warns while code runs; 0: never", low=0, high=99
    )
    memory_guard_percent: int = setting(
        95, "share of its memory from which a session interrupts what it runs; 0: never", low=0, high=99
    )
    storage_mb: int = setting(512, "disk of a sandbox: workspace, home and /tmp together", low=512, high=10_240)
    memory_mb_max: int = setting(
        10_240, "most memory that an environment made by a principal may have", low=1_769, high=10_240
    )
    storage_mb_max: int = setting(
        10_240, "most disk that an environment made by a principal may have", low=512, high=10_240
    )
    vcpus_max: float = setting(6.0, "most vCPUs that an environment made by a principal may have", low=0.25, high=1_024)
    made_network_modes: str = setting("SANDBOX,PUBLIC", "networks that environments made by principals may have")
    environments_per_principal: int = setting(100, "environments that one principal may have made", low=0, high=100_000)
    added_packages_images: str = setting(
        "", "environments of the host that principals may add packages to, with commas between, or *; empty: none"
    )
    added_packages_apt: bool = setting(default=False, help="let principals add Debian packages, too, by apt")
    added_images: int = setting(
        100, "images with packages that principals added, of all of them together", low=0, high=100_000
    )
    added_images_per_principal: int = setting(
        10, "environments with packages added that one principal may have", low=0, high=100_000
    )
    added_image_bytes: int = setting(
        2_000 * MEGABYTE, "bytes of what is added to one image", low=1_024, high=1_000_000 * MEGABYTE
    )
    added_builds_at_once: int = setting(
        1, "images with added packages that are built at once; one of each principal", low=1, high=64
    )
    added_build_seconds: float = setting(
        900.0, "time that the build of one image with added packages has", low=1, high=DAY
    )
    agents_per_principal: int = setting(1_000, "agents that one principal may have", low=0, high=100_000)
    pids: int = setting(512, "processes and threads of a sandbox", low=64, high=32_768)
    service_uid: int = setting(
        1_199_999_999, "host uid that the service runs as; the launcher alone is root", low=1, high=4_200_000_000
    )
    viewer_uid: int = setting(
        1_199_999_998, "host uid of processes that make pages and scripts of notebooks", low=1, high=4_200_000_000
    )
    uid_base: int = setting(1_200_000_000, "first host uid given to sandboxes", low=65_536, high=3_900_000_000)
    uid_ranges: int = setting(4_096, "ranges of 65,536 host uids from uid_base up, one per sandbox", low=1, high=5_000)
    cgroup_parent: str = setting("sandcell", "first part of the name of the cgroup that holds the sandboxes' cgroups")

    live_sessions: int = setting(1_000, "sessions alive at once", low=1, high=100_000)
    sessions_per_principal: int = setting(
        0, "sessions alive at once of one principal; 0: a tenth of live_sessions", low=0, high=100_000
    )
    starts_at_once: int = setting(4, "sandboxes being started at once; more wait", low=1, high=256)
    pool_starts_at_once: int = setting(
        1, "sandboxes of pools being started at once, beside those of starts_at_once", low=1, high=64
    )
    pool_memory_mb: int = setting(
        4_096, "memory that the sandboxes of all pools may use together", low=0, high=10_000_000
    )
    pool_window_seconds: float = setting(
        60.0, "a pool that follows demand holds as many sandboxes as were asked for in this time", low=1, high=86_400
    )
    invocations_per_second: float = setting(30.0, "invocations a second and principal", low=0.1, high=100_000)
    connections: int = setting(4_096, "connections open at once", low=1, high=1_000_000)
    connections_per_address: int = setting(
        1_024,
        "connections open at once from one address; as many as connections where a proxy stands before the service",
        low=1,
        high=1_000_000,
    )
    head_seconds: float = setting(20.0, "time the head of a request has to arrive", low=0.1, high=600)
    keep_alive_seconds: float = setting(75.0, "time a connection may rest between two requests", low=0.1, high=3_600)
    body_memory_bytes: int = setting(
        600 * MEGABYTE, "memory for the bodies of all requests together, of every face", low=MEGABYTE, high=10**12
    )
    body_disk_bytes: int = setting(
        4_000 * MEGABYTE, "disk for the bodies that are on their way, all together", low=MEGABYTE, high=10**13
    )
    body_silence_seconds: float = setting(
        30.0, "silence after which a body that has not come whole is given up", low=0.1, high=3_600
    )
    body_bytes_per_second: int = setting(20_000, "least rate of a body, over longer than that", low=1, high=10**9)
    requests_per_second: float = setting(
        200.0, "requests of any kind a second and principal, over longer than a few seconds", low=0.1, high=1_000_000
    )
    failed_authentications_per_second: float = setting(
        5.0, "failed authentications a second from one address before they are answered later", low=0.01, high=1_000_000
    )
    queue_length: int = setting(100, "executions that may wait in one session", low=1, high=10_000)
    payload_bytes: int = setting(
        100 * MEGABYTE, "largest request or file in one request", low=1_024, high=2_000 * MEGABYTE
    )
    uploads_per_session: int = setting(
        16, "uploads in parts that are open at once into one session or workspace", low=0, high=10_000
    )
    uploads_per_principal: int = setting(64, "uploads in parts that one principal has open at once", low=0, high=10_000)
    upload_session_bytes: int = setting(
        12_000 * MEGABYTE, "bytes of open uploads into one session or workspace; also the largest", low=0, high=10**13
    )
    upload_principal_bytes: int = setting(
        24_000 * MEGABYTE, "bytes of open uploads of one principal", low=0, high=10**14
    )
    upload_kept_seconds: float = setting(
        float(DAY), "time that an open upload is kept after its last byte", low=1, high=TWO_WEEKS
    )
    code_bytes: int = setting(10 * MEGABYTE, "largest code of one execution", low=1_024, high=100 * MEGABYTE)
    output_text_bytes: int = setting(
        MEGABYTE, "text returned per execution, head and tail", low=1_024, high=100 * MEGABYTE
    )
    output_rich_bytes: int = setting(
        20 * MEGABYTE, "images and other rich outputs kept per execution", low=1_024, high=100 * MEGABYTE
    )
    stored_text_bytes: int = setting(
        256_000, "text stored per execution, head and tail", low=1_024, high=100 * MEGABYTE
    )
    full_output_bytes: int = setting(
        32 * MEGABYTE, "text kept in full next to the notebook, per execution and stream", low=0, high=1_000 * MEGABYTE
    )
    session_output_bytes: int = setting(
        1_000 * MEGABYTE, "texts kept in full of one session, together", low=0, high=10**13
    )
    redact_patterns: str = setting(
        "", "regular expressions (RE2) of what no record keeps: a list, or one a line", lines=True
    )
    notebook_bytes: int = setting(
        100 * MEGABYTE, "largest notebook that is read: to replay it, to show it", low=1_024, high=2_000 * MEGABYTE
    )
    view_seconds: float = setting(60.0, "time to make a page or a script of a notebook", low=1, high=900)
    command_output_bytes: int = setting(
        MEGABYTE, "output returned per command and stream", low=1_024, high=2 * MEGABYTE
    )
    event_log_bytes: int = setting(
        2 * MEGABYTE, "events kept per running execution for followers", low=1_024, high=10**9
    )
    finished_jobs_bytes: int = setting(
        32 * MEGABYTE, "memory for executions that ended lately, whole and with their events", low=0, high=10**10
    )
    replays: int = setting(16, "replays of notebooks running at once", low=0, high=10_000)
    replays_per_principal: int = setting(4, "replays of notebooks of one principal running at once", low=0, high=10_000)
    replay_cells: int = setting(10_000, "code cells of one replayed notebook", low=1, high=1_000_000)
    replay_seconds: float = setting(28_800.0, "time one replay has, all its cells together", low=1, high=TWO_WEEKS)
    replay_memory_bytes: int = setting(
        400 * MEGABYTE, "memory for notebooks under replay and replays that ended lately", low=1_024, high=10**11
    )
    replay_kept_seconds: float = setting(
        3_600.0, "time a replay and its notebook are kept after its end", low=0, high=DAY
    )
    attached_timeout_seconds: float = setting(
        28_800.0, "timeout of cells that attached clients run", low=0.1, high=TWO_WEEKS
    )
    attach_message_bytes: int = setting(16 * MEGABYTE, "largest message of an attached client", low=65_536, high=10**9)
    attach_replay_bytes: int = setting(
        16 * MEGABYTE, "messages kept per session for clients that are slow or come back", low=65_536, high=10**9
    )
    attach_ping_seconds: float = setting(30.0, "time between pings to an attached Jupyter client", low=0.5, high=600)
    attach_keep_seconds: float = setting(600.0, "time that the place of a client which left is kept", low=1, high=DAY)
    dataset_environment: str = setting("python", "the environment that datasets are described in; it needs PyArrow")
    dataset_bytes: int = setting(
        2_000 * MEGABYTE, "largest dataset read whole, of text its first part", low=1_024, high=8_000 * MEGABYTE
    )
    dataset_seconds: float = setting(
        60.0, "time to read one dataset; then what was read stands for all", low=1, high=900
    )
    datasets_per_workspace: int = setting(1_000, "datasets that one workspace may have", low=0, high=100_000)
    archive_file_bytes: int = setting(
        25 * MEGABYTE, "largest file in an archive of a workspace; larger ones are listed in it", low=1_024, high=10**13
    )
    link_lifetime_max_seconds: int = setting(
        DAY, "longest life of a link to a durable file in S3; 0: no links are given", low=0, high=7 * DAY
    )
    files_listed: int = setting(10_000, "most entries in one listing of files", low=1, high=50_000)

    egress_private: str = setting(
        "", "private addresses that sandboxes may reach all the same, as host:port, host:port"
    )
    package_cache_bytes: int = setting(
        2 * 10**9, "files of package indexes that are kept for the next who installs them; 0: none", low=0, high=10**13
    )
    apt_sources: str = setting(
        "",
        "sources of Debian packages for images with a list apt, as in apt's own files, {codename} being the image's"
        " release; empty: Debian's",
        lines=True,
    )
    egress_connections: int = setting(64, "connections out of one session at once", low=1, high=10_000)
    egress_requests: int = setting(100_000, "connections and requests out of one session in all", low=1, high=10**9)
    egress_sent_bytes: int = setting(10**9, "bytes out of one session in all", low=1_024, high=10**15)
    egress_received_bytes: int = setting(10**10, "bytes from outside into one session in all", low=1_024, high=10**15)
    egress_header_bytes: int = setting(
        32_768, "head of one request or answer at the egress proxy", low=1_024, high=10**6
    )
    egress_connect_seconds: float = setting(
        10.0, "time to resolve and reach what a session asks for", low=0.1, high=300
    )
    egress_header_seconds: float = setting(10.0, "time the head of a request has to arrive", low=0.1, high=300)
    egress_idle_seconds: float = setting(300.0, "silence after which a connection is closed", low=0.1, high=DAY)

    workspace_retention_days: int = setting(
        0, "days after which a workspace that has not been used is removed; 0: never", low=0, high=36_500
    )

    audit_retention_days: int = setting(90, "days that audit records are kept", low=1, high=3_650)
    audit_records: int = setting(1_000_000, "audit records kept at most; the oldest go", low=1_000, high=10**9)
    audit_file: str = setting(
        "", "file that gets the audit records as JSON lines; empty: state/audit.jsonl under data_dir"
    )
    audit_file_bytes: int = setting(20 * MEGABYTE, "size at which a new audit file is begun", low=100_000, high=10**12)
    audit_files: int = setting(
        5, "audit files kept, the one being written among them; 0: none is written", low=0, high=1_000
    )
    audit_syslog: str = setting(
        "", "syslog server that gets the audit records: udp://host:514, tcp://host:514, unix:///dev/log; empty: none"
    )
    audit_http_url: str = setting("", "address that the audit records are posted to as JSON lines; empty: none")
    audit_http_token: str = setting("", "bearer token for audit_http_url", secret=True)
    otlp_endpoint: str = setting(
        "", "address that traces are sent to by OTLP over HTTP, as http://host:4318/v1/traces; empty: none are made"
    )
    otlp_token: str = setting("", "bearer token for otlp_endpoint", secret=True)

    start_deadline_seconds: float = setting(60.0, "time a sandbox has to start", low=1, high=600)
    restore_deadline_seconds: float = setting(
        600.0,
        "time anything waits for a workspace to be restored, and a restore goes on while nothing comes",
        low=1,
        high=DAY,
    )
    sync: str = setting(
        "async",
        "before_return: answers of executions wait until their files are in the store, unless a session says otherwise",
        choices=("async", "before_return"),
    )
    flush_deadline_seconds: float = setting(
        60.0, "time that a session's end, or an answer with sync before_return, waits for a flush", low=0.1, high=DAY
    )
    drain_seconds: float = setting(30.0, "time running executions have at shutdown", low=0, high=3_600)
    sweep_interval_seconds: float = setting(
        30.0, "time between comparisons of sessions and sandboxes", low=0.1, high=3_600
    )
    disk_reserve_bytes: int = setting(
        512 * MEGABYTE, "free disk below which no session or execution starts", low=0, high=10**13
    )
    idle_memory_seconds: float = setting(
        60.0, "idle time after which a session's memory is moved to swap, if there is any; 0: never", low=0, high=DAY
    )
    gvisor_checkpoints: bool = setting(
        default=True, help="whether hibernated sessions under gVisor keep their processes, in images on the host's disk"
    )
    memory_reserve_bytes: int = setting(
        256 * MEGABYTE, "available memory below which no session starts; 0: not looked at", low=0, high=10**13
    )
    memory_pressure_percent: float = setting(
        20.0,
        "share of ten seconds that programs waited for memory, from which on idle sessions go to swap sooner; 0: never",
        low=0,
        high=100,
    )
    memory_stalled_percent: float = setting(
        10.0, "share of ten seconds that all waited for memory, from which on nothing starts; 0: never", low=0, high=100
    )
    transfer_threads: int = setting(8, "threads that move workspace files", low=1, high=256)
    keep_sessions_on_shutdown: bool = setting(
        default=False, help="let sandboxes run on at shutdown; the next start takes them up"
    )
    log_level: str = setting("info", "least severe log lines written", choices=("debug", "info", "warning", "error"))
    log_json: bool = setting(default=False, help="write log lines as JSON")

    @property
    def scheme(self) -> str:
        """What the service's addresses begin with."""
        return "https" if self.tls_cert else "http"

    @property
    def store_url(self) -> str:
        """The store's URL, with the default filled in."""
        return self.store or "file://" + quote(str(Path(self.data_dir) / "store"))

    @property
    def environments_path(self) -> Path:
        """The directory of built environments, with the default filled in."""
        return Path(self.environments_dir or Path(self.data_dir) / "environments")

    @property
    def database_url(self) -> str:
        """The database's URL, with the default filled in."""
        return self.database or f"sqlite:///{self.state_path / 'sandcell.db'}"

    @property
    def audit_path(self) -> str:
        """The audit file, with the default filled in."""
        return self.audit_file or str(self.state_path / "audit.jsonl")

    @property
    def own_sessions(self) -> int:
        """Live sessions of one principal that has no quota of its own."""
        return self.sessions_per_principal or max(1, self.live_sessions // 10)

    def allows_packages_over(self, image: str) -> bool:
        """Whether principals may add packages to this environment of the host's."""
        return self.added_packages_images == "*" or image in self.added_packages_images.split(",")

    @property
    def state_path(self) -> Path:
        """The directory that is the service's own: database, what waits for the store, uploads under way."""
        return Path(self.data_dir) / "state"


def table() -> tuple[Setting, ...]:
    """Every setting, in the order of the docs."""
    types, rows = get_type_hints(Settings), []
    for field in dataclasses.fields(Settings):
        row = dict(field.metadata)
        if callable(row["default"]):
            row["default"] = row["default"]()
        rows.append(Setting(name=field.name, type=types[field.name], **row))
    return tuple(rows)


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config: str | None = None,
) -> Settings:
    """Read every source once; `flags` maps setting names to values, None meaning not given. Raises `SettingInvalid`."""
    environ = os.environ if environ is None else environ
    rows = {row.name: row for row in table()}
    config = config or environ.get(CONFIG_VARIABLE) or None
    given: dict[str, Any] = {}
    for source, values in (
        (f"in {config}", _read_file(config) if config else {}),
        ("in the environment", _read_environment(environ)),
        ("among the flags", {name: value for name, value in (flags or {}).items() if value is not None}),
    ):
        for name, value in values.items():
            given[name] = _find_row(name, rows, source).convert(value, source)
    return check_consistency(Settings(**given))


def _read_file(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as stream:
            return tomllib.load(stream)
    except UnicodeDecodeError:
        raise SettingInvalid(f"the settings file {path} cannot be read: it is not UTF-8") from None
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SettingInvalid(f"the settings file {path} cannot be read: {error}") from error


def _read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    elsewhere = {CONFIG_VARIABLE, *CLIENT_VARIABLES}
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and name not in elsewhere
    }


def _find_row(name: str, rows: Mapping[str, Setting], source: str) -> Setting:
    if name in rows:
        return rows[name]
    close = difflib.get_close_matches(name, rows, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise SettingInvalid(f"unknown setting {name!r} {source}{hint}")


def process_environment() -> dict[str, str]:
    """The variables of this process, for the tools that build environments: proxies, package indexes."""
    return dict(os.environ)


def adopt_variables(variables: Iterable[bytes]) -> None:
    """Have these, `NAME=value` each, as if this process had been started with them: libraries look for theirs."""
    for each in variables:
        name, _, value = each.partition(b"=")
        os.environb[name] = value
