"""Sessions in pods of a real cluster, through the whole service; and what code in a pod cannot do.

They take minutes, for one cluster that all share. What they ask of Kubernetes is what 1.20 has, and newer ones as well.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandcell import Client, Session
from sandcell.errors import SandcellError
from tests.conftest import UNHURRIED
from tests.doubles.loopback_site import ADDRESS, loopback_site
from tests.doubles.package_index import package_index
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.integration.kernels.kubernetes.conftest import serving
from tests.kubernetes_cluster import Cluster
from tests.reachable_python import make_reachable_python
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
GUARD_SECONDS = 180


@pytest.fixture(scope="module")
def service(cluster: Cluster, environments_dir: Path) -> Iterator[RunningService]:
    with serving(cluster, environments_dir) as service:
        yield service


@pytest.fixture(scope="module")
def client(service: RunningService) -> Iterator[Client]:
    with service.client() as client:
        yield client


def wait(holds: Callable[[], bool]) -> None:
    """Until it holds; the deadline is a guard."""
    give_up = time.monotonic() + GUARD_SECONDS
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.2)


def left(cluster: Cluster) -> list[str]:
    """What a namespace has of sandboxes."""
    return [each["metadata"]["name"] for kind in ("pods", "secrets") for each in cluster.objects(kind)]


def test_a_session_lives_in_a_pod_and_leaves_nothing(client: Client, cluster: Cluster) -> None:
    with client.session() as session:
        assert session.run("x = 6 * 7\nprint(x)").stdout == "42\n"
        (pod,) = cluster.objects("pods")
        assert pod["status"]["phase"] == "Running"
        (secret,) = cluster.objects("secrets")
        assert pod["metadata"]["ownerReferences"][0]["uid"] == secret["metadata"]["uid"]
        session.run("import os\nos.makedirs('a/b')\nopen('a/b/c.txt', 'w').write('made there')\nos.symlink('a', 'l')")
        session.upload("up/given.txt", b"made here")
        assert session.run("print(open('up/given.txt').read())").stdout == "made here\n"
        assert session.download("a/b/c.txt") == b"made there"
        assert "'x'" in str(client.variables(session.id))
        session.restart()
        assert session.run("print('x' in globals(), open('a/b/c.txt').read())").stdout == "False made there\n"
        shown = client.get_session(session.id)
        assert (shown.generation, shown.runtime) == (2, "kubernetes")
        assert shown.usage.memory_limit_bytes == 2048 << 20
        workspace = shown.workspace_id
    assert client.workspace_read(workspace, "a/b/c.txt") == b"made there"
    assert client.workspace_read(workspace, "up/given.txt") == b"made here"
    wait(lambda: not left(cluster))
    with client.session(workspace_id=workspace) as session:
        assert session.run("import os\nprint(open('a/b/c.txt').read(), os.readlink('l'))").stdout == "made there a\n"


def test_code_is_interrupted_at_its_deadline_and_killed_where_it_does_not_heed(client: Client) -> None:
    with client.session() as session:
        assert session.run("import time\ntime.sleep(600)", timeout_seconds=1).status == "timeout"
        stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
        assert session.run(stubborn, timeout_seconds=1).status == "timeout"
        assert session.run("print('again')").stdout == "again\n"
        assert client.get_session(session.id).generation == 2


def test_running_out_of_memory_ends_the_kernel_and_not_the_pod(client: Client) -> None:
    with client.session() as session:
        session.run("import os\nopen('kept', 'w').write('x')")
        died = session.run("import ctypes\nn = bytearray(3 << 30)\nfor i in range(0, len(n), 4096): n[i] = 1")
        assert died.status in ("died", "error", "interrupted"), died
        assert session.run("print(open('kept').read())").stdout == "x\n"


def test_a_service_that_was_killed_takes_up_its_pods(cluster: Cluster, environments_dir: Path) -> None:
    with serving(cluster, environments_dir) as service:
        with service.client() as client:
            session = client.start_session()
            lost = client.start_session()
            client.run(session.id, "x = 'kept in memory'\nopen('f', 'w').write('and on disk')")
        service.kill()
        cluster.kubectl("-n", "sandcell", "delete", "pod", f"sandcell-{lost.id}", "--wait=true")
        service.start()
        with service.client() as client:
            assert client.run(session.id, "print(x, open('f').read())").stdout == "kept in memory and on disk\n"
            assert client.run(lost.id, "print('another pod')").stdout == "another pod\n"
            for each in (session, lost):
                client.stop_session(each.id)
    wait(lambda: not left(cluster))


def test_a_pod_that_the_cluster_removes_is_told_and_followed_by_another(client: Client, cluster: Cluster) -> None:
    with client.session() as session:
        session.run("x = 1\nopen('f', 'w').write('flushed')", sync="before_return")
        cluster.kubectl("-n", "sandcell", "delete", "pod", f"sandcell-{session.id}", "--wait=true")
        wait(lambda: client.get_session(session.id).generation >= 1)
        result = session.run("print('x' in globals(), open('f').read())")
        assert result.stdout == "False flushed\n"
        assert client.get_session(session.id).generation == 2


def test_what_code_has_closed_to_itself_stays_in_the_store(client: Client) -> None:
    with client.session() as session:
        session.run("import os\nos.mkdir('d')\nopen('d/f', 'w').write('kept')", sync="before_return")
        session.run("os.chmod('d', 0)")
        closed = session.run("pass", sync="before_return")
        assert "not mirrored: d (cannot be listed)" in str(closed.sync)
        workspace = client.get_session(session.id).workspace_id
    assert client.workspace_read(workspace, "d/f") == b"kept"


def test_a_workspace_may_have_many_names(client: Client) -> None:
    """More than one page of the guest's has."""
    with client.session() as session:
        made = session.run(
            "import os\nfor n in range(45_000): os.mkdir(f'{n:060}')\nopen('last', 'w').write('there')",
            sync="before_return",
        )
        assert made.sync is not None
        assert made.sync.error is None
        workspace = client.get_session(session.id).workspace_id
        assert client.workspace_read(workspace, "last") == b"there"


