"""The environments file: TOML, a table for each environment, made into `Environment` values. Pure, but for `read`.

A table names an image that is built (its own name, when it says none) and what differs from the settings: resources,
runtime, network, execution role. Built images without a table are environments with the defaults. `[[roles]]` are no
environment: they say what the roles mean that principals name by an ARN. An unknown table key, or a value that makes no
sense, raises `SettingInvalid` naming file, table and key.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast, get_args
from urllib.parse import urlsplit

import msgspec

from kernel_gateway import endpoints
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.package_sources import parse_debian, parse_index_url, parse_requirements
from kernel_gateway.setting import Setting
from kernel_gateway.settings import Settings, table
from kernels import installed_runtimes
from kernels.environment import (
    Endpoint,
    Environment,
    ExecutionRole,
    MemoryLevels,
    NetworkMode,
    NetworkPolicy,
    PackageIndex,
    PoolSize,
    Resources,
)
from kernels.guest.processors import count_there
from sandcell.models.constraints import MOST_BETWEEN, MOST_KEPT_MB
from sandcell.models.sessions import KeepVariables

MOST_BYTES = 1_000_000
MOST_ENDPOINTS = 1_000
LONGEST_DESCRIPTION = 500
LEAST_VCPUS = 0.25
LONGEST_PREFIX_BYTES = 512
KEYS = (
    *("image", "description", "runtime", "memory_mb", "storage_mb", "pids", "vcpus"),
    *("network", "allow", "role", "index_url", "keep_packages", "packages", "apt", "figures", "warm"),
    *("memory_warn_percent", "memory_guard_percent", "keep_variables", "keep_variables_mb"),
    *("hibernate_seconds", "checkpoint_every"),
)
FIGURES = ("files", "blocks")
KEEP_VARIABLES: tuple[str, ...] = get_args(KeepVariables)
WARM_KEYS = ("least", "most")
MOST_WARM = 1_000
ENDPOINT_KEYS = ("host", "port", "methods", "path_prefix")
ROLE_KEYS = ("bucket", "prefix", "access", "endpoint_url", "region", "profile")
ROLES = "roles"
EVERYBODY = "*"
ROLE_ARN = re.compile(r"arn:aws(-[a-z0-9-]{1,30})?:iam::([0-9]{12})?:role/[\x21-\x7e]{1,2000}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
BUCKET = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
NETLOC = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
PREFIX = re.compile(r"[A-Za-z0-9!_.*'()=@+,:$&;~/-]+")
REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
PROFILE = re.compile(r"[A-Za-z0-9_.@:/+-]{0,100}")
T = TypeVar("T")


class Declared(msgspec.Struct, frozen=True):
    """What a table says, complete but for the image it is made from."""

    name: str
    image: str
    description: str
    runtime: str
    resources: Resources
    network: NetworkPolicy
    role: ExecutionRole | None
    index: PackageIndex | None
    keep_packages: bool
    figures: str
    packages: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    pool: PoolSize = msgspec.field(default_factory=PoolSize)
    memory_levels: MemoryLevels = msgspec.field(default_factory=MemoryLevels)
    keep_variables: str | None = None
    keep_variables_mb: int = 100
    hibernate_seconds: int | None = None
    checkpoint_every: int = 0

    @property
    def is_layer(self) -> bool:
        """Whether packages are added to `image`, which makes an image of its own."""
        return bool(self.packages or self.apt)

    @property
    def built_image(self) -> str:
        """The built image that sessions get."""
        return self.name if self.is_layer else self.image


class DeclaredRole(msgspec.Struct, frozen=True):
    """What a role means that environments made by principals name, and which principals it is for."""

    arn: str
    principals: frozenset[str]
    role: ExecutionRole

    def is_for(self, principal: str) -> bool:
        """Whether a principal of this name may use it."""
        return not self.principals.isdisjoint((principal, EVERYBODY))


def read(path: Path) -> str:
    """The file's text; raises SettingInvalid."""
    try:
        content = path.read_bytes()
        if len(content) > MOST_BYTES:
            raise SettingInvalid(f"the environments file {path} is larger than {MOST_BYTES:,} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingInvalid(f"the environments file {path} cannot be read: {reason}") from None


def parse(
    text: str, settings: Settings, source: str = "the environments file", processors: int | None = None
) -> dict[str, Declared]:
    """Every table, by name; `settings` give what a table leaves out and the ranges. Raises SettingInvalid.

    `processors` are those of the host, where it is not this one.
    """
    tables = _parse_tables(text, source)
    parse_roles(text, source)
    there = processors or count_there()
    return {
        name: _read_environment(name, values, settings, source, there)
        for name, values in tables.items()
        if not _is_roles(name, values)
    }


def parse_roles(text: str, source: str = "the environments file") -> tuple[DeclaredRole, ...]:
    """What `[[roles]]` declare; raises SettingInvalid."""
    listed = [
        each for name, values in _parse_tables(text, source).items() if _is_roles(name, values) for each in values
    ]
    found = tuple(_read_role(each, f"{source}: [[{ROLES}]] {number}") for number, each in enumerate(listed, 1))
    for one in found:
        if [each.arn for each in found].count(one.arn) > 1:
            raise SettingInvalid(f"{source}: [[{ROLES}]] declare {one.arn} more than once")
    return found


def _parse_tables(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingInvalid(f"{source} is not TOML: {error}") from None


def _is_roles(name: str, values: Any) -> bool:
    """A list of roles; a table of that name is an environment like any other."""
    return name == ROLES and isinstance(values, list)


def _read_role(values: Any, where: str) -> DeclaredRole:
    one = _Table(where, values, ("arn", "principals", *ROLE_KEYS))
    who = one.take("principals", list)
    if not who or not all(isinstance(each, str) and each for each in who):
        raise one.refusal(f'principals must be a list of the names of those it is for, or ["{EVERYBODY}"]')
    role = {key: value for key, value in values.items() if key in ROLE_KEYS}
    arn = one.take_matching("arn", ROLE_ARN, "written as arn:aws:iam::123456789012:role/NAME")
    return DeclaredRole(arn, frozenset(who), _read_execution_role(where, role))


def require_images(declared: Mapping[str, Declared], built: Mapping[str, Environment], source: str) -> None:
    """Refuse a table whose image is not built."""
    for one in declared.values():
        if one.is_layer and one.name not in built:
            raise SettingInvalid(
                f"{source}: [{one.name}] is {one.image} with packages, and not built; "
                f"build it: sandcell environments build {one.name}"
            )
        if one.built_image not in built:
            known = ", ".join(sorted(built)) or "none"
            raise SettingInvalid(
                f"{source}: [{one.name}] image {one.image!r} is not built (built are: {known}); "
                "name one that is, or build it: sandcell environments build NAME"
            )


def apply_declared(
    declared: Mapping[str, Declared],
    built: Mapping[str, Environment],
    defaults: Resources,
    larger: Mapping[str, Resources] | None = None,
    levels: MemoryLevels | None = None,
) -> dict[str, Environment]:
    """The environments there are: those declared whose image is built, and every other built image as it is.

    Those that are not declared have the default resources, or those that `larger` has for them, and these `levels`.
    """
    more, usual = larger or {}, levels or MemoryLevels()
    found = {
        name: dataclasses.replace(one, resources=more.get(name, defaults), memory_levels=usual)
        for name, one in built.items()
    }
    for name, one in declared.items():
        found.pop(name, None)
        if one.built_image in built:
            found[name] = _make_environment(one, built[one.built_image])
    return found


def _make_environment(one: Declared, image: Environment) -> Environment:
    return dataclasses.replace(
        image,
        name=one.name,
        image=one.built_image,
        description=one.description or image.description,
        runtime=one.runtime,
        resources=one.resources,
        network=one.network,
        role=one.role,
        index=one.index,
        keep_packages=one.keep_packages,
        figures=one.figures,
        pool=one.pool,
        memory_levels=one.memory_levels,
        keep_variables=one.keep_variables,
        keep_variables_mb=one.keep_variables_mb,
        hibernate_seconds=one.hibernate_seconds,
        checkpoint_every=one.checkpoint_every,
    )


class _Table:
    """A table being read: takes values by key and type, and says where it is when something is wrong."""

    def __init__(self, where: str, values: Any, keys: tuple[str, ...]) -> None:
        self._where = where
        if not isinstance(values, dict):
            raise SettingInvalid(f"{where} must be a table")
        self._values = cast("dict[str, Any]", values)
        for key, value in self._values.items():
            if key not in keys:
                raise self.refusal(f"has an unknown key {key!r}{_make_hint(key, value, keys)}")

    def refusal(self, what: str) -> SettingInvalid:
        return SettingInvalid(f"{self._where} {what}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def take(self, key: str, kind: type[T], otherwise: T | None = None) -> T:
        """The value, which must be of that type; without `otherwise` it must be there."""
        value = self._values.get(key, otherwise)
        if value is None:
            raise self.refusal(f"must say {key}")
        if not isinstance(value, kind) or isinstance(value, bool):
            words = {str: "a string", int: "a whole number", list: "a list", dict: "a table"}
            raise self.refusal(f"{key} must be {words[kind]}, not {value!r}")
        return value

    def take_truth(self, key: str) -> bool:
        """Yes or no; no when it is left out."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self.refusal(f"{key} must be true or false, not {value!r}")
        return value

    def take_matching(self, key: str, form: re.Pattern[str], what: str, otherwise: str | None = None) -> str:
        value = self.take(key, str, otherwise)
        if not form.fullmatch(value):
            raise self.refusal(f"{key} must be {what}, not {value!r}")
        return value

    def take_one_of(self, key: str, choices: tuple[str, ...], otherwise: str) -> str:
        value = self.take(key, str, otherwise)
        if value not in choices and value != otherwise:
            raise self.refusal(f"{key} must be one of {', '.join(choices)}, not {value!r}")
        return value

    def take_in_range(self, row: Setting, otherwise: int) -> int:
        value = self.take(row.name, int, otherwise)
        if row.low is not None and row.high is not None and not row.low <= value <= row.high:
            raise self.refusal(f"{row.name} must be between {row.low:,} and {row.high:,}, not {value:,}")
        return value

    def holds(self, key: str, kind: type[Any]) -> bool:
        """Whether there is a value of that type."""
        return isinstance(self._values.get(key), kind)

    def take_count(self, key: str, low: int, high: int) -> int:
        """A whole number within bounds."""
        value = self.take(key, int)
        if not low <= value <= high:
            raise self.refusal(f"{key} must be between {low:,} and {high:,}, not {value:,}")
        return value

    def take_number(self, key: str, low: float, high: float, meaning: str) -> float:
        """A number, whole or not, within bounds; `meaning` says what the upper one is."""
        value = self._values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal(f"{key} must be a number, not {value!r}")
        if not low <= value <= high:
            raise self.refusal(f"{key} must be between {low:g} and {high:g}, {meaning}, not {value:g}")
        return float(value)

    def convert(self, key: str, value: Any, kind: type[T], understand: Callable[[T], Any]) -> Any:
        """A value of that type as `understand` makes it, whose ValueError is a refusal."""
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.refusal(f"{key} cannot be {value!r}")
        try:
            return understand(value)
        except ValueError as error:
            raise self.refusal(f"{key}: {error}") from None


def _make_hint(key: str, value: Any, keys: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, keys, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    if isinstance(value, dict) and keys is KEYS:
        return '; a name with dots is written in quotes, as ["my.name"]'
    return f"; it may have {', '.join(keys)}"


def _read_environment(name: str, values: Any, settings: Settings, source: str, processors: int) -> Declared:
    where = f"{source}: [{name}]"
    if not NAME.fullmatch(name):
        raise SettingInvalid(f"{where} is no name: 1 to 100 letters, digits and . _ -, a letter or digit first")
    one, rows = _Table(where, values, KEYS), {row.name: row for row in table()}
    description = one.take("description", str, "")
    if len(description) > LONGEST_DESCRIPTION or not description.isprintable():
        raise one.refusal(f"description must be at most {LONGEST_DESCRIPTION} printable characters")
    return Declared(
        name=name,
        image=one.take_matching("image", NAME, "the name of a built image", name),
        description=description,
        runtime=one.take_one_of("runtime", installed_runtimes.names() if "runtime" in one else (), ""),
        resources=Resources(
            memory_mb=one.take_in_range(rows["memory_mb"], settings.memory_mb),
            storage_mb=one.take_in_range(rows["storage_mb"], settings.storage_mb),
            pids=one.take_in_range(rows["pids"], settings.pids),
            declared_vcpus=_read_vcpus(one, processors),
        ),
        network=_read_network(one, where),
        role=_read_execution_role(f"{where} role", one.take("role", dict)) if "role" in one else None,
        index=_read_index(one),
        keep_packages=one.take_truth("keep_packages"),
        figures=one.take_one_of("figures", FIGURES, FIGURES[0]),
        packages=_read_packages(one, name, "packages", parse_requirements),
        apt=_read_packages(one, name, "apt", parse_debian),
        pool=_read_pool(one, f"{where} warm"),
        memory_levels=MemoryLevels(
            one.take_in_range(rows["memory_warn_percent"], settings.memory_warn_percent),
            one.take_in_range(rows["memory_guard_percent"], settings.memory_guard_percent),
        ),
        keep_variables=one.take_one_of("keep_variables", KEEP_VARIABLES, "") if "keep_variables" in one else None,
        keep_variables_mb=one.take_count("keep_variables_mb", 1, MOST_KEPT_MB) if "keep_variables_mb" in one else 100,
        hibernate_seconds=one.take_count("hibernate_seconds", 0, 1_209_600) if "hibernate_seconds" in one else None,
        checkpoint_every=one.take_count("checkpoint_every", 0, MOST_BETWEEN) if "checkpoint_every" in one else 0,
    )


def _read_vcpus(one: _Table, processors: int) -> float | None:
    """None where they come with the memory. More than the host has is nothing that anybody would get."""
    if "vcpus" not in one:
        return None
    return one.take_number("vcpus", LEAST_VCPUS, processors, "the processors of this host")


def _read_packages(
    one: _Table, name: str, key: str, understand: Callable[[list[Any]], tuple[str, ...]]
) -> tuple[str, ...]:
    if key not in one:
        return ()
    packages: tuple[str, ...] = one.convert(key, one.take(key, list), list, understand)
    if one.take("image", str, name) == name:
        raise one.refusal(f"has {key}, and must name the image that they are added to, another than itself")
    return packages


def _read_pool(one: _Table, where: str) -> PoolSize:
    """A number of sandboxes that are always ready, or `least` and `most`."""
    if "warm" not in one:
        return PoolSize()
    if not one.holds("warm", dict):
        size = one.take_count("warm", 0, MOST_WARM)
        return PoolSize(size, size)
    bounds = _Table(where, one.take("warm", dict), WARM_KEYS)
    least = bounds.take_count("least", 0, MOST_WARM) if "least" in bounds else 0
    return PoolSize(least, bounds.take_count("most", max(least, 1), MOST_WARM))


def _read_index(one: _Table) -> PackageIndex | None:
    if "index_url" not in one:
        return None
    index: PackageIndex = one.convert("index_url", one.take("index_url", str), str, parse_index_url)
    return index


def _read_network(one: _Table, where: str) -> NetworkPolicy:
    mode = NetworkMode(one.take_one_of("network", tuple(NetworkMode), NetworkMode.SANDBOX))
    listed = one.take("allow", list, [])
    if mode is not NetworkMode.ALLOWLIST:
        if "allow" in one:
            raise one.refusal(f'has allow, which is for network = "ALLOWLIST" alone, and its network is {mode}')
        return NetworkPolicy(mode)
    if not listed:
        raise one.refusal('has network = "ALLOWLIST" and allows nothing: list endpoints in allow, or use "SANDBOX"')
    if len(listed) > MOST_ENDPOINTS:
        raise one.refusal(f"allow has more than {MOST_ENDPOINTS:,} endpoints")
    return NetworkPolicy(mode, tuple(_read_endpoint(one, f"{where} allow", each) for each in listed))


def _read_endpoint(one: _Table, where: str, value: Any) -> Endpoint:
    if not isinstance(value, dict):
        found: Endpoint = one.convert("allow", value, str, endpoints.parse_endpoint)
        return found
    each = _Table(where, value, ENDPOINT_KEYS)
    methods = each.take("methods", list, [])
    if "methods" in each and not methods:
        raise each.refusal("methods lists none, and nothing could be asked: leave it out to allow every method")
    whole = Endpoint(
        host=each.convert("host", each.take("host", str), str, endpoints.parse_host),
        port=each.convert("port", each.take("port", int, endpoints.HTTPS_PORT), int, endpoints.check_port),
        methods=tuple(each.convert("methods", method, str, endpoints.check_method) for method in methods),
        path_prefix=each.convert("path_prefix", each.take("path_prefix", str), str, endpoints.check_path_prefix)
        if "path_prefix" in each
        else "",
    )
    checked: Endpoint = one.convert("allow", whole, Endpoint, endpoints.check_narrowing)
    return checked


def _read_execution_role(where: str, values: dict[str, Any]) -> ExecutionRole:
    one = _Table(where, values, ROLE_KEYS)
    return ExecutionRole(
        bucket=one.take_matching("bucket", BUCKET, "the name of an S3 bucket"),
        prefix=one.convert("prefix", one.take("prefix", str), str, parse_prefix),
        write=one.take_one_of("access", ("read", "read-write"), "read") == "read-write",
        endpoint_url=one.convert("endpoint_url", one.take("endpoint_url", str, ""), str, parse_endpoint_url),
        region=one.take_matching("region", REGION, "the name of a region", "us-east-1"),
        profile=one.take_matching("profile", PROFILE, "the name of a profile", ""),
    )


def parse_prefix(text: str) -> str:
    """Where in the bucket a role reaches: never all of it; ends with a slash. Raises ValueError."""
    names = text.removesuffix("/").split("/")
    if not all(names) or {".", ".."} & set(names) or not PREFIX.fullmatch(text) or len(text) >= LONGEST_PREFIX_BYTES:
        raise ValueError(
            f"{text!r} is no prefix: give names parted by single slashes, none at the start, no . or .. as a name, "
            f"plain ASCII without spaces, fewer than {LONGEST_PREFIX_BYTES} characters"
        )
    return "/".join(names) + "/"


def parse_endpoint_url(text: str) -> str:
    """Where an S3 server is: scheme, host and port alone; empty for AWS. Raises ValueError."""
    if not text:
        return ""
    parts = urlsplit(text)
    if (
        parts.scheme not in {"http", "https"}
        or not NETLOC.fullmatch(parts.netloc)
        or parts.path not in {"", "/"}
        or parts.query
        or parts.fragment
        or (parts.port or 1) < 1
    ):
        raise ValueError(f"{text!r} is no address of an S3 server: write it as https://s3.example.org:9000")
    return f"{parts.scheme}://{parts.netloc}"
