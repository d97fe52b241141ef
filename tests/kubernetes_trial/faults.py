"""What happens to a cluster, one thing at a time; each says what came of it. Nodes are n1 to n3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

from sandcell import Client
from sandcell.errors import SandcellError
from sandcell.models.executions import Execution
from tests.kubernetes_cluster import NAMESPACE, PREFIX
from tests.kubernetes_trial.gateways import NODE, Gateways
from tests.kubernetes_trial.trial import GUARD_SECONDS, Trial

LINES = 40
TAKEN_OVER = "gateway_taken_over"
"""What a gateway logs that finds that another has its sessions."""


def drain(trial: Trial) -> str:
    """A node is emptied as for maintenance: its pods are evicted, through the API that a drain uses."""
    hit, others = _split(trial, "n2")
    trial.cluster.kubectl("drain", "n2", "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
    trial.require_unharmed(others)
    trial.require_restored(hit)
    if "n2" in trial.places().values():
        trial.findings.append("a pod was made on a node that is drained")
    trial.cluster.kubectl("uncordon", "n2")
    return f"n2 drained: {len(hit)} sessions restored elsewhere"


def fill_disk(trial: Trial, session: str) -> str:
    """A session takes more disk than its limit: the node evicts its pod."""
    code = (
        "import os, time\nfor n in range(2):\n    with open(f'big{n}', 'wb') as file:\n"
        "        for _ in range(300): file.write(bytes(1 << 20))\ntime.sleep(120)"
    )
    result = trial.client.run(session, code)
    if result.status != "died":
        trial.findings.append(f"a pod above its disk limit was not evicted: {result!r}"[:1000])
    said = "" if result.death is None else result.death.detail
    trial.require_restored([session])
    return f"a pod evicted for its disk: {said[:120]}"


def lose_node(trial: Trial) -> str:
    """A power cut."""
    hit, others = _split(trial, "n3")
    began = time.monotonic()
    trial.cluster.kill_node(3)
    trial.require_unharmed(others)
    trial.require_restored(hit)
    return f"n3 lost: {len(hit)} sessions went on within {time.monotonic() - began:.0f} s"


def return_node(trial: Trial) -> str:
    """The node that was lost starts again, and takes new sessions."""
    trial.cluster.start_node(3)
    trial.require(lambda: _is_ready(trial, "n3"), "a node that was started again is not ready")
    for each in ("n1", "n2"):
        trial.cluster.kubectl("cordon", each)
    session = trial.start()
    trial.work(session)
    trial.sessions.append(session)
    if trial.places().get(session) != "n3":
        trial.findings.append(f"the node that is back does not have the new session: {trial.places().get(session)}")
    for each in ("n1", "n2"):
        trial.cluster.kubectl("uncordon", each)
    return "n3 came back and took another"


def cut_gateway(trial: Trial, seconds: float) -> str:
    """The service does not reach a node's pods, of which the cluster says that they run."""
    hit, others = _split(trial, "n2")
    _route("replace", "blackhole", "10.56.2.0/24")
    answers: list[tuple[int, int]] = []
    asking = threading.Thread(target=lambda: answers.append(trial.require_going_on(hit)))
    try:
        asking.start()  # into the cut
        trial.require_unharmed(others)
        time.sleep(seconds)
    finally:
        _route("replace", "10.56.2.0/24", "via", "10.55.0.12")
    asking.join(GUARD_SECONDS)
    kept, restored = answers[0] if answers else (0, 0)
    if kept + restored != len(hit):
        trial.findings.append(f"of {len(hit)} sessions that were cut off {kept + restored} went on")
    return f"n2 cut off for {seconds:.0f} s: {kept} sessions went on as they were, {restored} from the store"


def stop_api_server(trial: Trial, seconds: float) -> str:
    """It answers nobody for a while: what runs goes on, what asks for a pod hears why."""
    pid = int((trial.cluster.place / "run/pid/apiserver").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        trial.require_unharmed(trial.sessions)
        used = time.monotonic() - began
        before = trial.findings[:]
        refused = threading.Thread(target=_require_no_start, args=(trial,))
        refused.start()
        while time.monotonic() < began + seconds:
            trial.require_unharmed(trial.sessions[:2])
            time.sleep(1)
    finally:
        os.kill(pid, signal.SIGCONT)
    refused.join(GUARD_SECONDS)
    trial.require_unharmed(trial.sessions)
    came_back = trial.start()
    trial.client.stop_session(came_back)
    noticed = "" if trial.findings == before else ", and some noticed"
    return f"API server away for {seconds:.0f} s: all sessions answered within {used:.1f} s{noticed}"


def _require_no_start(trial: Trial) -> None:
    try:
        session = trial.client.start_session()
    except Exception as error:
        if "API server" not in str(error) and "launcher did not" not in str(error):
            trial.findings.append(f"a start without the API server said {error!r}")
    else:
        trial.client.stop_session(session.id)  # the server was back before the start was given up


def exhaust_quota(trial: Trial) -> str:
    """No pod may be made any more."""
    pods = len(json.loads(trial.cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))["items"])
    trial.cluster.kubectl("-n", NAMESPACE, "create", "quota", "few", f"--hard=pods={pods}")
    trial.require(lambda: _quota_counts(trial), "the cluster does not count a quota")
    trial.require_refused("exceeded quota")
    trial.cluster.kubectl("-n", NAMESPACE, "delete", "quota", "few")
    trial.client.stop_session(trial.start())
    return "quota exhausted: refused with the cluster's words"


