"""What attempts of the family protocol begin with: a kernel's connections in the hands of user code.

Read inside the sandbox, in the kernel. User code has the key and the kernel's sockets by nature: it is the kernel.
`forge(channel, type, content, ...)` sends a signed message on the very connection that the guest reads, `raw` bytes.
"""

FORGED = "f0rged"
"""What is forged; each attempt says it in a word of its own that begins so."""

FORGERY = '''
import hmac, json, os, socket, stat, struct, sys, threading, time

GVISOR = "4.4.0"
NUMBERS_OF = {"shell": 1, "iopub": 2, "stdin": 3, "control": 4}
kernel = get_ipython().kernel
own = dict(kernel.get_parent("shell")["header"])
own["date"] = str(own["date"])
earlier, last_of_all = globals().get("last_of_all", "0" * 32), own["msg_id"]

def connections(channel):
    """That which the guest reads. Under gVisor also the one that a kernel has with itself, which looks the same."""
    gvisor, found = os.uname().release == GVISOR, {}
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            one = socket.socket(fileno=os.dup(int(name)))
            address, _ = one.getsockname(), one.getpeername()  # what only listens has no other end
            peer = struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        except OSError:
            continue
        if str(address).endswith(f"-{NUMBERS_OF[channel]}") and (gvisor or peer != os.getpid()):
            found[os.fstat(one.fileno()).st_ino] = one
    if not found:
        raise LookupError(f"no connection to {channel}")
    return list(found.values())

def raw(channel, data, seconds=20):
    sys.stdout.flush()  # what ZMQ's own thread still has to write would come between on a slow machine
    for one in connections(channel):
        view, give_up = memoryview(data), time.monotonic() + seconds
        while view and time.monotonic() < give_up:
            try:
                view = view[os.write(one.fileno(), view[:65536]):]
            except BlockingIOError:
                time.sleep(0.0002)
            except BrokenPipeError:  # one that was given up
                break

def close(channel):
    for one in connections(channel):
        try:
            one.shutdown(2)
        except OSError:
            pass

def wire(frames):
    sizes = [struct.pack("!BQ", 2 | (n < len(frames) - 1), len(frame)) for n, frame in enumerate(frames)]
    return b"".join(size + frame for size, frame in zip(sizes, frames))

def signed(parts, key=None):
    digest = hmac.new(kernel.session.key if key is None else key, digestmod="sha256")
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()

def message(kind, content, parent=None, key=None, more=(), **header):
    header = {"msg_id": "forged", "msg_type": kind, "session": "s", "username": "u", "version": "5.3", **header}
    parts = [json.dumps(header).encode(), json.dumps(own if parent is None else parent).encode(), b"{}"]
    parts.append(content if isinstance(content, bytes) else json.dumps(content).encode())
    return [b"topic", b"<IDS|MSG>", signed(parts, key), *parts, *more]

def forge(channel, kind, content, **options):
    raw(channel, wire(message(kind, content, **options)))

def shown(text):
    return {"data": {"text/plain": text}, "metadata": {}, "transient": {}}

time.sleep(0.05)
'''

IMPOSTOR = """
import os, site
home = site.getusersitepackages()
os.makedirs(home, exist_ok=True)
open(f"{{home}}/usercustomize.py", "w").write('''
import json, os, socket, sys, threading, time
if "kernel_main" in " ".join(sys.orig_argv):
    os.unlink(__file__)
    place = json.load(open(sys.orig_argv[-1]))["ip"]
    GREETING = b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00" + b"NULL".ljust(20, b"\\0") + bytes(32)
    READY = b"\\4\\x1c\\5READY\\x0bSocket-Type\\0\\0\\0\\6ROUTER"
    def serve(one):
        connection, _ = one.accept()
        give_up = time.monotonic() + 1.5
{behaviour}
    for number in range(1, 6):
        one = socket.socket(socket.AF_UNIX)
        one.bind(f"{{place}}-{{number}}")
        one.listen()
        threading.Thread(target=serve, args=(one,), daemon=True).start()
    time.sleep(1.5)
    os._exit(7)
''')
print("waiting")
"""
"""A program in the place of the next kernel, once: it binds the kernel's sockets and speaks as `behaviour` does."""