def test_a_pod_that_the_cluster_does_not_let_go_is_tried_again(
    service: RunningService, client: Client, cluster: Cluster
) -> None:
    session = client.start_session()
    pod = f"sandcell-{session.id}"
    held = '{"metadata": {"finalizers": ["example.org/held"]}}'
    cluster.kubectl("-n", "sandcell", "patch", "pod", pod, "--type=merge", "-p", held)
    client.stop_session(session.id)
    wait(lambda: any("sandbox_not_destroyed" in line and "example.org/held" in line for line in service.output))
    assert pod in left(cluster)
    cluster.kubectl("-n", "sandcell", "patch", "pod", pod, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    wait(lambda: not any(session.id in name for name in left(cluster)))


def test_no_pod_is_made_while_the_policy_opens_them(client: Client, cluster: Cluster) -> None:
    policy = ("-n", "sandcell", "networkpolicy", "sandcell-sandboxes")
    cluster.kubectl(*policy[:2], "delete", *policy[2:])
    with client.session() as session:
        assert session.run("1").status == "ok"
        cluster.kubectl(*policy[:2], "patch", *policy[2:], "--type=merge", "-p", '{"spec": {"egress": [{}]}}')
    with pytest.raises(SandcellError, match="somebody has changed it"):
        client.run(client.start_session().id, "1")
    cluster.kubectl(*policy[:2], "delete", *policy[2:])
    with client.session() as session:
        assert session.run("1").status == "ok"


def test_a_service_of_an_ordinary_user_is_enough(cluster: Cluster, environments_dir: Path) -> None:
    """Started without root it has no capability, nor has what it starts; it takes its pods up again as well."""
    user = 1000
    directory = Path(tempfile.mkdtemp(prefix="scdata", dir="/tmp"))
    config = directory / "kubeconfig"
    config.write_text(cluster.kubectl("config", "view", "--flatten", "--raw"))
    settings = {
        "environments_dir": environments_dir,
        "runtime": "kubernetes",
        "kubernetes_config": config,
        "run_dir": directory / "run",
        **UNHURRIED,
    }
    python = make_reachable_python(directory / "python")
    for each in (directory, config):
        os.chown(each, user, user)
    unprivileged = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--bounding-set=-all"]
    service = RunningService(
        directory / "data", settings, {"HOME": str(directory)}, place=[*unprivileged, "--inh-caps=-all"], python=python
    )
    try:
        service.start()
        with service.client() as client:
            session = client.start_session()
            assert client.run(session.id, "open('f', 'w').write('x')\ny = 7\nprint(y)").stdout == "7\n"
            for pid in (service.pid, service.service_pid):
                status = Path(f"/proc/{pid}/status").read_text()
                assert f"Uid:\t{user}\t{user}\t{user}\t{user}\n" in status
                assert "CapEff:\t0000000000000000\n" in status
            with pytest.raises(SandcellError, match="not started as root"):
                client.notebook(session.id, format="html")
        service.kill()
        service.start()
        with service.client() as client:
            assert client.run(session.id, "print(open('f').read(), y)").stdout == "x 7\n"
            client.stop_session(session.id)
    finally:
        service.stop()
        shutil.rmtree(directory, ignore_errors=True)
    wait(lambda: not left(cluster))


def test_a_session_gets_a_pod_that_was_ready(cluster: Cluster, environments_dir: Path) -> None:
    def is_full(client: Client) -> bool:
        pool = client.get_environment("python").pool
        return pool is not None and pool.ready == 2

    with serving(cluster, environments_dir, "[python]\nwarm = 2\n") as service:
        with service.client() as client:
            wait(lambda: is_full(client))
            ready = {each["metadata"]["name"] for each in cluster.objects("pods")}
            with client.session() as session:
                assert session.run("open('f', 'w').write('x')\nprint(6 * 7)").stdout == "42\n"
                assert f"sandcell-{session.id}" in ready
                workspace = client.get_session(session.id).workspace_id
            assert client.workspace_read(workspace, "f") == b"x"
            wait(lambda: is_full(client))
        service.kill()
        service.start()
        with service.client() as client:
            wait(lambda: is_full(client) and len(cluster.objects("pods")) == 2)  # those of before belong to nobody
    wait(lambda: not left(cluster))


NETWORKS = """
[web]
image = "python"
network = "ALLOWLIST"
allow = [{{host = "{address}", port = {port}, methods = ["GET"]}}]

[public]
image = "python"
network = "PUBLIC"

[work]
image = "python"
index_url = "{index}"
[work.role]
bucket = "{bucket}"
prefix = "team/a"
access = "read-write"
endpoint_url = "{server}"
"""
ASK = """
import urllib.error, urllib.request
def ask(url, **more):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, **more), timeout=120).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
"""


def test_ways_out_of_pods_are_those_of_a_host(cluster: Cluster, environments_dir: Path, tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}
    with loopback_site() as port, package_index() as index, s3_server("rclone", tmp_path) as server:
        index.add("tiny", tiny="said = 'from the index'")
        declared = NETWORKS.format(address=ADDRESS, port=port, index=index.url, bucket=BUCKET, server=server)
        private = f"{ADDRESS}:{port}"
        with serving(cluster, environments_dir, declared, keys, egress_private=private) as service:
            with service.client() as client:
                site = f"http://{ADDRESS}:{port}"
                web = client.start_session(environment="web")
                client.run(web.id, ASK)

                def ask(session: str, what: str) -> str:
                    result = client.run(session, f"print({what})")
                    assert result.status == "ok", result
                    return str(result.stdout)

                assert "you asked for /a" in ask(web.id, f"ask('{site}/a')")
                assert ask(web.id, f"ask('{site}/a', method='POST', data=b'x')").startswith("403")
                assert ask(web.id, "ask('http://203.0.113.9/')").startswith("403")
                many = "__import__('concurrent.futures', fromlist=['x']).ThreadPoolExecutor(30)"
                answers = f"sum('asked for /m' in each for each in {many}.map(ask, ['{site}/m'] * 90))"
                assert ask(web.id, answers) == "90\n"
                used = client.get_session(web.id).network.used
                assert (used.requests, used.refused) == (93, 2), used

                with client.session(environment="public") as public:
                    public.run(ASK)
                    assert "you asked for /p" in public.run(f"print(ask('{site}/p'))").stdout  # the operator's
                    for url in ("http://10.55.0.1:6443/", "http://169.254.169.254/latest/", "http://10.57.0.1/"):
                        assert public.run(f"print(ask('{url}'))").stdout.startswith("403"), url

                with client.session(environment="work") as work:
                    assert "Successfully installed tiny" in work.run("%pip install tiny").stdout
                    assert work.run("import tiny\nprint(tiny.said)").stdout == "from the index\n"
                    put = work.run(
                        f"import boto3\ns3 = boto3.client('s3')\n"
                        f"s3.put_object(Bucket='{BUCKET}', Key='team/a/made', Body=b'in a pod' * 100_000)\n"
                        f"print(len(s3.get_object(Bucket='{BUCKET}', Key='team/a/made')['Body'].read()))"
                    )
                    assert put.stdout == "800000\n", put
                    refused = work.run(f"s3.get_object(Bucket='{BUCKET}', Key='team/b/other')")
                    assert "AccessDenied" in str(refused.error), refused
            service.kill()
            service.start()
            with service.client() as client:
                result = client.run(web.id, f"print(ask('{site}/after'))")
                assert "you asked for /after" in result.stdout, result
                client.stop_session(web.id)
    wait(lambda: not left(cluster))


ATTEMPTS = {
    "the API server, by its variables": "import os\nassert not [n for n in os.environ if n.startswith('KUBERNETES')]",
    "a service account's token": "import os\nassert not os.path.exists('/var/run/secrets/kubernetes.io')",
    "a name of the cluster's": """
import socket
try: socket.getaddrinfo("kubernetes.default.svc", 443)
except OSError: pass
else: raise AssertionError""",
    "privileges": """
import os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), status
assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
assert status["Uid"].split() == status["Gid"].split() == [str(os.getuid())] * 4 and os.getuid() > 999_999_999
assert __import__("pwd").getpwuid(os.getuid()).pw_name == "user"
for change in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try: change()
    except PermissionError: continue
    raise AssertionError""",
    "more processes than its environment allows": """
import resource, threading
assert resource.getrlimit(resource.RLIMIT_NPROC) == (512, 512)
ended, threads = threading.Event(), []
try:
    for _ in range(600):
        threads.append(threading.Thread(target=ended.wait))
        threads[-1].start()
except RuntimeError: pass
else: raise AssertionError
finally:
    ended.set()
    [each.join() for each in threads if each.ident]""",
    "the image": """
import os
for place in ("/etc/passwd", "/usr/bin/python3", "/opt/sandcell/guest/boot.py", "/new"):
    try: open(place, "ab")
    except OSError: continue
    raise AssertionError(place)""",
    "mounts, namespaces, modules": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == -1
assert libc.unshare(0x10000000) == -1 and libc.unshare(0x40000000) == -1
assert libc.syscall(175, 0, 0, 0) == -1 and libc.syscall(321, 5, 0, 0) == -1
assert libc.syscall(298, 0, 0, -1, -1, 0) == -1""",
    "devices": """
import os
try: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0))
except PermissionError: pass
else: raise AssertionError
assert not [n for n in os.listdir("/dev") if n.startswith(("sd", "vd", "nvme", "kmsg", "mem", "kvm"))]""",
    "processes of others": """
