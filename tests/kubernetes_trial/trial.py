"""The state of one trial: its sessions, and what was measured and found."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kernels.kubernetes.manifests import SANDBOX
from sandcell import Client
from sandcell.errors import SandcellError
from sandcell.result import Result
from tests.kubernetes_cluster import Cluster

GUARD_SECONDS = 300.0
BEGAN = time.monotonic()


@dataclass
class Trial:
    """Sessions have `x` = 42 and a file `kept` in the store. `findings` is what should not have been."""

    cluster: Cluster
    clients: list[Client]
    """Of each gateway; asked in turn, as a plain proxy would."""
    pool: ThreadPoolExecutor
    sessions: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    cells: int = 0
    turn: int = 0
    told: int = 0
    """Executions that heard that their sandbox is gone."""
    findings: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        self.turn = (self.turn + 1) % len(self.clients)
        return self.clients[self.turn]

    def start(self, _number: int = 0) -> str:
        """One session with its first result."""
        began = time.monotonic()
        session = self.client.start_session()
        self.expect(session.id, "x = 6 * 7\nprint(x)", "42\n")
        self.starts.append(time.monotonic() - began)
        return session.id

    def start_on(self, node: str) -> str:
        """A session whose pod is on this node, which has done its work."""
        others = [each for each in ("n1", "n2", "n3") if each != node]
        self.cluster.kubectl("cordon", *others)
        session = self.start()
        self.cluster.kubectl("uncordon", *others)
        self.work(session)
        return session

    def work(self, session_id: str) -> None:
        """Cells that need each other, and a file that is in the store when the last of them has ended."""
        for _ in range(10):
            self.expect(session_id, "x += 1\nprint(x)", None)
        self.expect(session_id, "x -= 10\nprint(x)", "42\n")
        self.client.run(session_id, "open('kept', 'w').write('kept')", sync="before_return")

    def expect(self, session_id: str, code: str, printed: str | None) -> None:
        result = self.client.run(session_id, code)
        self.cells += 1
        if result.status != "ok" or (printed is not None and result.stdout != printed):
            self.findings.append(f"{session_id}: {code!r} printed {result.stdout!r}: {result!r}"[:1000])

    def each(self, work: Callable[[str], object], sessions: list[str]) -> None:
        list(self.pool.map(work, sessions))

    def places(self) -> dict[str, str]:
        """The nodes of this trial's sessions, by id."""
        found = {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in self.cluster.objects("pods")}
        names = {each: f"sandcell-{each}" for each in self.sessions}
        return {each: found[name] for each, name in names.items() if name in found}

    def require_unharmed(self, sessions: list[str]) -> None:
        """They have their globals."""
        self.each(lambda one: self.expect(one, "print(x)", "42\n"), sessions)

    def require_going_on(self, sessions: list[str]) -> tuple[int, int]:
        """They answer again: how many with their globals, and how many from the store, told so."""
        kept = list(self.pool.map(self._goes_on, sessions))
        return kept.count(True), kept.count(False)

    def require_restored(self, sessions: list[str]) -> None:
        """All of them in another pod, from the store."""
        if kept := self.require_going_on(sessions)[0]:
            self.findings.append(f"{kept} of {len(sessions)} sessions still had their globals: was anything lost?")

    def _goes_on(self, session_id: str) -> bool | None:
        generation = self.client.get_session(session_id).generation
        result = self.answer(session_id, "print('x' in globals(), open('kept').read())")
        if result is None:
            return None
        now = self.client.get_session(session_id).generation
        if result.stdout == "True kept\n" and now == generation:
            return True
        if result.stdout != "False kept\n":
            self.findings.append(f"{session_id} went on at generation {now} with {result!r}"[:1000])
        self.client.run(session_id, "x = 42")
        return False

    def answer(self, session_id: str, code: str) -> Result | None:
        """Its first answer that is one; errors and deaths are counted as what callers are told."""
        give_up = time.monotonic() + GUARD_SECONDS
        while True:
            try:
                result = self.client.run(session_id, code)
                if result.status != "died":
                    return result
                why, self.told = repr(result), self.told + 1
            except SandcellError as error:
                why = str(error)
            if time.monotonic() > give_up:
                self.findings.append(f"{session_id} did not go on: {why}"[:1000])
                return None
            time.sleep(1)

    def reach(self, session_id: str, file: str) -> None:
        """Read a file of its pod, again and again until that is answered."""
        give_up = time.monotonic() + GUARD_SECONDS
        while True:
            try:
                self.client.download(session_id, file)
            except SandcellError as error:
                if time.monotonic() > give_up:
                    return self.findings.append(f"{session_id} is not reached: {error}"[:1000])
                time.sleep(0.1)
            else:
                return None

    def require_refused(self, words: str, client: Client | None = None) -> None:
        """A start is refused, and says this; nothing of it stays, whatever sessions of the trial come meanwhile."""
        before = self._labelled("secrets")
        try:
            session = (client or self.client).start_session()
            self.findings.append(f"a session started that was to be refused with {words!r}: {session.id}")
        except SandcellError as error:
            if words not in str(error):
                self.findings.append(f"a start that was to be refused with {words!r}: {error}")

        def left() -> set[str]:
            return self._labelled("secrets") - before - {f"sandcell-{each}" for each in self.sessions}

        self.require(lambda: not left(), "a refused start left its Secret")

    def _labelled(self, *kinds: str) -> set[str]:
        """The names of sandboxes' objects of these kinds."""
        found = [each["metadata"] for kind in kinds for each in self.cluster.objects(kind)]
        return {each["name"] for each in found if SANDBOX in each.get("labels", {})}

    def require(self, holds: Callable[[], bool], else_found: str) -> None:
        """Wait until it holds."""
        give_up = time.monotonic() + GUARD_SECONDS
        while not holds():
            if time.monotonic() > give_up:
                return self.findings.append(else_found)
            time.sleep(0.5)
        return None

    def require_nothing_left(self) -> None:
        """No pod, and no Secret, which has a sandbox's certificates and keys; one policy for all that were."""
        self.require(lambda: not self._labelled("pods", "secrets"), "pods or Secrets are left in the cluster")
        policies = [each["metadata"]["name"] for each in self.cluster.objects("networkpolicies")]  # not the gateways'
        if policies != ["sandcell-sandboxes"]:
            self.findings.append(f"network policies are {policies}")
        if requests := self.cluster.kubectl("get", "certificatesigningrequests", "-o", "name"):
            self.findings.append(f"requests for certificates are left in the cluster: {requests}")


def say(line: str) -> None:
    print(f"[{time.monotonic() - BEGAN:4.0f} s] {line}", flush=True)
