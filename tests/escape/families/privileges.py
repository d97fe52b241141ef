"""Attempts to become more than the user: by ids, setuid files, capabilities, exec and what it keeps."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

STATUS = (
    "print({line.split()[1] for line in open('/proc/self/status') if line[:6] in ('CapInh', "
    "'CapPrm', 'CapEff', 'CapAmb')})"
)

FAMILY = Family(
    "privileges",
    "setuid binaries, capabilities regained over exec, no_new_privs",
    (
        Attempt("become root", "os.setuid(0)", "EPERM"),
        Attempt("become root by all three ids", "os.setresuid(0, 0, 0)", "EPERM"),
        Attempt("become root by the real id", "os.setreuid(0, -1)", "EPERM"),
        Attempt("become root's group", "os.setgid(0)", "EPERM"),
        Attempt("become root's group by all three ids", "os.setresgid(0, 0, 0)", "EPERM"),
        Attempt("join groups", "os.setgroups([0, 42, 6])", "EPERM"),
        Attempt(
            "become root for files",
            "syscall('setfsuid', 0)\nprint(syscall('setfsuid', -1) == os.getuid())",
            {"runc": "said: True", "runsc": "ENOSYS"},
        ),
        Attempt("become another user", "os.setresuid(1001, 1001, 1001)", "EPERM"),
        Attempt("become nobody", "os.setresuid(65534, 65534, 65534)", "EPERM"),
        Attempt(
            "become a user outside the sandbox's range",
            "os.setresuid(70000, 70000, 70000)",
            {"runc": "EINVAL", "runsc": "EPERM"},
        ),
        Attempt("have capabilities", STATUS, "said: {'0000000000000000'}"),
        Attempt(
            "take a capability",
            "syscall('capset', struct.pack('IiIIIIII', 0x20080522, 0, 1, 1, 0, 0, 0, 0)[:8], "
            "struct.pack('6I', 0x200000, 0x200000, 0, 0, 0, 0))",
            "EPERM",
        ),
        Attempt(
            "take an inheritable capability",
            "syscall('capset', struct.pack('Ii', 0x20080522, 0), struct.pack('6I', 0, 0, 0x200000, 0, 0, 0))",
            "EPERM",
        ),
        Attempt(
            "raise an ambient capability", "syscall('prctl', 47, 2, 21, 0, 0)", {"runc": "EPERM", "runsc": "EINVAL"}
        ),
        Attempt(
            "keep capabilities",
            "syscall('prctl', 8, 1, 0, 0, 0)\n"
            "print(syscall('prctl', 7, 0, 0, 0, 0))\n"
            "syscall('capset', struct.pack('Ii', 0x20080522, 0), struct.pack('6I', 1, 1, 0, 0, 0, 0))",
            "EPERM",
        ),
        Attempt("drop a bounding capability", "syscall('prctl', 24, 0, 0, 0, 0)", "EPERM"),
        Attempt("set the secure bits", "syscall('prctl', 28, 1, 0, 0, 0)", {"runc": "EPERM", "runsc": "EINVAL"}),
        Attempt("regain privileges by unsetting no new privileges", "syscall('prctl', 38, 0, 0, 0, 0)", "EINVAL"),
        Attempt(
            "find no new privileges off after exec",
            "setpriv --dump 2>/dev/null | grep no_new_privs",
            "said: no_new_privs: 1",
            "shell",
        ),
        Attempt(
            "run a shell that is set to its owner",
            "import shutil\n"
            "shutil.copy('/bin/sh', '/tmp/mine')\n"
            "os.chmod('/tmp/mine', 0o6755)\n"
            "print(set(subprocess.run(['/tmp/mine', '-p', '-c', 'id -u; id -g'], capture_output=True, "
            "text=True).stdout.split()) == {str(os.getuid())})",
            "said: True",
        ),
        Attempt(
            "give a setuid file to root",
            "import shutil\nshutil.copy('/bin/sh', '/tmp/roots')\nos.chown('/tmp/roots', 0, 0)",
            "EPERM",
        ),
        Attempt("give a file away", "open('/tmp/given', 'w').close()\nos.chown('/tmp/given', 1001, -1)", "EPERM"),
        Attempt(
            "change the password of root",
            "passwd root < /dev/null",
            "exit 1: passwd: You may not view or modify password information for root.",
            "shell",
        ),
        Attempt(
            "switch groups", "newgrp root < /dev/null; test $(id -g) = $(id -u) && echo same", "said: same", "shell"
        ),
        Attempt(
            "use every setuid program of the image",
            "found = [path for top in ('/usr/bin', '/usr/sbin', '/usr/lib', '/usr/libexec', '/opt') "
            "for path in glob.glob(top + '/**', recursive=True) if os.path.isfile(path) and "
            "os.stat(path).st_mode & 0o6000]\n"
            "for path in found:\n"
            "    child = subprocess.Popen([path], stdin=subprocess.DEVNULL, "
            "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
            "    ids = [line.split()[1:] for line in open(f'/proc/{child.pid}/status') if "
            "line.startswith(('Uid', 'Gid'))]\n"
            "    child.kill()\n"
            "    child.wait()\n"
            "    if any(set(each) - {str(os.getuid())} for each in ids): print(path, ids)\n"
            "print('none')",
            "said: none",
        ),
        Attempt(
            "give a program capabilities",
            "import shutil\n"
            "shutil.copy('/bin/sh', '/tmp/capable')\n"
            "os.setxattr('/tmp/capable', 'security.capability', struct.pack('5I', 0x2000001, "
            "0xffffffff, 0, 0xffffffff, 0))",
            {"runc": "EPERM", "runsc": "ENOTSUP"},
        ),
        Attempt(
            "set a trusted attribute",
            "open('/tmp/trusted', 'w').close()\nos.setxattr('/tmp/trusted', 'trusted.overlay.opaque', b'y')",
            {"runc": "EPERM", "runsc": "ENOTSUP"},
        ),
        Attempt(
            "regain capabilities by running a program",
            "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u",
            "said: 0000000000000000",
            "shell",
        ),
        Attempt(
            "raise a limit",
            "resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))",
            "ValueError: not allowed to raise maximum limit",
        ),
        Attempt(
            "raise the limit of core files",
            "resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))",
            "ValueError: not allowed to raise maximum limit",
        ),
        Attempt("raise the limit of the guest", "resource.prlimit(1, resource.RLIMIT_NOFILE, (4, 4))", "EPERM"),
        Attempt("read the limits of the guest", "resource.prlimit(1, resource.RLIMIT_NOFILE)", "EPERM"),
        Attempt(
            "take real time",
            "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))",
            {"runc": "EPERM", "runsc": "EINVAL"},
        ),
        # gVisor records what it is asked of priorities and processors, and schedules as before.
        Attempt(
            "take a higher priority",
            "os.setpriority(os.PRIO_PROCESS, 0, -20)\nprint('noted')",
            {"runc": "EACCES", "runsc": "said: noted"},
        ),
        Attempt("take the disk first", "syscall(251, 1, 0, 1 << 13)", "EPERM"),
        Attempt("lower the chance to be killed", "write('/proc/self/oom_score_adj', '-1000')", "EROFS"),
        Attempt(
            "raise the guest's chance to be killed",
            "write('/proc/1/oom_score_adj', '1000')",
            {"runc": "EROFS", "runsc": "EACCES"},
        ),
        Attempt(
            "slow the guest down",
            "os.setpriority(os.PRIO_PROCESS, 1, 19)\nprint('noted')",
            {"runc": "EPERM", "runsc": "said: noted"},
        ),
        Attempt(
            "put the guest on one processor",
            "os.sched_setaffinity(1, {0})\nprint('noted')",
            {"runc": "EPERM", "runsc": "said: noted"},
        ),
        Attempt("write to the password file", "write('/etc/passwd', 'x')", {"runc": "EROFS", "runsc": "EACCES"}),
        Attempt("replace the loader", "os.rename('/tmp/given', '/lib64/ld-linux-x86-64.so.2')", "EXDEV"),
    ),
)
