"""What a principal may ask of an environment, and what the row of one becomes. Pure.

A made environment is one of the host's (image, interpreter, runtime, processes) with resources, a network and a role of
its own. What it may be is asked again at every use: an operator who narrows the settings narrows those made before.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
import string
from collections.abc import Callable, Mapping, Sequence

from kernel_gateway.environments_file import LEAST_VCPUS, ROLE_ARN, DeclaredRole
from kernel_gateway.errors import Forbidden, InvalidRequest
from kernel_gateway.identity.principal import Principal
from kernel_gateway.package_sources import parse_debian, parse_requirements
from kernel_gateway.settings import Settings, table
from kernel_gateway.storage.environments import BUILDING, FAILED, Added, EnvironmentRow
from kernels.environment import Environment, ExecutionRole, NetworkMode, NetworkPolicy, PoolSize, Resources
from kernels.errors import UnknownEnvironment
from kernels.guest.processors import count_there
from sandcell.models.environments import CreateEnvironment

NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,47}")
ID = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,47}-[a-zA-Z0-9]{10}")
TAG = re.compile(r"[a-zA-Z0-9\s._:/=+@-]*", re.ASCII)
UNFIT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
LONGEST_DESCRIPTION = 4096
MOST_TAGS = 50
LONGEST_TAG_KEY = 128
LONGEST_TAG_VALUE = 256
ID_LETTERS = string.ascii_letters + string.digits
LEAST = {row.name: int(row.low or 0) for row in table() if row.name in ("memory_mb", "storage_mb")}


class Unavailable(Exception):
    """An environment cannot be started from now; the message says why."""


FindLayer = Callable[[str], Environment]
"""From a digest to the image with added packages; raises the kernels' UnknownEnvironment."""


def find_none(digest: str) -> Environment:
    """For where there are no such images."""
    raise UnknownEnvironment(f"no image {digest} is there")


def new_row(
    principal: Principal, body: CreateEnvironment, hosts: Mapping[str, Environment], settings: Settings, now: float
) -> EnvironmentRow:
    """The row of what is asked for; raises InvalidRequest, naming what to change."""
    if not NAME.fullmatch(body.name):
        raise InvalidRequest("an environment's name is a letter and up to 47 letters, digits and _", field="name")
    host = hosts.get(body.image)
    usual = host.resources if host is not None else Resources()
    vcpus = body.vcpus
    if vcpus is None and body.memory_mb is None and usual.declared_vcpus is not None:
        vcpus = min(usual.declared_vcpus, settings.vcpus_max)
    row = EnvironmentRow(
        id=f"{body.name}-{''.join(secrets.choice(ID_LETTERS) for _ in range(10))}",
        principal_id=principal.id,
        owner=principal.name,
        name=body.name,
        description=check_description(body.description),
        image=body.image,
        memory_mb=min(usual.memory_mb, settings.memory_mb_max) if body.memory_mb is None else body.memory_mb,
        storage_mb=min(usual.storage_mb, settings.storage_mb_max) if body.storage_mb is None else body.storage_mb,
        network=body.network,
        role_arn=body.role_arn,
        vcpus=vcpus,
        tags=change_tags({}, body.tags, ()),
        created=now,
        updated=now,
        added=check_added(body, settings),
        build=BUILDING if body.packages or body.apt else None,
    )
    if row.role_arn and not ROLE_ARN.fullmatch(row.role_arn):
        raise InvalidRequest("role_arn is written as arn:aws:iam::123456789012:role/NAME", field="role_arn")
    try:
        build_environment(dataclasses.replace(row, build=None), hosts, (), settings)
    except Unavailable as error:
        raise InvalidRequest(str(error)) from None
    return row


def check_added(body: CreateEnvironment, settings: Settings) -> Added | None:
    """The packages to add to the image; raises InvalidRequest, and Forbidden where the operator does not let."""
    if not (body.packages or body.apt):
        return None
    if not settings.added_packages_images:
        raise Forbidden("packages cannot be added to images here: ask the operator, who may set added_packages_images")
    if not settings.allows_packages_over(body.image):
        offered = settings.added_packages_images.replace(",", ", ")
        raise Forbidden(f"packages cannot be added to {body.image!r} here; they can to: {offered}")
    if body.apt and not settings.added_packages_apt:
        raise Forbidden("Debian packages cannot be added to images here: ask the operator, who may set it")
    return Added(
        _parse_added(body.packages, parse_requirements, "packages"), _parse_added(body.apt, parse_debian, "apt")
    )


def _parse_added(
    listed: Sequence[str], parse: Callable[[Sequence[str]], tuple[str, ...]], field: str
) -> tuple[str, ...]:
    if not listed:
        return ()
    try:
        return tuple(sorted(set(parse(listed))))
    except ValueError as error:
        raise InvalidRequest(f"{field}: {error}", field=field) from None


