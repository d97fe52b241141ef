"""Whether an answer is what the service model says of its operation: status, headers, body, events, errors. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError
from botocore.model import Shape

from tests.conformance.agentcore import shapes
from tests.conformance.agentcore.service_model import Operation

UNMODELLED = {
    "MissingAuthenticationTokenException": {403},
    "UnrecognizedClientException": {403},
    "InvalidSignatureException": {403},
    "IncompleteSignatureException": {400, 403},
    "ExpiredTokenException": {403},
    "InvalidClientTokenId": {403},
    "UnknownOperationException": {404, 405},
}
"""Errors that every service of the kind may send before it knows the operation, with their statuses."""

KEEP_ALIVE = "keepalive"


@dataclass
class Answer:
    """A response as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False


def problems(operation: Operation | None, answer: Answer) -> list[str]:
    """What is wrong with an answer to an operation; `None` stands for a request that is for none."""
    found = list(header_problems(answer))
    if answer.status >= 300:
        found += error_problems(operation, answer)
    elif operation is None:
        found.append(f"status {answer.status} for a request that is no operation")
    else:
        found += success_problems(operation, answer)
    name = operation.name if operation else "no operation"
    return [f"{name} {answer.status}: {problem}" for problem in found]


def header_problems(answer: Answer) -> Iterator[str]:
    if not answer.headers.get("x-amzn-requestid"):
        yield "no x-amzn-RequestId"


def success_problems(operation: Operation, answer: Answer) -> Iterator[str]:
    """The status, the members in headers, and the body or the stream of an operation that worked."""
    expected = operation.model.http.get("responseCode", 200)
    if answer.status != expected:
        yield f"the status is not {expected}"
    output = operation.model.output_shape
    if operation.model.has_event_stream_output:
        yield from member_header_problems(output, answer)
        yield from stream_problems(operation.model.get_event_stream_output(), answer)
    elif expected == 204:
        if answer.body:
            yield f"a body where there is none: {bytes(answer.body[:100])!r}"
    elif answer.complete:
        yield from member_header_problems(output, answer)
        yield from body_problems(output, answer, "body")


def member_header_problems(output: Shape, answer: Answer) -> Iterator[str]:
    """Members that travel in headers are sent whenever the model has them, even where it does not require them."""
    for name, member in output.members.items():
        if member.serialization.get("location") == "header":
            value = answer.headers.get(member.serialization["name"].lower())
            if value is None:
                yield f"no header {member.serialization['name']}"
            else:
                yield from shapes.problems(member, value, name)


def body_problems(shape: Shape, answer: Answer, where: str) -> Iterator[str]:
    """A JSON body and its type."""
    if answer.headers.get("content-type") != "application/json":
        yield f"the Content-Type is {answer.headers.get('content-type')}, not application/json"
    yield from json_problems(shape, bytes(answer.body), where)


def json_problems(shape: Shape, text: bytes, where: str) -> Iterator[str]:
    try:
        value: Any = json.loads(text)
    except ValueError:
        yield f"{where} is no JSON: {text[:100]!r}"
        return
    yield from shapes.problems(shape, value, where)


def error_problems(operation: Operation | None, answer: Answer) -> Iterator[str]:
    """An error that the operation declares, with its status and members; or one from before any operation."""
    if not answer.complete:
        return
    name = answer.headers.get("x-amzn-errortype", "")
    declared = {shape.name: shape for shape in (operation.model.error_shapes if operation else [])}
    if name in declared:
        status = declared[name].metadata["error"]["httpStatusCode"]
        if answer.status != status:
            yield f"{name} has the status {status}"
        yield from body_problems(declared[name], answer, name)
        yield from spoken_problems(answer)
    elif name in UNMODELLED:
        if answer.status not in UNMODELLED[name]:
            yield f"{name} has the status {sorted(UNMODELLED[name])}"
        yield from spoken_problems(answer)
    else:
        yield f"x-amzn-ErrorType is {name!r}, which is not declared: {bytes(answer.body[:200])!r}"


def spoken_problems(answer: Answer) -> Iterator[str]:
    """Every error says something to a person."""
    try:
        message = json.loads(bytes(answer.body))["message"]
    except (ValueError, KeyError, TypeError):
        yield f"an error without a message: {bytes(answer.body[:200])!r}"
        return
    if not isinstance(message, str) or not message.strip():
        yield f"an error with an empty message: {message!r}"


def stream_problems(stream: Shape, answer: Answer) -> Iterator[str]:
    """Messages as they are framed: any keep-alives, then exactly one result or exception, and nothing after it."""
    if answer.headers.get("content-type") != "application/vnd.amazon.eventstream":
        yield f"the Content-Type is {answer.headers.get('content-type')}"
    messages, ends = [], 0
    try:
        messages = read_messages(bytes(answer.body))
    except ParserError as error:
        yield f"a stream that cannot be read: {error}"
    for message in messages:
        if ends:
            yield "a message after the one that ends the stream"
        if message.headers.get(":event-type") == KEEP_ALIVE:
            yield from keep_alive_problems(message)
        else:
            ends += 1
            yield from message_problems(stream, message)
    if answer.complete and ends != 1:
        yield f"{ends} messages that end the stream, in {len(answer.body)} bytes"


def read_messages(body: bytes) -> list[EventStreamMessage]:
    """The whole messages of a stream, their checksums compared."""
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return list(buffer)


def keep_alive_problems(message: EventStreamMessage) -> Iterator[str]:
    if message.headers.get(":message-type") != "event" or message.payload != b"{}":
        yield f"a keep-alive of another kind: {message.headers} {message.payload[:100]!r}"


def message_problems(stream: Shape, message: EventStreamMessage) -> Iterator[str]:
    """A result or a modelled exception, with the headers and the payload of its member."""
    kind = message.headers.get(":message-type")
    named = {"event": ":event-type", "exception": ":exception-type"}.get(str(kind))
    if named is None:
        yield f"a message of the kind {kind!r}"
        return
    name = message.headers.get(named)
    if set(message.headers) != {":message-type", ":content-type", named}:
        yield f"the headers of a message are {sorted(message.headers)}"
    if message.headers.get(":content-type") != "application/json":
        yield f"the :content-type of a message is {message.headers.get(':content-type')}"
    if name not in stream.members:
        yield f"{named} is {name!r}, no member of {stream.name}"
        return
    member = stream.members[name]
    if bool(member.metadata.get("exception")) != (kind == "exception"):
        yield f"{name} as a message of the kind {kind}"
    found = list(json_problems(member, message.payload, str(name)))
    yield from found or block_problems(json.loads(message.payload))


def block_problems(payload: dict[str, Any]) -> Iterator[str]:
    """Each content block has the members of its type and none of another's, which the model leaves open."""
    for block in payload.get("content", []):
        kind, members = block.get("type"), set(block) - {"type"}
        needed, allowed = BLOCKS.get(kind, (set(), set()))
        if not needed <= members <= needed | allowed:
            yield f"a block of the type {kind} has the members {sorted(members)}"


BLOCKS: dict[str, tuple[set[str], set[str]]] = {
    "text": ({"text"}, set()),
    "image": ({"data", "mimeType"}, set()),
    "resource": ({"resource"}, set()),
    "resource_link": ({"uri", "name", "description"}, {"mimeType", "size"}),
}
"""Which members a content block of a type has, and which it may have."""
