"""Attempts on PID 1 of the sandbox: to end it, to read or steer it, to be taken for it, and to leave it no room.

Observing it by the calls of debuggers is in `observation`; here it is by name, by its sockets, its files and what it
needs to work: processes, its directories, its program, a Python that imports nothing of the user's.
"""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family
from tests.escape.checks import guest as checks

CONNECT = "one = socket.socket(socket.AF_UNIX); one.connect({!r})"

NOTED = {"runc": "EPERM", "runsc": "said: noted"}
"""gVisor records what any process asks of the scheduler, and does nothing of it."""

READ_ONLY = {"runc": "EROFS", "runsc": "EACCES"}
"""Of writing where nothing can be written: gVisor looks at the file's mode first."""

PROC = {"runc": "EROFS", "runsc": "EACCES"}
"""Of writing to a process's files: under runc all of /proc is read-only."""

SOCKETS = "/run/sandcell/kernel"

ATTEMPTS = (
    Attempt("kill the guest", "os.kill(1, signal.SIGKILL)", "EPERM"),
    Attempt("stop the guest", "os.kill(1, signal.SIGSTOP)", "EPERM"),
    Attempt("ask the guest to end", "os.kill(1, signal.SIGTERM)", "EPERM"),
    Attempt("kill a thread of the guest", "syscall(234, 1, 1, signal.SIGKILL)", "EPERM"),
    Attempt("queue a signal to the guest", "syscall(129, 1, signal.SIGTERM, bytes(128))", "EPERM"),
    Attempt(
        "kill everything but the guest",
        "os.kill(-1, signal.SIGKILL)",
        "died: signal SIGKILL",
        check=checks.next_generation_works,
    ),
    Attempt(
        "stop the kernel that the guest has started",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "died: deadline SIGKILL",
        "kernel",
        seconds=5,
        check=checks.next_generation_works,
    ),
    Attempt(
        "stop what the guest starts",
        "stopper = '''\n"
        "import os, signal, time\n"
        "known, give_up = set(os.listdir('/proc')), time.monotonic() + 2\n"
        "print('stopping', flush=True)\n"
        "while time.monotonic() < give_up:\n"
        "    for pid in set(os.listdir('/proc')) - known:\n"
        "        try: os.kill(int(pid), signal.SIGSTOP)\n"
        "        except (OSError, ValueError): pass\n"
        "open('/tmp/stopper-is-over', 'w')\n"
        "'''\n"
        "stops = subprocess.Popen([sys.executable, '-c', stopper], stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(stops.stdout.readline().decode().strip())",
        "said: stopping",
        check=checks.commands_end_in_time,
    ),
    Attempt(
        "read the guest's environment",
        "print(sorted(x.split('=')[0] for x in read('/proc/1/environ').decode().split('\\0') if x))",
        {"runc": "EACCES", "runsc": "said: ['HOME', 'LANG', 'PATH']"},
    ),
    Attempt(
        "read what the guest is linked to",
        "read('/proc/1/auxv'); print('read')",
        {"runc": "EACCES", "runsc": "said: read"},
    ),
    Attempt(
        "list the guest's files", "os.listdir('/proc/1/fd'); print('read')", {"runc": "EACCES", "runsc": "said: read"}
    ),
    Attempt(
        "list where the guest's files stand",
        "os.listdir('/proc/1/fdinfo'); print('read')",
        {"runc": "EACCES", "runsc": "said: read"},
    ),
    Attempt("open a file of the guest", "os.open('/proc/1/fd/0', os.O_RDWR)", "EACCES"),
    Attempt("enter the guest's root", "os.chdir('/proc/1/root')", "EACCES"),
    Attempt("enter the guest's directory", "os.chdir('/proc/1/cwd')", "EACCES"),
    Attempt("read the guest's program by its process", "read('/proc/1/exe')", "EACCES"),
    Attempt("write the guest's program by its process", "os.open('/proc/1/exe', os.O_WRONLY)", "EACCES"),
    Attempt("write the guest's memory as a file", "os.open('/proc/1/mem', os.O_RDWR)", PROC),
    Attempt("have the guest killed first", "write('/proc/1/oom_score_adj', '1000')", PROC),
    Attempt("rename the guest", "write('/proc/1/comm', 'taken')", PROC),
    Attempt("take the guest's descriptors from it by a limit", "syscall('prlimit64', 1, 7, bytes(16), None)", "EPERM"),
    Attempt(
        "give the guest no time", "os.sched_setscheduler(1, 5, os.sched_param(0))", {"runc": "EPERM", "runsc": "EINVAL"}
    ),
    Attempt("make the guest wait", "os.setpriority(os.PRIO_PROCESS, 1, 19); print('noted')", NOTED),
    Attempt("keep the guest off the processors", "os.sched_setaffinity(1, {0}); print('noted')", NOTED),
    Attempt("move the guest to another group", "os.setpgid(1, 0)", "ESRCH"),
    Attempt("speak with the guest", CONNECT.format("/run/sandcell/guest/http.sock"), "EACCES"),
    Attempt("be the service for the guest", CONNECT.format("/run/sandcell/guest/relay.sock"), "EACCES"),
    Attempt(
        "be the guest for the service",
        "one = socket.socket(socket.AF_UNIX); one.bind('/run/sandcell/guest/relay.sock')",
        "EACCES",
    ),
    Attempt(
        "reach what the guest keeps on disk of what was said",
        "reached, over = set(), False\n"
        "def reach():\n"
        "    while not over:\n"
        "        for path in glob.glob('/tmp/.*'):\n"
        "            for take in (open, lambda p: os.link(p, '/tmp/held'), lambda p: os.rename(p, '/tmp/held')):\n"
        "                try: take(path); reached.add(path)\n"
        "                except OSError: pass\n"
        "import glob, os, sys, threading\n"
        "reaching = threading.Thread(target=reach); reaching.start()\n"
        "for _ in range(80): print('x' * 100_000, file=sys.stderr)\n"
        "over = True; reaching.join(); print(sorted(reached))",
        "said: []",
        "kernel",
    ),
    Attempt("see the guest's socket", "os.listdir('/run/sandcell/guest')", "EACCES"),
    Attempt("remove the guest's socket", "os.unlink('/run/sandcell/guest/http.sock')", "EACCES"),
    Attempt("rename the guest's directory", "os.rename('/run/sandcell/guest', '/run/sandcell/old')", "EACCES"),
    Attempt("replace the guest's directory", "os.rmdir('/run/sandcell/guest')", "EACCES"),
    Attempt("open the guest's directory to all", "os.chmod('/run/sandcell/guest', 0o777)", "EPERM"),
    Attempt("put a link beside the guest's directory", "os.symlink('/tmp', '/run/sandcell/gues')", "EACCES"),
    Attempt("rename the directory of the kernel's sockets", f"os.rename({SOCKETS!r}, '/run/sandcell/old')", "EACCES"),
    Attempt("remove the directory of the kernel's sockets", f"os.rmdir({SOCKETS!r})", "EACCES"),
    Attempt(
        "watch the guest's directory",
        "syscall(254, syscall(253), b'/run/sandcell/guest', 0xFFF); print('noted')",
        {"runc": "EACCES", "runsc": "said: noted"},
    ),
    Attempt(
        "bind where the guest will",
        "one = socket.socket(socket.AF_UNIX); one.bind('/run/sandcell/guest/http.sock')",
        "EACCES",
    ),
    Attempt("speak with the way out, around the guest", CONNECT.format("/run/sandcell/egress/http.sock"), "ENOENT"),
    Attempt(
        "be the guest of an abstract name",
        "one = socket.socket(socket.AF_UNIX); one.connect('\\0/run/sandcell/guest/http.sock')",
        "ECONNREFUSED",
    ),
    Attempt("write the guest's program", "os.open('/opt/sandcell/guest/boot.py', os.O_WRONLY)", READ_ONLY),
    Attempt("remove the guest's program", "os.unlink('/opt/sandcell/guest/boot.py')", READ_ONLY),
    Attempt(
        "poison the guest's bytecode",
        "os.makedirs('/opt/sandcell/guest/__pycache__', exist_ok=True)\n"
        "os.open('/opt/sandcell/guest/__pycache__/main.pyc', os.O_CREAT | os.O_WRONLY)",
        READ_ONLY,
    ),
    Attempt(
        "put a module beside the guest's",
        "os.open('/opt/sandcell/guest/tornado.py', os.O_CREAT | os.O_WRONLY)",
        READ_ONLY,
    ),
    Attempt("write the program that is one's own and the guest's", "os.open('/proc/self/exe', os.O_WRONLY)", READ_ONLY),
    Attempt(
        "write the modules that the guest imports", "import tornado; os.open(tornado.__file__, os.O_WRONLY)", READ_ONLY
    ),
    Attempt(
        "find a descriptor that the guest has left open",
        "print('asking')",
        "said: asking",
        check=checks.commands_inherit_nothing,
    ),
    Attempt(
        "have the guest import modules of the user",
        "import site\n"
        "home = site.getusersitepackages()\n"
        "os.makedirs(home, exist_ok=True)\n"
        'mark = \'import os, sys\\nopen(f"/tmp/imported", "a").write(f"{os.getuid()} {os.getpid()}\\\\n")\\n\'\n'
        "for place, name in ((home, 'usercustomize'), (home, 'sitecustomize'), (home, 'mark_it')):\n"
        "    open(f'{place}/{name}.py', 'w').write(mark)\n"
        "open(f'{home}/mark.pth', 'w').write('import mark_it\\n')\n"
        "for name in ('json', 'asyncio', 'tornado', 'heapq', 'stat', 'signal', 'ctypes', 'errno', 'select'):\n"
        "    for place in ('/workspace', '/home/user', '/tmp'):\n"
        "        open(f'{place}/{name}.py', 'w').write(mark + 'raise SystemExit(1)')\n"
        "open('/home/user/.bashrc', 'w').write('echo $UID $$ >> /tmp/imported\\n')\n"
        "print('set')",
        "said: set",
        check=checks.root_imports_nothing,
    ),
    Attempt(
        "leave no room for the next kernel's sockets",
        "filled = 0\n"
        f"descriptor = os.open('{SOCKETS}/full', os.O_CREAT | os.O_WRONLY)\n"
        "try:\n"
        "    while True: filled += os.write(descriptor, bytes(4096))\n"
        "except OSError as error:\n"
        "    print(errno.errorcode[error.errno])",
        "said: ENOSPC",
        check=checks.restarts,
    ),
    Attempt(
        "leave no name for the next kernel's sockets",
        f"os.makedirs('{SOCKETS}/deep/er')\n"
        "try:\n"
        f"    for number in range(300): os.mkfifo(f'{SOCKETS}/deep/er/{{number}}')\n"
        "    print('made')\n"
        "except OSError as error:\n"
        "    print(errno.errorcode[error.errno])\n"
        f"os.chmod('{SOCKETS}/deep/er', 0); os.chmod('{SOCKETS}/deep', 0); os.chmod('{SOCKETS}', 0)",
        {"runc": "said: ENOSPC", "runsc": "said: made"},  # gVisor keeps FIFOs to itself
        check=checks.restarts,
    ),
    Attempt(
        "have the guest write through a link",
        f"os.chmod('{SOCKETS}', 0o777)\n"
        "for number in range(2, 40):\n"
        "    for name in (f'g{number}.json', *(f'g{number}-{port}' for port in (1, 3))):\n"
        "        try: os.symlink('/workspace/victim', f'/run/sandcell/kernel/{name}')\n"
        "        except OSError: pass\n"
        "open('/workspace/victim', 'w').write('untouched'); print('linked')",
        "said: linked",
        check=checks.victim_is_untouched,
    ),
    Attempt(
        "leave the guest the dead",
        "for _ in range(150):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "give_up = time.monotonic() + 5\n"
        "def dead():\n"
        "    stats = [read(path).decode() for path in glob.glob('/proc/[0-9]*/stat') if os.path.exists(path)]\n"
        "    return sum(stat.rpartition(') ')[2].startswith('Z 1 ') for stat in stats)\n"
        "while dead() and time.monotonic() < give_up: time.sleep(0.05)\n"
        "print(dead())",
        "said: 0",
    ),
    Attempt(
        "keep the guest busy with tasks that do not end",
        "print('ready')",
        "said: ready",
        check=checks.tasks_are_bounded,
    ),
    Attempt(
        "lead the guest out of the sandbox by links, as a client that names any place in it",
        "for name, to in (('way', '/proc/1'), ('door', '/run/sandcell')):\n"
        "    path = '/home/user/' + name\n"
        "    if os.path.lexists(path): os.unlink(path)\n"
        "    os.symlink(to, path)\n"
        "print('placed')",
        "said: placed",
        check=checks.links_lead_nowhere,
    ),
    Attempt(
        "outlive a program in a terminal",
        "print('ready')",
        "said: ready",
        check=checks.terminals_end_with_all_in_them,
    ),
    Attempt("flood those who follow programs", "print('ready')", "said: ready", check=checks.floods_wait),
)

FAMILY = Family("guest", "the guest: kill, ptrace, its socket, its memory, its binary through /proc/self/exe", ATTEMPTS)
