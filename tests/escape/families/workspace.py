"""Attempts on what handles the workspace from outside: the mirror, the file routes, and the next restore.

Most of what is made there may be made: the refusal is theirs, and `check` sees to it. No route answers with what is
not the workspace's, the store holds regular files and nothing that came through a link, and the mirror goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.escape.attempt import Attempt, Family
from tests.escape.checks import workspace as checks
from tests.escape.position import Scene

Check = Callable[[Scene, str], None]

BEFORE = """
import pathlib
HERE = pathlib.Path("/workspace/{here}")
HERE.mkdir(exist_ok=True)
os.chdir(HERE)

def forever(step, seconds={seconds}):
    \"\"\"Go on in a process that nobody waits for.\"\"\"
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(os.open("/dev/null", os.O_RDWR), 1)
            give_up = time.monotonic() + seconds
            while time.monotonic() < give_up:
                try:
                    step()
                except OSError:
                    pass
        os._exit(0)
    os.wait()
"""


def made(name: str, program: str, check: Check, expect: str | dict[str, str] = "said: made") -> Attempt:
    """An attempt whose program only prepares, in a directory of its own that `check` gets."""
    here = name.replace(" ", "-")
    before = BEFORE.format(here=here, seconds=checks.RACE_SECONDS + 0.3)
    return Attempt(name, f"{before}{program}\nprint('made')", expect, check=lambda scene: check(scene, here))


def link(name: str, target: str) -> Attempt:
    """A link in the workspace; `target` is an expression of the program."""
    return made(name, f"os.symlink({target}, 'link')", checks.link_leads_nowhere)


FILE = "pathlib.Path({}).write_bytes(b'theirs')\n"

ATTEMPTS = (
    link("lead an absolute link to a host file", "host.file"),
    link("lead an absolute link to a file of the image", "'/etc/passwd'"),
    link("lead an absolute link to a directory of the image", "'/etc'"),
    link("lead a relative link out of the workspace", "'../../../../../../../../etc'"),
    link("lead a link to the root of the guest", "'/proc/1/root/etc'"),
    link("lead a link to the root of its reader", "'/proc/self/root/etc'"),
    link("lead a link to a descriptor of its reader", "'/proc/self/fd/0'"),
    link("lead a link to a device", "'/dev/zero'"),
    link("lead a link to the neighbour's workspace", "host.data_dir + '/sandboxes/' + neighbour.session_id"),
    link("lead a link to nothing", "'/nowhere/at/all'"),
    link("lead a link to itself", "'link'"),
    link("lead a link through a chain", "(os.symlink('/etc', '/tmp/chain'), '/tmp/chain')[1]"),
    link("lead a link of the longest target", "'/' * 4000 + 'etc'"),
    Attempt("hard link a file of the image into the workspace", "os.link('/etc/passwd', '/workspace/hard')", "EXDEV"),
    Attempt(
        "hard link a file of the home into the workspace",
        "open('/home/user/h', 'w'); os.link('/home/user/h', '/workspace/hard')",
        "EXDEV",
    ),
    Attempt("hard link a directory", "os.link('/workspace', '/workspace/hard')", "EPERM"),
    Attempt(
        "hard link the guest's program",
        "syscall(265, AT_FDCWD, b'/proc/1/exe', AT_FDCWD, b'/workspace/hard', 0x400)",
        "EACCES",
    ),
    made(
        "write through a hard link with a route",
        FILE.format("'one'") + "os.link('one', 'two')",
        checks.hard_link_is_a_file,
    ),
    Attempt("rename the workspace away", "os.rename('/workspace', '/tmp/away')", "EXDEV"),
    Attempt("replace the workspace by a link", "os.rmdir('/workspace')", {"runc": "EROFS", "runsc": "EACCES"}),
    Attempt("rename a file of the image into the workspace", "os.rename('/etc/passwd', '/workspace/passwd')", "EXDEV"),
    made("leave a FIFO", FILE.format("'plain'") + "os.mkfifo('special')", checks.special_file_is_counted_only),
    made(
        "leave a socket",
        FILE.format("'plain'") + "one = socket.socket(socket.AF_UNIX); one.bind('special')",
        checks.special_file_is_counted_only,
    ),
    Attempt("make a character device", "os.mknod('/workspace/null', stat.S_IFCHR | 0o666, os.makedev(1, 3))", "EPERM"),
    Attempt("make a block device", "os.mknod('/workspace/disk', stat.S_IFBLK | 0o666, os.makedev(7, 0))", "EPERM"),
    made(
        "swap a file for a link",
        FILE.format("'one'") + "def swap():\n"
        "    for target in ('/etc/passwd', '/proc/self/root/etc/passwd', host.file):\n"
        "        os.symlink(target, 'next'); os.rename('next', 'one')\n"
        "        pathlib.Path('next').write_bytes(b'theirs'); os.rename('next', 'one')\n"
        "forever(swap)",
        lambda scene, here: checks.race(scene, here, "one", checks.OWN),
    ),
    made(
        "swap a directory for a link",
        "os.mkdir('room'); os.symlink('/etc', 'next')\n"
        + FILE.format("'room/passwd'")
        + "def swap():\n    syscall(316, AT_FDCWD, b'room', AT_FDCWD, b'next', 2)\n"  # renameat2, RENAME_EXCHANGE
        "forever(swap)",
        lambda scene, here: checks.race(scene, here, "room/passwd", checks.OWN),
    ),
    made(
        "swap a directory two levels up for a link",
        "os.makedirs('a/b'); os.symlink('/proc/self/root', 'next'); os.makedirs('a/etc')\n"
        + FILE.format("'a/etc/passwd'")
        + "def swap():\n    syscall(316, AT_FDCWD, b'a', AT_FDCWD, b'next', 2)\n"
        "forever(swap)",
        lambda scene, here: checks.race(scene, here, "a/etc/passwd", checks.OWN),
    ),
    made(
        "swap a file for a FIFO, a socket and a directory",
        "def swap():\n"
        "    pathlib.Path('one').write_bytes(b'theirs'); os.unlink('one')\n"
        "    os.mkfifo('one'); os.unlink('one')\n"
        "    one = socket.socket(socket.AF_UNIX); one.bind('one'); os.unlink('one')\n"
        "    os.mkdir('one'); os.rmdir('one')\n"
        "forever(swap)",
        lambda scene, here: checks.race(scene, here, "one", checks.OWN),
    ),
    made(
        "move a directory away while it is walked",
        "os.makedirs('a/b/c/d')\n"
        + FILE.format("'a/b/c/d/one'")
        + "def swap():\n    os.rename('a/b/c', 'c'); os.rename('c', 'a/b/c')\n"
        "forever(swap)",
        lambda scene, here: checks.race(scene, here, "a/b/c/d/one", checks.OWN),
    ),
    made(
        "put a link in the place of an upload under way",
        "def swap():\n"
        "    for name in os.listdir('.'):\n"
        "        if name.startswith('.sandcell-upload-'):\n"
        "            os.symlink(host.file, 'link'); os.rename('link', name)\n"
        "forever(swap)",
        checks.upload_is_no_way_out,
    ),
    made(
        "use every byte as a name",
        "names = {bytes([byte]) for byte in range(1, 256) if not chr(byte).isalnum()} - {b'.', b'/'}\n"
        "for name in names | {b'\\xff\\xfe' * 100, b'%2e%2e', b'...', b' ' * 9}:\n"
        "    open(name, 'wb').write(b'theirs')",
        checks.any_name_is_only_a_name,
    ),
    made(
        "use names and paths as long as they get",
        FILE.format("'n' * 255")
        + "for _ in range(40):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        + FILE.format("'deep'"),
        checks.long_paths_are_left_out_and_told,
    ),
    made(
        "close files to their reader",
        FILE.format("'closed'")
        + "os.mkdir('room')\n"
        + FILE.format("'room/inner'")
        + "os.chmod('closed', 0); os.chmod('room/inner', 0); os.chmod('room', 0)",
        checks.closed_files_are_kept,
    ),
    made(
        "have the store keep a setuid program",
        "import shutil; shutil.copy('/bin/sh', 'sh'); os.chmod('sh', 0o6777)\n"
        "os.mkdir('sticky'); os.chmod('sticky', 0o3777)",
        checks.bits_do_not_travel,
    ),
    made(
        "fill the store with holes",
        "for number in range(12):\n    os.truncate(os.open(f'hole{number}', os.O_CREAT | os.O_WRONLY), 260 << 20)",
        checks.holes_fill_no_store,
    ),
    made(
        "set times at the ends of time",
        "for name, seconds in (('first', -2**31), ('last', 15032385535), ('before', -1), ('fraction', 1)):\n"
        "    open(name, 'wb').write(b'theirs'); os.utime(name, ns=(0, seconds * 10**9 + 999_999_999))",
        checks.times_are_times,
    ),
    made(
        "hold a lease on a file",
        FILE.format("'other'")
        + FILE.format("'leased'")
        + "holder = 'import fcntl, os, signal, time; signal.signal(signal.SIGIO, signal.SIG_IGN);'"
        " 'fcntl.fcntl(os.open(\"leased\", os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK); time.sleep(60)'\n"
        "subprocess.Popen([sys.executable, '-c', holder], start_new_session=True, stderr=subprocess.DEVNULL)\n"
        "time.sleep(0.5)",
        checks.lease_holds_nobody_up,
    ),
    made(
        "name files as the store names its own",
        "for place in ('.', '..'):\n"
        "    for name in ('manifest.json', 'history.ipynb', '%long', '.incoming'):\n"
        "        pathlib.Path(place, name).write_bytes(b'theirs')",
        checks.names_of_ours_are_theirs,
    ),
    Attempt(
        "give a file a capability",
        "open('/workspace/x', 'w'); os.setxattr('/workspace/x', 'security.capability', b'\\1\\0\\0\\2' + bytes(16))",
        {"runc": "EPERM", "runsc": "ENOTSUP"},
    ),
    Attempt(
        "give a file an attribute of the system",
        "open('/workspace/x', 'w'); os.setxattr('/workspace/x', 'trusted.overlay.opaque', b'y')",
        {"runc": "EPERM", "runsc": "ENOTSUP"},
    ),
    Attempt(
        "make a file immutable",
        "open('/workspace/x', 'w'); fcntl.ioctl(os.open('/workspace/x', 0), 0x40086602, struct.pack('l', 0x10))",
        {"runc": "EPERM", "runsc": "ENOTTY"},
    ),
    Attempt(
        "freeze the file system",
        "fcntl.ioctl(os.open('/workspace', 0), 0xC0045877, 0)",
        {"runc": "EPERM", "runsc": "ENOTTY"},
    ),
    Attempt(
        "shut the file system down",
        "fcntl.ioctl(os.open('/workspace', 0), 0x8004587D, struct.pack('I', 2))",
        {"runc": "EPERM", "runsc": "ENOTTY"},
    ),
    Attempt(
        "grow the file system",
        "fcntl.ioctl(os.open('/workspace', 0), 0x40086610, struct.pack('Q', 1 << 40))",
        {"runc": "EPERM", "runsc": "ENOTTY"},
    ),
    Attempt(
        "have the next session restore what is hostile",
        "print('made')",
        "said: made",
        check=checks.next_session_finds_the_same,
    ),
)

FAMILY = Family(
    "workspace", "links, hard links, renames, races, sockets, FIFOs and device nodes in the workspace", ATTEMPTS
)
