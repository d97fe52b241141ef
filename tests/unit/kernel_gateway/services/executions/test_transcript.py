"""What is kept of a program's output: for every follower from where they are, bounded, and what is missing is said."""

from __future__ import annotations

from kernel_gateway.services.executions.program_streams import KEPT_BYTES, MOST_PIECES, PIECE_BYTES, Part, Transcript


def read_all(transcript: Transcript, position: int = 0) -> list[Part]:
    found = []
    while (part := transcript.read(position)) is not None:
        found.append(part)
        position = part.end
    return found


def test_a_follower_reads_on_from_where_it_is() -> None:
    transcript = Transcript()
    assert transcript.read(0) is None
    transcript.add("pty", b"one ", 0)
    transcript.add("pty", b"two", 4)
    assert read_all(transcript) == [Part(7, "pty", b"one two", 0)]
    assert read_all(transcript, 5) == [Part(7, "pty", b"wo", 0)]
    assert transcript.read(7) is None
    transcript.add("pty", b"!", 7)
    assert read_all(transcript, 7) == [Part(8, "pty", b"!", 0)]


def test_streams_stay_apart_and_in_their_order() -> None:
    transcript = Transcript()
    for stream, data in (("stdout", b"a"), ("stderr", b"b"), ("stderr", b"c"), ("stdout", b"d")):
        transcript.add(stream, data)
    assert [(part.stream, part.data) for part in read_all(transcript)] == [
        ("stdout", b"a"),
        ("stderr", b"bc"),
        ("stdout", b"d"),
    ]


def test_what_is_kept_is_bounded_in_bytes_and_pieces() -> None:
    transcript = Transcript()
    for _ in range(100):
        transcript.add("pty", bytes(PIECE_BYTES - 1))
    first = transcript.read(0)
    assert first is not None
    assert first.missed_bytes == transcript.begin > 0
    assert KEPT_BYTES - PIECE_BYTES < sum(len(part.data) for part in read_all(transcript)) <= KEPT_BYTES
    for number in range(2 * MOST_PIECES):
        transcript.add(("stdout", "stderr")[number % 2], b"x")
    assert len(read_all(transcript)) == MOST_PIECES


def test_a_gap_that_the_guest_tells_of_is_told_once() -> None:
    transcript = Transcript(1_000)
    transcript.add("pty", b"later", 400)
    transcript.add("pty", b"after a loss", 900)
    assert read_all(transcript) == [Part(405, "pty", b"later", 400), Part(912, "pty", b"after a loss", 495)]
    assert read_all(transcript, 405) == [Part(912, "pty", b"after a loss", 495)]
    assert transcript.end == 1_000, "what the guest had said before it was asked"


def test_a_guest_that_goes_back_is_not_believed() -> None:
    transcript = Transcript()
    transcript.add("pty", b"abc", 0)
    transcript.add("pty", b"def", 1)
    assert read_all(transcript) == [Part(6, "pty", b"abcdef", 0)]
