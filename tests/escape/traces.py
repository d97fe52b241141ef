"""Programs that leave a mark wherever a session can write, and that search for one. Run with the prelude.

`LEAVE` knows `MARK`; `SEARCH` knows it `BACKWARDS` and prints a line for each place, `kind: where`. `KINDS` are those
that a search by the session itself finds after `LEAVE`, so that finding none of a predecessor's means something.
"""

from __future__ import annotations

KEY = 0x5CE11
PORT = 4711

KINDS = [
    "abstract socket", "environment of a process", "file", "file name", "kernel", "message queue", "port",
    "POSIX queue", "process", "semaphore", "shared memory", "socket",
]  # fmt: skip

LEAVE = f"""
KEY, PORT = {KEY}, {PORT}
import pathlib, subprocess
for place in ("/workspace", "/home/user", "/tmp", "/dev/shm"):
    deep = pathlib.Path(place, "deep", MARK)
    deep.mkdir(parents=True)
    pathlib.Path(deep, ".hidden").write_text(MARK)
    pathlib.Path(place, "unreadable").write_text(MARK)
    os.chmod(pathlib.Path(place, "unreadable"), 0)
home = pathlib.Path("/home/user")
for name in (".bashrc", ".profile", ".netrc", ".config/pip/pip.conf", ".ipython/profile_default/startup/00.py"):
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text("# " + MARK)
segment = syscall("shmget", KEY, 4096, 0o1666)
libc.shmat.restype = ctypes.c_void_p
ctypes.memmove(libc.shmat(segment, None, 0), MARK.encode(), len(MARK))
syscall("semget", KEY, 1, 0o1666)
queue = syscall("msgget", KEY, 0o1666)
syscall("msgsnd", queue, struct.pack("q", 1) + MARK.encode(), len(MARK), 0)
try:
    syscall("mq_open", b"trace", os.O_CREAT | os.O_RDWR, 0o666, None)
except OSError as error:
    print("no POSIX queues:", error)
lives_on = '''
import os, socket, time
sockets = []
for address in ("\\\\0" + {{mark!r}}, "/tmp/" + {{mark!r}}[:20] + ".sock"):
    one = socket.socket(socket.AF_UNIX)
    one.bind(address)
    one.listen()
    sockets.append(one)
sockets.append(socket.create_server(("127.0.0.1", {{port}})))
print("listening", flush=True)
time.sleep(10000)
'''.format(mark=MARK, port=PORT)
process = subprocess.Popen([sys.executable, "-c", lives_on, MARK], start_new_session=True, stdout=subprocess.PIPE,
                           env={{"TRACE": MARK, "PATH": os.environ["PATH"]}})
print(process.stdout.readline().decode())
"""

SEARCH = f"""
KEY, PORT = {KEY}, {PORT}
me = {{os.getpid(), os.getppid()}}
SOUGHT = BACKWARDS[::-1]
sought = SOUGHT.encode()
for place in ("/workspace", "/home/user", "/tmp", "/dev/shm", "/var/tmp", "/run", "/dev/mqueue"):
    for top, directories, files in os.walk(place):
        for name in directories + files:
            path = os.path.join(top, name)
            if SOUGHT in name:
                print("file name:", path)
            if os.path.isfile(path):
                try:
                    os.chmod(path, 0o600)
                except OSError:
                    pass
                try:
                    content = open(path, "rb").read(1 << 20)
                except OSError:
                    continue
                if sought in content:
                    print("file:", path)
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name, kind in (("cmdline", "process"), ("environ", "environment of a process")):
        try:
            content = open(f"/proc/{{pid}}/{{name}}", "rb").read()
        except OSError:
            continue
        if sought in content and int(pid) not in me:
            print(f"{{kind}}: {{pid}}")
for line in open("/proc/net/unix"):
    if "@" + SOUGHT in line:
        print("abstract socket:", line.split()[-1])
    elif SOUGHT[:20] in line and "/tmp/" in line:
        print("socket:", line.split()[-1])
calls = {{"shared memory": ("shmget", KEY, 0, 0), "semaphore": ("semget", KEY, 0, 0),
         "message queue": ("msgget", KEY, 0), "POSIX queue": ("mq_open", b"trace", 0, 0, None)}}
for kind, call in calls.items():
    try:
        syscall(*call)
    except OSError:
        continue
    print(f"{{kind}}: {{KEY:#x}}")
try:
    socket.create_connection(("127.0.0.1", PORT), 1)
    print("port:", PORT)
except OSError:
    pass
fresh = os.open("/workspace/fresh", os.O_CREAT | os.O_EXCL | os.O_RDWR)
os.unlink("/workspace/fresh")
os.posix_fallocate(fresh, 0, 16 << 20)
if sought in mmap.mmap(fresh, 16 << 20) or os.pread(fresh, 1 << 20, 0).strip(b"\\0"):
    print("disk: blocks that were not written to")
for _ in range(8):
    if mmap.mmap(-1, 1 << 20)[:].strip(b"\\0"):
        print("memory: pages that were not written to")
"""
