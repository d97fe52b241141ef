"""Whether a JSON value is what a shape of a service model says, in every detail that a client could stumble over.

Stricter than any client: botocore drops unknown members and takes nulls and numbers for times; here each is a problem,
so that a member that is renamed, lost or of another type cannot go unnoticed. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any

from botocore.model import Shape

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
"""The one form that every SDK reads (a model's `iso8601`), with milliseconds."""


def problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    """What is wrong with a decoded JSON value, each with the member it is about."""
    if value is None:
        yield f"{where} is null; a member without a value is left out"
    elif checker := CHECKERS.get(shape.type_name):
        yield from checker(shape, value, where)
    else:
        yield f"{where} has the type {shape.type_name}, which nothing here knows"


def structure_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    """Members: all required ones, no unknown ones, exactly one in a union."""
    if not isinstance(value, dict):
        yield f"{where} is no object: {value!r:.100}"
        return
    members = {body_name(name, member): member for name, member in shape.members.items() if in_body(member)}
    for name in shape.required_members:
        if in_body(shape.members[name]) and body_name(name, shape.members[name]) not in value:
            yield f"{where}.{name} is required by {shape.name} and missing"
    if shape.is_tagged_union and len(value) != 1:
        yield f"{where} is a union with {len(value)} members"
    for name, item in value.items():
        if name in members:
            yield from problems(members[name], item, f"{where}.{name}")
        else:
            yield f"{where}.{name} is no member of {shape.name}"


def in_body(member: Shape) -> bool:
    """Whether a member travels in the body, not in a header or the address."""
    return "location" not in member.serialization


def body_name(name: str, member: Shape) -> str:
    return str(member.serialization.get("name", name))


def list_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where} is no list: {value!r:.100}"
        return
    yield from length_problems(shape, len(value), where)
    for position, item in enumerate(value):
        yield from problems(shape.member, item, f"{where}[{position}]")


def map_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is no map: {value!r:.100}"
        return
    yield from length_problems(shape, len(value), where)
    for key, item in value.items():
        yield from problems(shape.key, key, f"{where} key {key!r}")
        yield from problems(shape.value, item, f"{where}[{key!r}]")


def string_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where} is no string: {value!r:.100}"
        return
    yield from length_problems(shape, len(value), where)
    if shape.enum and value not in shape.enum:
        yield f"{where} is {value!r}, none of {shape.enum}"
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(pattern, value):
        yield f"{where} is {value!r:.200}, which does not fit {pattern}"


def blob_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        yield f"{where} is no base64: {value!r:.100}"
        return
    yield from length_problems(shape, len(data), where)


def time_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    if shape.serialization.get("timestampFormat") != "iso8601":
        yield f"{where} has a form of time that nothing here knows: {shape.serialization}"
    elif not isinstance(value, str) or not TIME.fullmatch(value):
        yield f"{where} is no time as YYYY-MM-DDThh:mm:ss.sssZ: {value!r:.100}"


def whole_number_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, int) or isinstance(value, bool):
        yield f"{where} is no whole number: {value!r:.100}"
        return
    yield from range_problems(shape, value, where)


def number_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield f"{where} is no number: {value!r:.100}"
        return
    yield from range_problems(shape, value, where)


def boolean_problems(shape: Shape, value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{where} is neither true nor false: {value!r:.100}"


def length_problems(shape: Shape, length: int, where: str) -> Iterator[str]:
    yield from range_problems(shape, length, f"the length of {where}")


def range_problems(shape: Shape, number: float, where: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and number < low:
        yield f"{where} is {number}, below {low}"
    if high is not None and number > high:
        yield f"{where} is {number}, above {high}"


CHECKERS: dict[str, Callable[[Any, Any, str], Iterator[str]]] = {
    "structure": structure_problems,
    "list": list_problems,
    "map": map_problems,
    "string": string_problems,
    "blob": blob_problems,
    "timestamp": time_problems,
    "integer": whole_number_problems,
    "long": whole_number_problems,
    "double": number_problems,
    "float": number_problems,
    "boolean": boolean_problems,
}
