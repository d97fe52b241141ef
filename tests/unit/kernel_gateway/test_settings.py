"""Settings: sources in order, unknown names, ranges, secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_gateway import settings
from kernel_gateway.endpoints import parse_endpoints
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.setting import Setting
from kernels.environment import Endpoint


def test_later_sources_win(tmp_path: Path) -> None:
    config = tmp_path / "sandcell.toml"
    config.write_text('port = 1\nqueue_length = 7\nhost = "0.0.0.0"\n')
    environ = {"SANDCELL_CONFIG": str(config), "SANDCELL_PORT": "2", "SANDCELL_QUEUE_LENGTH": "8", "HOME": "/x"}
    loaded = settings.load({"port": 3, "runtime": None}, environ=environ)
    assert (loaded.host, loaded.queue_length, loaded.port, loaded.runtime) == ("0.0.0.0", 8, 3, "runc")


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"SANDCELL_PROT": "1"}, "did you mean 'port'"),
        ({"SANDCELL_OIDC_ISSUER": "http://id.example"}, "oidc_issuer must be https"),
        ({"SANDCELL_OIDC_ISSUER": "https://me@id.example"}, "oidc_issuer must be https"),
        ({"SANDCELL_OIDC_ISSUER": "https://id.example", "SANDCELL_OIDC_CLIENT_ID": "c"}, "with oidc_issuer go"),
        ({"SANDCELL_OIDC_ROLES": "root groups=a"}, "oidc_roles: 'root' is no role"),
        (
            {
                "SANDCELL_OIDC_ISSUER": "https://id.example",
                "SANDCELL_OIDC_CLIENT_ID": "c",
                "SANDCELL_OIDC_ROLES": "user sub=*",
                "SANDCELL_OIDC_SCOPES": "profile",
            },
            "oidc_scopes must name openid",
        ),
        ({"SANDCELL_PORT": "70000"}, "between 0 and 65,535"),
        ({"SANDCELL_PORT": "http"}, "a whole number"),
        ({"SANDCELL_PORT": "1.5"}, "a whole number"),
        ({"SANDCELL_DRAIN_SECONDS": "nan"}, "between"),
        ({"SANDCELL_KEEP_SESSIONS_ON_SHUTDOWN": "maybe"}, "true or false"),
        ({"SANDCELL_DATA_DIR": "relative"}, "absolute"),
        ({"SANDCELL_EXECUTION_TIMEOUT_SECONDS": "900", "SANDCELL_EXECUTION_TIMEOUT_MAX_SECONDS": "10"}, "larger"),
        ({"SANDCELL_ACCESS_KEY_ID": "AK"}, "together"),
        ({"SANDCELL_ACCESS_KEY_ID": "A/K", "SANDCELL_SECRET_ACCESS_KEY": "12345678"}, "access_key_id must be"),
        ({"SANDCELL_ACCESS_KEY_ID": "AKID", "SANDCELL_SECRET_ACCESS_KEY": "1234567"}, "secret_access_key must be"),
        ({"SANDCELL_ACCESS_KEY_ID": "AKID", "SANDCELL_SECRET_ACCESS_KEY": "1234 5678"}, "secret_access_key must be"),
        ({"SANDCELL_SECRETS_KEY": "00"}, "openssl rand -hex 32"),
        ({"SANDCELL_CONFIG": "/nowhere.toml"}, "cannot be read"),
        ({"SANDCELL_ENVIRONMENTS_FILE": "relative.toml"}, "environments_file must be an absolute path"),
        ({"SANDCELL_DATA_DIR": ""}, "data_dir must be an absolute path"),
        ({"SANDCELL_EGRESS_PRIVATE": "10.0.0.1"}, "egress_private: '10.0.0.1' has no port"),
        ({"SANDCELL_EGRESS_PRIVATE": "10.0.0.1:80, 10.1:80"}, "egress_private: '10.1' is no address"),
        ({"SANDCELL_EGRESS_CONNECTIONS": "0"}, "between 1 and 10,000"),
        ({"SANDCELL_SERVICE_UID": "0"}, "between 1 and"),
        ({"SANDCELL_SERVICE_UID": "1200065536"}, "service_uid must not be one of the uids"),
        ({"SANDCELL_AUDIT_RETENTION_DAYS": "0"}, "between 1 and 3,650"),
    ],
)
def test_what_makes_no_sense_is_refused(environ: dict[str, str], says: str) -> None:
    with pytest.raises(SettingInvalid, match=says):
        settings.load(environ=environ)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("PORT", "70000", "port in the environment must be a whole number between 0 and 65,535, not '70000'"),
        ("PORT", "http", "port in the environment must be a whole number between 0 and 65,535, not 'http'"),
        ("DRAIN_SECONDS", "nan", "drain_seconds in the environment must be a number between 0 and 3,600, not 'nan'"),
        ("LOG_LEVEL", "loud", "log_level in the environment must be one of debug, info, warning, error, not 'loud'"),
        ("LOG_JSON", "maybe", "log_json in the environment must be true or false, not 'maybe'"),
    ],
)
def test_a_refusal_says_where_it_stands_what_it_must_be_and_what_it_is(variable: str, value: str, says: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        settings.load(environ={f"SANDCELL_{variable}": value})
    assert str(refused.value) == says


def test_a_settings_file_that_is_not_text_is_refused_in_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "sandcell.toml"
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingInvalid, match=r"sandcell\.toml cannot be read: it is not UTF-8$"):
        settings.load(environ={}, config=str(config))


def test_a_secret_of_the_wrong_kind_is_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "sandcell.toml"
    config.write_text("token = 123456789")
    with pytest.raises(SettingInvalid, match=r"token in .* must be a string$"):
        settings.load(environ={}, config=str(config))


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("YES", True), ("1", True), ("False", False), ("no", False), (" 0 ", False)]
)
def test_what_is_true_and_false_in_a_variable(text: str, value: object) -> None:
    assert settings.load(environ={"SANDCELL_LOG_JSON": text}).log_json is value


@pytest.mark.parametrize("row", [row for row in settings.table() if row.low is not None], ids=lambda row: row.name)
def test_bounds_are_part_of_the_range_and_what_is_beyond_them_is_not(row: Setting) -> None:
    assert row.low is not None
    assert row.high is not None
    for value in (row.low, row.high, str(row.low), f" {row.high} "):
        found = row.convert(value, "here")
        assert (type(found), found) == (row.type, row.type(value))
    for value in (row.low - 1, row.high + 1, str(row.high + 1), "nan", "", True, None, [row.low]):
        with pytest.raises(SettingInvalid, match=f"{row.name} here must be a .*number between"):
            row.convert(value, "here")


@pytest.mark.parametrize("line", ["prot = 1", 'port = "1"\nhost = 1', "port = true", "port = [1]", "[port]"])
def test_a_file_is_checked_too(tmp_path: Path, line: str) -> None:
    config = tmp_path / "sandcell.toml"
    config.write_text(line)
    with pytest.raises(SettingInvalid):
        settings.load(environ={}, config=str(config))


def test_the_clients_variables_are_no_settings() -> None:
    settings.load(environ={"SANDCELL_URL": "http://x", "SANDCELL_SESSION": "s"})


def test_private_endpoints_are_a_list() -> None:
    loaded = settings.load({"egress_private": "db.internal:5432, [fd00::1]:80,"}, environ={})
    assert parse_endpoints(loaded.egress_private) == (Endpoint("db.internal", 5432), Endpoint("fd00::1", 80))


def test_no_secret_is_shown() -> None:
    loaded = settings.load(
        environ={"SANDCELL_TOKEN": "very-secret-token", "SANDCELL_DATABASE": "postgresql://u:very@h"}
    )
    assert "very" not in repr(loaded)
    with pytest.raises(SettingInvalid) as refused:
        settings.load(environ={"SANDCELL_TOKEN": "secret"})
    assert "'secret'" not in str(refused.value)


def test_every_setting_has_help_and_a_default_in_its_range() -> None:
    for row in settings.table():
        assert row.help
        assert isinstance(row.default, row.type)
        assert (row.low is None) == (row.high is None)
        if row.low is not None and row.high is not None:
            assert row.low <= row.default <= row.high
            assert row.type in {int, float}


def test_an_environment_that_is_made_may_have_what_the_hosts_have() -> None:
    for said, names in (
        ({"memory_mb": 4_096, "memory_mb_max": 2_048}, "memory_mb must not be larger than memory_mb_max"),
        ({"storage_mb": 1_024, "storage_mb_max": 512}, "storage_mb must not be larger than storage_mb_max"),
    ):
        with pytest.raises(SettingInvalid, match=names):
            settings.load(said, environ={})


@pytest.mark.parametrize("modes", ["", "ALLOWLIST", "SANDBOX,SANDBOX", "SANDBOX, PUBLIC", "sandbox", "PUBLIC,"])
def test_networks_that_none_may_make_are_refused(modes: str) -> None:
    with pytest.raises(SettingInvalid, match="made_network_modes must be"):
        settings.load({"made_network_modes": modes}, environ={})
