"""How a request is refused: an HTTP answer whose first line already names the network mode and the reason."""

from __future__ import annotations

import re

from kernel_gateway.egress.addresses import Address
from kernel_gateway.egress.policy import Verdict
from kernels.environment import NetworkMode

_LONGEST_REASON = 300
_UNPRINTABLE = re.compile(r"[^ -~]+")


class Refused(Exception):
    """A request that goes no further: the status of the answer, the verdict, and the address if it came to one."""

    def __init__(self, status: int, verdict: Verdict, *, address: Address | None = None) -> None:
        super().__init__(verdict.sentence)
        self.status = status
        self.verdict = verdict
        self.address = address

    @property
    def allowed(self) -> bool:
        """Whether the policy had nothing against it: it failed on the way."""
        return self.status >= 500


def answer(mode: NetworkMode, refused: Refused) -> bytes:
    """The whole answer; pip, requests and curl show its reason phrase, browsers and people its body."""
    text = f"Network mode {mode}: {refused.verdict.sentence} ({refused.verdict.word})"
    phrase = _UNPRINTABLE.sub(" ", text)[:_LONGEST_REASON]
    body = phrase + "\n"
    return (
        f"HTTP/1.1 {refused.status} {phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        f"X-Sandcell-Refusal: {refused.verdict.word}\r\nConnection: close\r\n\r\n{body}"
    ).encode()