import os
names = [open(f"/proc/{n}/cmdline", "rb").read() for n in os.listdir("/proc") if n.isdigit()]
assert not [n for n in names if b"kubelet" in n or b"containerd" in n or b"pause" in n], names""",
    "the kernel's settings": """
for place in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
    try: open(place, "w").write("x")
    except OSError: continue
    raise AssertionError(place)""",
    "the gateway's half of the keys": """
import os
assert sorted(n for n in os.listdir("/run/sandcell-keys") if n[0] != ".") == ["ca.crt", "guest.crt", "guest.key"]""",
    "the guest as a gateway, without the gateway's key": """
import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with context.wrap_socket(socket.create_connection(("127.0.0.1", 7443), 10)) as stream:
    try:
        stream.sendall(b"guest\\n")
        assert stream.recv(10) == b""
    except OSError: pass""",
    "a lower score for when memory runs out": """
own, guest = (int(open(f"/proc/{n}/oom_score_adj").read()) for n in ("self", "1"))
assert own > guest, (own, guest)""",
}


@pytest.fixture(scope="module")
def inside(client: Client) -> Iterator[Session]:
    with client.session() as session:
        yield session


@pytest.mark.parametrize("what", ATTEMPTS)
def test_code_in_a_pod_does_not_get(what: str, inside: Session) -> None:
    result = inside.run(ATTEMPTS[what])
    assert result.status == "ok", result.error


def test_what_code_does_to_its_guest_ends_its_own_pod_at_most(client: Client, inside: Session) -> None:
    with client.session() as other:
        other.run("import os, signal\nos.kill(1, signal.SIGKILL)\nprint('PID 1 takes no signal from within')")
        assert other.run("os.kill(1, signal.SIGTERM)\nimport time\ntime.sleep(60)").status == "died"
        wait(lambda: _runs_again(client, other.id))
        assert other.run("print('in another pod')").stdout == "in another pod\n"
    assert inside.run("print('unharmed')").stdout == "unharmed\n"


def test_a_lost_node_takes_its_sessions_pods_and_no_session(client: Client, cluster: Cluster) -> None:
    """Last of this module: the node does not come back."""
    sessions = [client.start_session() for _ in range(4)]
    for each in sessions:
        client.run(each.id, "x = 1\nopen('f', 'w').write('in the store')", sync="before_return")
    nodes = {
        pod["metadata"]["labels"]["sandcell.dev/sandbox"]: pod["spec"]["nodeName"] for pod in cluster.objects("pods")
    }
    cluster.kill_node(2)
    hit = [each for each in sessions if nodes[each.id] == "n2"]
    assert hit, nodes
    for each in hit:
        wait(lambda each=each: _runs_again(client, each.id))
        assert client.run(each.id, "print('x' in globals(), open('f').read())").stdout == "False in the store\n"
    for each in sessions:
        if each not in hit:
            assert client.run(each.id, "print(x)").stdout == "1\n"
        client.stop_session(each.id)


def _runs_again(client: Client, session_id: str) -> bool:
    try:
        return client.run(session_id, "1").status == "ok"
    except SandcellError:
        return False