def stop_gateway(trial: Trial, gateways: Gateways) -> str:
    """One is scaled away while code runs in all sessions: the other has them, and nothing of it is lost."""
    runs = _count(trial, trial.sessions)
    gateways.scale(1)
    began = time.monotonic()
    trial.clients[1:] = []
    trial.each(lambda one: trial.reach(one, "kept"), trial.sessions)
    seconds = time.monotonic() - began
    _require_counted(trial, runs)
    trial.require_unharmed(trial.sessions)
    trial.require(lambda: gateways.ready(1), "a gateway that was scaled away is still there")
    gateways.scale(2)
    trial.require(lambda: gateways.ready(2), "a second gateway is not ready")
    return f"a gateway scaled away: all sessions were reached at the other one, running, within {seconds:.1f} s"


def hang_gateway(trial: Trial, gateways: Gateways) -> str:
    """It stands still while code runs in its pods: the other one has them, and it lets go when it goes on."""
    sessions = _start_at_second(trial)
    logged = gateways.count_logged(TAKEN_OVER)
    runs = _count(trial, sessions)
    second = trial.clients.pop()
    with gateways.hung():
        began = time.monotonic()
        trial.each(lambda one: trial.reach(one, "kept"), sessions)
        seconds = time.monotonic() - began
        _require_counted(trial, runs)
    trial.require(lambda: gateways.count_logged(TAKEN_OVER) > logged, "a gateway that hung does not let go")
    trial.require(lambda: _reaches(second, sessions[0]), "a gateway that hung does not serve again")
    trial.clients.append(second)
    trial.require_unharmed(sessions * 2)  # by each of them
    return f"a gateway that hung: its sessions were reached at the other one, running, within {seconds:.1f} s"


def lose_gateway(trial: Trial, gateways: Gateways) -> str:
    """It is killed; its pods run on, and the other one has them, or itself when it is back."""
    _start_at_second(trial)
    restarts, began = gateways.restarts(), time.monotonic()
    gateways.kill()
    trial.clients[1:] = []
    kept, restored = trial.require_going_on(trial.sessions)
    seconds = time.monotonic() - began
    if restored or kept != len(trial.sessions):
        trial.findings.append(f"of {len(trial.sessions)} sessions {kept} had their globals, {restored} had not")
    trial.require(lambda: gateways.restarts() > restarts, "a gateway that was killed is not started again")
    trial.require(lambda: gateways.ready(2), "a gateway that was killed is not ready again")
    trial.require_unharmed(trial.sessions)
    return f"a gateway lost: {kept} sessions went on with their globals within {seconds:.0f} s"


def miss_image(trial: Trial, client: Client) -> str:
    """Nodes do not get the image."""
    trial.require_refused("ErrImagePull", client)
    return "image that no node gets: refused with the cluster's words"


def _reaches(client: Client, session: str) -> bool:
    try:
        client.download(session, "kept")
    except SandcellError:
        return False
    return True


def _start_at_second(trial: Trial) -> list[str]:
    """Sessions of the second gateway: the others may all be at the first by now."""
    sessions = [trial.clients[1].start_session().id for _ in range(3)]
    for each in sessions:
        trial.client.run(each, "x = 42\nopen('kept', 'w').write('kept')", sync="before_return")
    trial.sessions += sessions
    return sessions


def _count(trial: Trial, sessions: list[str]) -> list[tuple[str, Execution]]:
    """Have code run there that prints for ten seconds."""
    code = f"import time\nfor n in range({LINES}):\n    print(n, flush=True)\n    time.sleep(0.25)"
    return list(trial.pool.map(lambda one: (one, trial.client.submit(one, code)), sessions))


def _require_counted(trial: Trial, runs: list[tuple[str, Execution]]) -> None:
    said = "".join(f"{n}\n" for n in range(LINES))
    for session, execution in runs:
        result = trial.client.wait(session, execution.id)
        if result.status != "ok" or result.stdout != said:
            trial.findings.append(f"{session} ran when its gateway went away, and has {result!r}"[:1000])


def _quota_counts(trial: Trial) -> bool:
    found = json.loads(trial.cluster.kubectl("-n", NAMESPACE, "get", "quota", "few", "-o", "json"))
    return bool(found.get("status", {}).get("used"))


def _split(trial: Trial, node: str) -> tuple[list[str], list[str]]:
    """Sessions on this node, and the others."""
    places = trial.places()
    hit = [each for each in trial.sessions if places.get(each) == node]
    if not hit:
        trial.findings.append(f"no session was on {node}: {places}")
    return hit, [each for each in trial.sessions if each not in hit]


def _is_ready(trial: Trial, node: str) -> bool:
    conditions = json.loads(trial.cluster.kubectl("get", "node", node, "-o", "json"))
    ready = [each["status"] for each in conditions["status"]["conditions"] if each["type"] == "Ready"]
    return ready == ["True"] and not conditions["spec"].get("taints")


def _route(*words: str) -> None:
    """On the node of the gateways."""
    network = f"/var/run/netns/{PREFIX}-{NODE}"
    subprocess.run(["nsenter", f"--net={network}", "ip", "route", *words], check=True, timeout=60)
