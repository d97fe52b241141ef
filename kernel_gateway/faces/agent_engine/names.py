"""Names of resources as Google writes them, and addresses as its clients send them. Pure.

A request may be for `/v1beta1/...` or `/v1/...`; a verb follows its resource after a colon, before which Google's
Python clients put a slash (`.../ID/:execute`). A name may begin with `reasoningEngines/`, as clients that have only an
API key send it: then project and location are not compared. `plain_path` makes one address of them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from kernel_gateway.errors import InvalidRequest, NotFound
from kernel_gateway.faces.json_bodies import quote

ROOT: Final = "/v1beta1"
VERSIONS: Final = ("v1beta1", "v1")
EXPRESS: Final = "-"
"""Project and location of a name that has neither."""
EXPRESS_PROJECT: Final = "sandcell"
EXPRESS_LOCATION: Final = "global"
"""Where an engine is that was made without naming a place."""
_PLACE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
COLLECTIONS: Final = {
    "sandbox": "sandboxEnvironments",
    "template": "sandboxEnvironmentTemplates",
    "snapshot": "sandboxEnvironmentSnapshots",
}


class Place(msgspec.Struct, frozen=True):
    """Project and location, as the request names them."""

    project: str
    location: str

    @property
    def name(self) -> str:
        return f"projects/{self.project}/locations/{self.location}"

    def choose(self) -> Place:
        """Where something is made: a place that is not named is the service's own."""
        project = EXPRESS_PROJECT if self.project == EXPRESS else self.project
        return Place(project, EXPRESS_LOCATION if self.location == EXPRESS else self.location)

    def engine(self, engine_id: str) -> str:
        return f"{self.name}/reasoningEngines/{engine_id}"

    def child(self, engine_id: str, kind: str, child_id: str) -> str:
        """The name of a sandbox or a template of an engine."""
        return f"{self.engine(engine_id)}/{COLLECTIONS[kind]}/{child_id}"


def is_addressed(path: str) -> bool:
    """Whether an address is this face's."""
    version, _, rest = path.removeprefix("/").partition("/")
    below = rest.partition("/")[0]
    return version == "v1beta1" or (version == "v1" and below in ("projects", "reasoningEngines"))


def plain_path(path: str) -> str:
    """The address as the table has it: `/v1beta1/projects/...`, with a verb as a part of its own."""
    _, _, rest = path.removeprefix("/").partition("/")
    parts = rest.removesuffix("/").split("/")
    if parts[0] == "reasoningEngines":
        parts = ["projects", EXPRESS, "locations", EXPRESS, *parts]
    last, colon, verb = parts[-1].rpartition(":")
    if colon:
        parts[-1:] = [last, f":{verb}"] if last else [f":{verb}"]
    return "/".join((ROOT, *parts))


def read_place(ids: Mapping[str, str]) -> Place:
    """Where the request's address is; raises InvalidRequest."""
    for name in ("project", "location"):
        given = ids[name]
        if given != EXPRESS and not _PLACE.fullmatch(given):
            raise InvalidRequest(f"{name}: {quote(given)} is none: letters, digits, - and _, at most 63", field=name)
    for name in ids:
        if name in ("engine", *COLLECTIONS) and not _NUMBER.fullmatch(ids[name]):
            raise InvalidRequest(f"name: the id of a {name} is a number of up to 19 digits", field="name")
    return Place(ids["project"], ids["location"])


def read_child(name: str, engine: str, kind: str) -> str:
    """The id in the name of a template that a body gives; raises InvalidRequest, NotFound for another engine's."""
    parent, _, child_id = name.rpartition("/")
    if not _NUMBER.fullmatch(child_id) or not parent.endswith(f"/{COLLECTIONS[kind]}"):
        raise InvalidRequest(f"{quote(name)} is not the name of a {kind}", field=COLLECTIONS[kind])
    short = engine.partition("/reasoningEngines/")[2]
    if parent.partition("reasoningEngines/")[2] != f"{short}/{COLLECTIONS[kind]}":
        raise make_missing_error(name)
    return child_id


def make_missing_error(name: str) -> NotFound:
    """The error for a resource that is not there, was deleted, or is another principal's."""
    return NotFound(f"there is no {quote(name) if len(name) < 80 else repr(name[:300])}: it never was, or is gone")
