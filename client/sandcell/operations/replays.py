"""The client's operations on replays: run a notebook again, look how far it is, stop it. No I/O; see `steps`."""

from __future__ import annotations

import time

import msgspec

from sandcell.errors import InvalidRequest, StillRunning
from sandcell.models.replays import Replay
from sandcell.operations.sessions import MARGIN_SECONDS, POLL_SECONDS, REPLAY_SECONDS
from sandcell.steps import Ask, Operation, Pause, decode, exchange, omit_none, pause_seconds, quote

UPLOAD_SECONDS = 600.0
REPLAYS = "/v1/replays"


def start_replay(
    notebook: bytes | None = None,
    *,
    session_id: str | None = None,
    environment: str | None = None,
    inputs: str | None = None,
    continue_session: str | None = None,
    stop_on_difference: bool = False,
    until: int | str | None = None,
    timeout_seconds: float | None = None,
    determinism: bool = True,
    strict: bool = False,
    keep_session: bool = False,
) -> Operation[Replay]:
    """Begin to run the code cells of a notebook again, or of a session's, and return at once. Never sent twice.

    `notebook` is an `.ipynb`'s content. `inputs` is a workspace whose files the fresh session starts with;
    `timeout_seconds` is each cell's. With `until`, a cell's id or its place among all cells from 1, the session stays.
    `strict` puts nothing aside that varies from run to run.
    """
    options = omit_none(
        session_id=session_id,
        environment=environment,
        inputs=inputs,
        continue_session=continue_session,
        until=until,
        timeout_seconds=timeout_seconds,
    )
    body = options | {
        "stop_on_difference": stop_on_difference,
        "determinism": determinism,
        "strict": strict,
        "keep_session": keep_session,
        "wait": False,
    }
    if notebook is not None:
        body["notebook"] = encode_notebook(notebook)
    ask = Ask("POST", "/v1/notebooks/replay", json=body, timeout_seconds=UPLOAD_SECONDS)
    return decode((yield from exchange(ask)), Replay)


def replay(
    notebook: bytes | None = None,
    *,
    session_id: str | None = None,
    environment: str | None = None,
    inputs: str | None = None,
    continue_session: str | None = None,
    stop_on_difference: bool = False,
    until: int | str | None = None,
    timeout_seconds: float | None = None,
    determinism: bool = True,
    strict: bool = False,
    keep_session: bool = False,
    patience_seconds: float = REPLAY_SECONDS + MARGIN_SECONDS,
) -> Operation[Replay]:
    """As `start_replay`, and wait for its end: what came of each cell, and the notebook with the replay's outputs."""
    begun = yield from start_replay(
        notebook,
        session_id=session_id,
        environment=environment,
        inputs=inputs,
        continue_session=continue_session,
        stop_on_difference=stop_on_difference,
        until=until,
        timeout_seconds=timeout_seconds,
        determinism=determinism,
        strict=strict,
        keep_session=keep_session,
    )
    return (yield from wait_replay(begun.id, patience_seconds=patience_seconds))


def wait_replay(replay_id: str, *, patience_seconds: float = REPLAY_SECONDS + MARGIN_SECONDS) -> Operation[Replay]:
    """A replay once it has ended; raises `StillRunning` when patience ends first."""
    until, attempt = time.monotonic() + patience_seconds, 0
    while (found := (yield from get_replay(replay_id))).status == "running":
        if time.monotonic() >= until:
            raise StillRunning("the replay has not ended yet", code="still_running", replay_id=replay_id)
        yield Pause(min(pause_seconds(attempt), POLL_SECONDS))
        attempt = min(attempt + 1, 8)
    return found


def get_replay(replay_id: str) -> Operation[Replay]:
    """A replay as far as it is; once it has ended, with its notebook."""
    return decode((yield from exchange(Ask("GET", f"{REPLAYS}/{quote(replay_id)}"))), Replay)


def replay_notebook(replay_id: str) -> Operation[bytes]:
    """The `.ipynb` that came of a replay."""
    return (yield from exchange(Ask("GET", f"{REPLAYS}/{quote(replay_id)}/notebook")))


def stop_replay(replay_id: str) -> Operation[Replay]:
    """Stop a replay; returns when the sessions started for it have ended."""
    ask = Ask("DELETE", f"{REPLAYS}/{quote(replay_id)}", timeout_seconds=UPLOAD_SECONDS)
    return decode((yield from exchange(ask)), Replay)


def encode_notebook(notebook: bytes) -> msgspec.Raw | str:
    """A notebook's content as it goes into a request: as the JSON it is, else as text, which the service reads.

    Tools write notebooks that are not quite JSON (a byte order mark, NaN), and what is wrong with others is for the
    service to say.
    """
    try:
        text = notebook.decode()
        msgspec.json.decode(notebook, type=dict[str, msgspec.Raw])
    except UnicodeDecodeError:
        raise InvalidRequest("this is no notebook: it is not UTF-8", code="invalid_request") from None
    except msgspec.DecodeError:
        return text
    return msgspec.Raw(notebook)