def build_environment(
    row: EnvironmentRow,
    hosts: Mapping[str, Environment],
    roles: Sequence[DeclaredRole],
    settings: Settings,
    processors: int | None = None,
    *,
    find_layer: FindLayer = find_none,
) -> Environment:
    """The environment as it is today; raises Unavailable when the host or its settings have it no more.

    `processors` are those of the host, where it is not this one. `find_layer` finds images with added packages.
    """
    host = hosts.get(row.image)
    if host is None:
        known = ", ".join(sorted(hosts)) or "none"
        raise Unavailable(f"the host has no environment {row.image!r} to make one from; it has: {known}")
    _require_range("memory_mb", row.memory_mb, settings.memory_mb_max)
    _require_range("storage_mb", row.storage_mb, settings.storage_mb_max)
    if row.vcpus is not None:
        _require_vcpus(row.vcpus, settings.vcpus_max, processors or count_there())
    if row.network not in settings.made_network_modes.split(","):
        modes = " and ".join(settings.made_network_modes.split(","))
        raise Unavailable(f"network {row.network} is not for environments made here; those may have {modes}")
    built = host if row.build is None else _choose_layer(row, settings, find_layer)
    return dataclasses.replace(
        host,
        name=row.id,
        root=built.root,
        digest=built.digest,
        python=built.python,
        variables=built.variables,
        image=built.image or built.name,
        description=row.description,
        resources=make_resources(row, settings, host.resources.pids),
        network=NetworkPolicy(NetworkMode(row.network)),
        role=find_role(row, roles),
        pool=PoolSize(),
    )


def _choose_layer(row: EnvironmentRow, settings: Settings, find_layer: FindLayer) -> Environment:
    """The image with the row's packages; raises Unavailable, also when the operator lets nobody have such any more."""
    if not settings.allows_packages_over(row.image):
        raise Unavailable(f"packages cannot be added to {row.image!r} here any more")
    if row.build == FAILED:
        raise Unavailable(f"its image could not be built: {row.build_failure}")
    if row.build == BUILDING:
        raise Unavailable("its image is still being built: ask again until its status is READY")
    try:
        return find_layer(row.layer or "")
    except UnknownEnvironment:
        raise Unavailable("its image is not there any more: delete it, and make it again") from None


def make_resources(row: EnvironmentRow, settings: Settings, pids: int) -> Resources:
    """What the row asks for; vCPUs that come with the memory are `vcpus_max` at most."""
    found = Resources(row.memory_mb, row.storage_mb, pids, row.vcpus)
    if row.vcpus is None and found.vcpus > settings.vcpus_max:
        return dataclasses.replace(found, declared_vcpus=settings.vcpus_max)
    return found


def find_role(row: EnvironmentRow, roles: Sequence[DeclaredRole]) -> ExecutionRole | None:
    """What the operator has declared for the row's role and its owner; None where that is nothing."""
    found = next((each for each in roles if each.arn == row.role_arn), None)
    return found.role if found is not None and found.is_for(row.owner) else None


def change_tags(present: Mapping[str, str], more: Mapping[str, str], remove: Sequence[str]) -> dict[str, str]:
    """The tags after a change; raises InvalidRequest."""
    gone = frozenset(remove)
    tags = {key: value for key, value in present.items() if key not in gone} | dict(more)
    if len(tags) > MOST_TAGS:
        raise InvalidRequest(f"an environment has at most {MOST_TAGS} tags", field="tags")
    for key, value in more.items():
        if not (1 <= len(key) <= LONGEST_TAG_KEY and len(value) <= LONGEST_TAG_VALUE):
            raise InvalidRequest(
                f"a tag's key has 1 to {LONGEST_TAG_KEY} characters, its value at most {LONGEST_TAG_VALUE}",
                field="tags",
            )
        if not (TAG.fullmatch(key) and TAG.fullmatch(value)):
            raise InvalidRequest("tags are of letters, digits, spaces and . _ : / = + @ -", field="tags")
    return tags


def check_description(text: str) -> str:
    """A description that can be stored; raises InvalidRequest."""
    if len(text) > LONGEST_DESCRIPTION or UNFIT.search(text):
        raise InvalidRequest(
            f"a description has at most {LONGEST_DESCRIPTION:,} characters and no control characters",
            field="description",
        )
    return text


def _require_range(name: str, value: int, most: int) -> None:
    if not LEAST[name] <= value <= most:
        raise Unavailable(f"{name} must be between {LEAST[name]:,} and {most:,}, and is {value:,}")


def _require_vcpus(value: float, most: float, processors: int) -> None:
    if not LEAST_VCPUS <= value <= most:
        raise Unavailable(f"vcpus must be between {LEAST_VCPUS:g} and {most:g}, and is {value:g}")
    if value > processors:
        raise Unavailable(f"vcpus is {value:g}, and this host has {processors} processors")
