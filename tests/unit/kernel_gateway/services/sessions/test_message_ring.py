"""The ring of attached clients: who keeps up or comes back in time gets each message once; its bytes are bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.services.sessions.subscribers import MessageRing, cost
from kernels.wire.message import Message, compose

LIMIT_BYTES = 40_000


def stream(text: str) -> Message:
    return compose("stream", {"name": "stdout", "text": text}, session="s")


def status(state: str) -> Message:
    return compose("status", {"execution_state": state}, session="s")


def read(ring: MessageRing, position: int, client: str = "ann") -> list[int]:
    """Everything that a client gets that goes on after `position`."""
    taken: list[int] = []
    while True:
        outgoing, position = ring.following(position, client)
        if outgoing is None:
            return taken
        taken.append(outgoing.sequence)


SCRIPT = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 3_000)),
        st.tuples(st.just("reply"), st.sampled_from(["ann", "ben"])),
        st.tuples(st.just("status"), st.just(0)),
        st.tuples(st.just("read"), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.just(0)),
    ),
    max_size=80,
)


@given(SCRIPT)
def test_nothing_is_lost_or_doubled_by_a_client_within_the_bound(script: list[tuple[str, int | str]]) -> None:
    """A client that is cut while a message is on its way to it gets that one again, and each other one once."""
    ring, position, meant, delivered = MessageRing(LIMIT_BYTES), 0, [], []
    for what, value in script:
        if what in {"say", "status"}:
            message = status("busy") if what == "status" else stream("x" * int(value))
            meant.append(ring.add("iopub", message).sequence)
        elif what == "reply":
            sequence = ring.add("shell", stream("reply"), to=str(value)).sequence
            meant += [sequence] if value == "ann" else []
        elif what == "read":
            for _ in range(int(value)):
                outgoing, looked = ring.following(position, "ann")
                delivered += [outgoing.sequence] if outgoing is not None else []
                position = looked
        else:
            ring.following(position, "ann")
        assert ring.size_bytes <= LIMIT_BYTES
        if ring.gone > position:
            assert ring.missing(position) > 0, "the loss is reported"
            return
    assert delivered + read(ring, position) == meant


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5_000)), max_size=200), st.integers(0, 200))
def test_who_comes_back_late_gets_the_rest_in_order_and_is_told_how_much_is_missing(
    messages: list[tuple[bool, int]], position: int
) -> None:
    ring = MessageRing(LIMIT_BYTES)
    for is_status, size in messages:
        ring.add("iopub", status("idle") if is_status else stream("x" * size))
    position = min(position, ring.last)
    taken = read(ring, position)
    assert taken == sorted(set(taken))
    assert all(sequence > position for sequence in taken)
    assert len(taken) + ring.missing(position) == ring.last - position


def test_what_is_kept_is_counted() -> None:
    ring, messages = MessageRing(LIMIT_BYTES), [stream("x" * 100), status("idle")]
    for message in messages:
        ring.add("iopub", message)
    assert ring.size_bytes == sum(map(cost, messages))


def test_replies_and_states_outlive_a_flood_of_output() -> None:
    ring = MessageRing(LIMIT_BYTES)
    reply = ring.add("shell", stream("reply"), to="ann").sequence
    idle = ring.add("iopub", status("idle")).sequence
    for _ in range(1_000):
        ring.add("iopub", stream("x" * 1_000))
    assert read(ring, 0)[:2] == [reply, idle]
    assert ring.missing(0) == ring.last - len(read(ring, 0))


def test_a_flood_of_states_leaves_room_for_output() -> None:
    ring = MessageRing(LIMIT_BYTES)
    for _ in range(1_000):
        ring.add("iopub", status("busy"))
    output = ring.add("iopub", stream("x" * 1_000)).sequence
    ring.add("iopub", status("idle"))
    assert output in read(ring, ring.last - 5)


def test_a_reply_is_for_one_client_alone() -> None:
    ring = MessageRing(LIMIT_BYTES)
    ring.add("shell", stream("for ann"), to="ann")
    assert read(ring, 0, "ben") == []
    assert read(ring, 0, "ann") == [1]
