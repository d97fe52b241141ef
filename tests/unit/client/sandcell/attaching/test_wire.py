"""What goes through the bridge is signed on one side, framed on the other, and the same."""

from __future__ import annotations

import json

import pytest
from jupyter_client.session import Session

from kernel_gateway.faces.jupyter.framing import pack_v1, unpack_v1
from sandcell.attaching.wire import DELIMITER, MOST_CLIENTS, Refused, Translator

KEY = b"the key of the file"


def message(session: Session, kind: str = "execute_request") -> list[bytes]:
    """As a ZMQ client of that session sends it, with its route before it and a buffer behind."""
    return [session.bsession, *session.serialize(session.msg(kind, {"code": "1"})), b"\x00\xff"]


def reply(session: str) -> bytes:
    parts = [
        b'{"msg_id":"r","msg_type":"execute_reply"}',
        json.dumps({"session": session}).encode(),
        b"{}",
        b'{"status":"ok"}',
    ]
    return pack_v1("shell", parts)


def test_a_request_and_its_reply() -> None:
    client, translator = Session(key=KEY), Translator(KEY)
    sent = message(client)
    said = unpack_v1(translator.frame("shell", sent))
    assert (said.channel, said.header, said.content, said.buffers) == ("shell", sent[3], sent[6], (b"\x00\xff",))
    channel, parts = translator.parts(reply(client.session))
    assert (channel, parts[0]) == ("shell", client.bsession)
    assert client.deserialize(client.feed_identities(parts)[1])["content"]["status"] == "ok"


def test_what_is_published_goes_to_all_and_a_reply_for_nobody_here_to_none() -> None:
    translator = Translator(KEY)
    parts = [b"{}", b"{}", b"{}", b"{}"]
    assert translator.parts(pack_v1("iopub", parts))[1][:2] == [b"iopub", DELIMITER]
    assert translator.parts(reply("another")) == ("shell", [])


def test_the_client_that_wrote_longest_ago_is_forgotten_first() -> None:
    translator = Translator(KEY)
    clients = [Session(key=KEY) for _ in range(MOST_CLIENTS + 1)]
    for client in clients:
        translator.frame("shell", message(client))
    assert translator.parts(reply(clients[0].session))[1] == []
    assert translator.parts(reply(clients[1].session))[1][0] == clients[1].bsession


@pytest.mark.parametrize("spoil", ["key", "delimiter", "part", "route"])
def test_who_does_not_know_the_key_is_refused(spoil: str) -> None:
    sent = message(Session(key=b"another" if spoil == "key" else KEY))
    spoilt = {
        "key": sent,
        "delimiter": [part for part in sent if part != DELIMITER],
        "part": sent[:5],
        "route": sent[1:],
    }[spoil]
    with pytest.raises(Refused):
        Translator(KEY).frame("shell", spoilt)
