"""The part of the corpus that lives in the sandbox: runs each attempt in a process of its own, forked from a warm one.

Read as text, put together with the prelude and started by the session's kernel. Takes a request a line on stdin
(`{program, where, seconds, names}`), answers a line on stdout (`{outcome, stdout, stderr}`).
"""

import errno
import json
import os
import signal
import sys
import time
import types

TEXT_BYTES = 64 * 1024


def serve(prelude):
    """Answer until stdin closes."""
    prepared = {"__name__": "__attempt__"}
    exec(prelude, prepared)
    answers = os.fdopen(os.dup(1), "w")
    requests = os.fdopen(os.dup(0), "r")
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for line in requests:
        answers.write(json.dumps(attempt(json.loads(line), prepared)) + "\n")
        answers.flush()


def attempt(request, prepared):
    """Run one request in a child."""
    outputs = [os.memfd_create("stdout"), os.memfd_create("stderr")]
    report, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(report)
        become(request, prepared, outputs, tell)
    os.close(tell)
    status = wait(child, request["seconds"])
    os.set_blocking(report, False)
    try:
        told = os.read(report, TEXT_BYTES).decode(errors="replace")
    except BlockingIOError:
        told = ""
    os.close(report)
    stdout, stderr = (os.pread(one, TEXT_BYTES, 0).decode(errors="replace") for one in outputs)
    for one in outputs:
        os.close(one)
    return {"outcome": outcome_of(status, told, stdout, stderr), "stdout": stdout, "stderr": stderr}


def outcome_of(status, told, stdout, stderr):
    if status is None:
        return "timeout"
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    if told:
        return told
    if os.WEXITSTATUS(status):
        last = stderr.strip().splitlines()[-1:] or [""]
        return f"exit {os.WEXITSTATUS(status)}: {last[0]}"
    return f"said: {stdout.strip()}" if stdout.strip() else "done"


def wait(child, seconds):
    """The child's status, or None when it did not end and was killed with its session."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.002)
    for victim in (-child, child):
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.waitpid(child, 0)
    return None


def become(request, prepared, outputs, tell):
    """In the child: be the attempt. Never returns."""
    os.setsid()
    for standard, memory in enumerate(outputs, 1):
        os.dup2(memory, standard)
    os.environ.update({name.upper(): value for name, value in request["names"].items() if isinstance(value, str)})
    if request["where"] == "shell":
        os.execv("/bin/sh", ["/bin/sh", "-c", request["program"]])
    told = ""
    try:
        exec(compile(request["program"], "<attempt>", "exec"), namespace(prepared, request["names"]))
    except OSError as error:
        told = errno.errorcode.get(error.errno, type(error).__name__)
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
    sys.stdout.flush()
    os.write(tell, told.encode()[:TEXT_BYTES])
    os._exit(0)


def namespace(prepared, names):
    """The prelude's names and this request's; a table becomes an object with attributes."""
    given = {
        name: types.SimpleNamespace(**value) if isinstance(value, dict) else value for name, value in names.items()
    }
    return {**prepared, **given}
